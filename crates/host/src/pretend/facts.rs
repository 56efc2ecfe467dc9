//! The pretend side of [`Facts`]: what the profile says.

use model::task::health_probe::{FabricLink, Gpu};

use super::Pretend;
use crate::{Facts, Result};

impl Facts for Pretend {
    fn kernel_version(&self) -> Result<String> {
        self.call("kernel_version", |_, _| Ok("6.8.0-45-generic".to_owned()))
    }

    fn free_memory_mib(&self) -> Result<u64> {
        self.call("free_memory_mib", |profile, _| Ok(profile.free_memory_mib()))
    }

    fn kvm_present(&self) -> Result<bool> {
        self.call("kvm_present", |_, _| Ok(true))
    }

    fn vfio_modules(&self) -> Result<Vec<String>> {
        self.call("vfio_modules", |_, _| {
            Ok(["vfio", "vfio_iommu_type1", "vfio_pci"].map(str::to_owned).to_vec())
        })
    }

    fn gpus(&self) -> Result<Vec<Gpu>> {
        self.call("gpus", |profile, _| {
            let gpu = |n: u32| Gpu {
                pci_address: format!("0000:{:02x}:00.0", 0x18 + n * 0x10),
                model: profile.gpu_model().to_owned(),
                driver: Some("nvidia".to_owned()),
            };
            Ok((0..profile.gpu_count()).map(gpu).collect())
        })
    }

    fn fabric_links(&self) -> Result<Vec<FabricLink>> {
        self.call("fabric_links", |profile, _| {
            let link = |n| FabricLink {
                name: format!("mlx5_{n}"),
                up: true,
            };
            Ok((0..profile.fabric_count()).map(link).collect())
        })
    }

    fn root_free_bytes(&self) -> Result<u64> {
        self.call("root_free_bytes", |_, _| Ok(1 << 40))
    }
}
