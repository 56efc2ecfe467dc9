//! What a disk is, from sysfs: serial number, world-wide name, size; its controller, and who else lives there.

use std::collections::BTreeMap;

use model::value::{DiskId, DiskIdentity, Pci, Serial};

use super::Disks;
use super::controller::{Place, is_namespace};
use crate::Result;

const BY_ID: &str = "dev/disk/by-id";
const SECTOR_BYTES: u64 = 512;

impl Disks {
    /// By the kernel's name, the stable ones that point to it, best first.
    pub(super) fn stable_names(&self) -> Result<BTreeMap<String, Vec<DiskId>>> {
        let mut names: BTreeMap<String, Vec<DiskId>> = BTreeMap::new();
        for name in self.sys.names(BY_ID)? {
            let Ok(id) = name.parse::<DiskId>() else { continue };
            if let Some(disk) = self.sys.link_name(&format!("{BY_ID}/{name}"))? {
                names.entry(disk).or_default().push(id);
            }
        }
        for (disk, ids) in &mut names {
            ids.sort_by_key(|id| (rank(disk, id.as_str()), id.clone()));
        }
        Ok(names)
    }

    /// Of the disk whose directory this is; else what it lacks.
    pub(super) fn identity(&self, dir: &str, names: &[DiskId]) -> Result<std::result::Result<DiskIdentity, String>> {
        let Some(by_id) = names.first() else {
            return Ok(Err("it has no name in /dev/disk/by-id".to_owned()));
        };
        let serial = self.sys.optional(&format!("{dir}/device/serial"))?;
        let Some(serial) = serial.and_then(|text| text.parse::<Serial>().ok()) else {
            return Ok(Err("its controller answers no serial number".to_owned()));
        };
        let wwn = self.sys.optional(&format!("{dir}/wwid"))?;
        let Some(wwn) = wwn.and_then(|text| text.parse::<Serial>().ok()) else {
            return Ok(Err("it has no world-wide name".to_owned()));
        };
        let sectors = self.sys.text(&format!("{dir}/size"))?.parse::<u64>();
        let sectors = sectors.map_err(|_| self.sys.unreadable(&format!("{dir}/size"), "it is no number"))?;
        Ok(Ok(DiskIdentity {
            by_id: by_id.clone(),
            serial,
            wwn,
            size_bytes: sectors.saturating_mul(SECTOR_BYTES),
        }))
    }

    pub(super) fn controller(&self, dir: &str) -> Result<Option<Pci>> {
        let Some(place) = Place::of(&self.sys, dir)? else {
            return Ok(None);
        };
        let address = self.sys.optional(&format!("{}/address", place.dir))?;
        Ok(address.and_then(|address| address.parse().ok()))
    }

    /// Of its controller, as far as the kernel shows them.
    pub(super) fn namespaces(&self, dir: &str) -> Result<u32> {
        let place = Place::of(&self.sys, dir)?.map(|place| place.dir);
        let names = self.sys.names(&place.unwrap_or_else(|| format!("{dir}/device")))?;
        // The disk itself is one, wherever the kernel keeps its directory.
        Ok(u32::try_from(names.iter().filter(|name| is_namespace(name)).count())
            .unwrap_or(u32::MAX)
            .max(1))
    }
}

/// A name with the namespace's number says which of several it is; one without points to only one of them. Names made
/// of the model and serial number can be read on the disk's label; the others cannot.
fn rank(disk: &str, name: &str) -> u8 {
    let number = disk.rsplit('n').next().unwrap_or_default();
    let made_up = ["nvme-eui.", "nvme-nvme.", "nvme-uuid.", "nvme-nguid."];
    if made_up.iter().any(|start| name.starts_with(start)) {
        2
    } else {
        u8::from(!name.ends_with(&format!("_{number}")))
    }
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn the_name_that_says_which_namespace_comes_first() {
        let mut names = ["nvme-eui.0025", "nvme-X_S1", "nvme-X_S1_2"];
        names.sort_by_key(|name| rank("nvme0n2", name));
        assert_eq!(names, ["nvme-X_S1_2", "nvme-X_S1", "nvme-eui.0025"]);
    }
}
