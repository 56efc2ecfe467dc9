//! The pretend side of [`Facts`]: what the profile says.

use model::task::health_probe::{FabricLink, Gpu};

use super::{KERNEL_VERSION, Pretend};
use crate::{Facts, Function, Result};

impl Facts for Pretend {
    /// No task's look, so no fuse is in it.
    fn boot_id(&self) -> Result<String> {
        Ok(format!("pretend-{}", self.snapshot().boots))
    }

    fn kernel_version(&self) -> Result<String> {
        self.call("kernel_version", |_, _| Ok(KERNEL_VERSION.to_owned()))
    }

    fn free_memory_mib(&self) -> Result<u64> {
        self.call("free_memory_mib", |profile, _| Ok(profile.free_memory_mib()))
    }

    fn kvm_present(&self) -> Result<bool> {
        self.call("kvm_present", |_, state| Ok(!state.hardware.no_kvm))
    }

    fn vfio_modules(&self) -> Result<Vec<String>> {
        self.call("vfio_modules", |_, _| {
            Ok(["vfio", "vfio_iommu_type1", "vfio_pci"].map(str::to_owned).to_vec())
        })
    }

    fn gpus(&self) -> Result<Vec<Gpu>> {
        self.call("gpus", |_, state| {
            let gpus = state.hardware.functions.values().filter(|function| function.is_gpu());
            let gpu = |function: &Function| Gpu {
                pci_address: function.pci.to_string(),
                model: model::gpu::name_of(function.vendor, function.device),
                driver: function.driver.clone(),
            };
            Ok(gpus.map(gpu).collect())
        })
    }

    fn fabric_links(&self) -> Result<Vec<FabricLink>> {
        self.call("fabric_links", |_, state| {
            let all = state.hardware.functions.values();
            let ports = all.filter(|function| function.is_fabric() && function.physical_function.is_none());
            let link = |n| FabricLink {
                name: format!("mlx5_{n}"),
                up: true,
            };
            Ok((0..ports.count()).map(link).collect())
        })
    }

    fn root_free_bytes(&self) -> Result<u64> {
        self.call("root_free_bytes", |_, _| Ok(1 << 40))
    }
}
