//! What root has decided about slices on this host, as far as the host's verbs need it.

use std::path::PathBuf;
use std::sync::Arc;

use super::guests::{Dial, NoDial};
use super::{MachineSettings, NetworkSettings};

#[derive(Clone)]
pub struct Settings {
    /// Where trusted images may lie.
    pub image_dirs: Vec<PathBuf>,
    pub network: NetworkSettings,
    pub machines: MachineSettings,
    pub dial: Arc<dyn Dial>,
    /// The program that hands a socket over to ssh.
    pub helper: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            image_dirs: ["/var/lib/gpuaas/slice-images", "/var/lib/libvirt/images"]
                .map(PathBuf::from)
                .to_vec(),
            network: NetworkSettings::default(),
            machines: MachineSettings::default(),
            dial: Arc::new(NoDial),
            helper: "/usr/bin/gpuaas-node-executor".into(),
        }
    }
}
