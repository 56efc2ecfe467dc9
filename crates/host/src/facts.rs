//! What a health probe wants to know. Looking changes nothing.

use model::task::health_probe::{FabricLink, Gpu};

use crate::Result;

pub trait Facts: Send + Sync {
    /// Another one each time the host starts.
    fn boot_id(&self) -> Result<String>;
    fn kernel_version(&self) -> Result<String>;
    fn free_memory_mib(&self) -> Result<u64>;
    /// Usable, not only there: a device node on a processor without virtualisation does not count.
    fn kvm_present(&self) -> Result<bool>;
    fn vfio_modules(&self) -> Result<Vec<String>>;
    fn gpus(&self) -> Result<Vec<Gpu>>;
    fn fabric_links(&self) -> Result<Vec<FabricLink>>;
    fn root_free_bytes(&self) -> Result<u64>;
}
