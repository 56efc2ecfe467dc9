//! What a GPU is called, by the identity that its maker has put into its configuration space: the only one that the host
//! can read while no driver of the maker is bound. One we have no name for is called by its numbers, and can be rented
//! under these.

const NVIDIA: u16 = 0x10de;
const AMD: u16 = 0x1002;

/// The model, as a SKU names it.
pub fn name_of(vendor: u16, device: u16) -> String {
    let name = match (vendor, device) {
        (NVIDIA, 0x1db1 | 0x1db4 | 0x1db5 | 0x1db6) => "V100",
        (NVIDIA, 0x1eb8) => "T4",
        (NVIDIA, 0x20b0 | 0x20f1) => "A100-40G",
        (NVIDIA, 0x20b2 | 0x20b5) => "A100-80G",
        (NVIDIA, 0x2235) => "A40",
        (NVIDIA, 0x2236) => "A10",
        (NVIDIA, 0x2330) => "H100",
        (NVIDIA, 0x2331) => "H100-PCIE",
        (NVIDIA, 0x2321) => "H100-NVL",
        (NVIDIA, 0x2335) => "H200",
        (NVIDIA, 0x233b) => "H200-NVL",
        (NVIDIA, 0x26b5) => "L40",
        (NVIDIA, 0x26b9) => "L40S",
        (NVIDIA, 0x27b8) => "L4",
        (NVIDIA, 0x2901) => "B200",
        (AMD, 0x740c | 0x7408) => "MI250X",
        (AMD, 0x74a1) => "MI300X",
        _ => return format!("{vendor:04x}:{device:04x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_has_its_numbers() {
        assert_eq!(name_of(0x10de, 0x2330), "H100");
        assert_eq!(name_of(0x10de, 0x26b9), "L40S");
        assert_eq!(name_of(0x1002, 0x2330), "1002:2330");
    }
}
