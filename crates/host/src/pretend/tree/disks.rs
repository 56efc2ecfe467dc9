//! The disks of a generated tree.

use std::fs;
use std::io;

use super::{Tree, home};
use crate::Disk;

impl Tree<'_> {
    pub(super) fn disks(&self) -> io::Result<()> {
        let mut mounts = String::from("21 1 0:20 / /proc rw - proc proc rw\n");
        for (n, disk) in self.hardware.disks.values().enumerate() {
            self.disk(&disk.disk, &format!("259:{n}"), &mut mounts)?;
        }
        for disk in &self.hardware.nameless {
            self.write(&format!("sys/block/{}/size", disk.kernel_name), "8\n")?;
        }
        self.write("proc/self/mountinfo", &mounts)
    }

    fn disk(&self, disk: &Disk, number: &str, mounts: &mut String) -> io::Result<()> {
        let (name, id) = (&disk.kernel_name, &disk.identity);
        let Some(controller) = disk.controller else {
            return Ok(());
        };
        // nvme0 of nvme0n1
        let device = name.rsplit_once('n').map_or(name.as_str(), |(device, _)| device);
        let controller_dir = format!("{}/nvme/{device}", home(self.hardware, controller));
        self.write(
            &format!("{controller_dir}/serial"),
            &format!("{:<20}\n", id.serial.as_str()),
        )?;
        self.write(&format!("{controller_dir}/address"), &format!("{controller}\n"))?;
        for other in 1..=disk.namespaces {
            fs::create_dir_all(self.root.join(format!("{controller_dir}/{device}n{other}")))?;
        }
        let dir = format!("{controller_dir}/{name}");
        self.write(&format!("{dir}/wwid"), &format!("{}\n", id.wwn))?;
        self.write(&format!("{dir}/size"), &format!("{}\n", id.size_bytes / 512))?;
        self.write(&format!("{dir}/dev"), &format!("{number}\n"))?;
        self.link(&format!("{dir}/device"), &format!("../../{device}"))?;
        self.link(
            &format!("sys/block/{name}"),
            &format!("../{}", dir.trim_start_matches("sys/")),
        )?;
        self.link(&format!("dev/disk/by-id/{}", id.by_id), &format!("../../{name}"))?;
        for user in &disk.in_use_by {
            if let Some(holder) = user.strip_prefix("held by ") {
                fs::create_dir_all(self.root.join(format!("{dir}/holders/{holder}")))?;
            } else if let Some(at) = user.strip_prefix("mounted at ") {
                mounts.push_str(&format!("36 1 {number} / {at} rw - ext4 /dev/{name} rw\n"));
            }
        }
        Ok(())
    }
}
