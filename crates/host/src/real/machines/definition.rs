//! What libvirt says that a VM is: whose, how large, and which devices and disks it has.

use std::path::PathBuf;

use model::id::AllocationId;
use model::value::Pci;

use super::domain::NAMESPACE;
use super::scan::{Tag, tags};

/// One definition, as far as it matters here.
pub(super) struct Defined {
    pub(super) allocation: Option<AllocationId>,
    pub(super) memory_gib: u32,
    pub(super) devices: Vec<Pci>,
    pub(super) disks: Vec<PathBuf>,
}

/// None if it is not to be understood, or names a device in a way that we do not know.
pub(super) fn read(xml: &str) -> Option<Defined> {
    let mut defined = Defined {
        allocation: None,
        memory_gib: 0,
        devices: Vec::new(),
        disks: Vec::new(),
    };
    let (mut in_hostdev, mut in_disk, mut in_source) = (false, false, false);
    for tag in &tags(xml)? {
        let opens = !tag.closes && !tag.empty;
        match tag.name.as_str() {
            "hostdev" => in_hostdev = opens,
            "disk" => in_disk = opens,
            "source" => {
                in_source = opens;
                let path = tag.get("dev").or(tag.get("file"));
                defined
                    .disks
                    .extend(path.filter(|_| in_disk && !tag.closes).map(PathBuf::from));
            }
            "address" if in_hostdev && in_source => defined.devices.push(pci(tag)?),
            // The other tags of this name say where it is, and have no text.
            "memory" if opens && !tag.text.trim().is_empty() => {
                // Somebody else's may be told in other units, and is not ours to start.
                defined.memory_gib = gib(tag).unwrap_or_default();
            }
            "slice" if tag.get("xmlns") == Some(NAMESPACE) => {
                defined.allocation = tag.get("allocation")?.parse().ok();
            }
            _ => {}
        }
    }
    Some(defined)
}

/// Rounded up. libvirt says KiB, whatever it was told.
fn gib(tag: &Tag) -> Option<u32> {
    let number = tag.text.trim().parse::<u64>().ok()?;
    let per_gib: u64 = match tag.get("unit") {
        None | Some("KiB") => 1 << 20,
        Some("MiB") => 1 << 10,
        Some("GiB") => 1,
        Some(_) => return None,
    };
    u32::try_from(number.div_ceil(per_gib)).ok()
}

fn pci(tag: &Tag) -> Option<Pci> {
    let number = |name: &str| u32::from_str_radix(tag.get(name)?.strip_prefix("0x")?, 16).ok();
    let byte = |name: &str| u8::try_from(number(name)?).ok();
    Pci::new(number("domain")?, byte("bus")?, byte("slot")?, byte("function")?)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_a_vm_has_is_read_from_its_definition() {
        let xml = "<domain><metadata><slice xmlns='urn:gpuaas:slice:1' allocation='alloc_00000000000000000000000004'/>\
            </metadata><memory unit='KiB'>2147483649</memory><numatune><memory mode='strict' nodeset='0'/></numatune>\
            <devices><disk type='block'><source dev='/dev/disk/by-id/nvme-a' index='1'/></disk>\
            <interface><source bridge='x'/></interface><hostdev mode='subsystem'><driver name='vfio'/><source>\
            <address domain='0x0000' bus='0x18' slot='0x00' function='0x1'/></source>\
            <address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></hostdev></devices></domain>";
        let seen = read(xml).expect("readable");
        assert_eq!(seen.disks, [std::path::PathBuf::from("/dev/disk/by-id/nvme-a")]);
        assert_eq!(
            seen.devices.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["0000:18:00.1"]
        );
        assert!(seen.allocation.is_some());
        assert_eq!(seen.memory_gib, 2049);
    }
}
