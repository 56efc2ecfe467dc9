//! The disks of a generated tree.

use std::fs;

use super::Tree;

impl Tree {
    pub(super) fn disks(&self) {
        let mut mounts = String::from("21 1 0:20 / /proc rw - proc proc rw\n");
        let all = self.hardware.disks.values().map(|disk| &disk.disk);
        for (n, disk) in all.enumerate() {
            let name = &disk.kernel_name;
            let (id, number) = (&disk.identity, format!("259:{n}"));
            let controller = disk.controller.expect("on a bus");
            let device = name.split('n').nth(1).map(|rest| format!("n{rest}")).expect("nvmeXnY");
            let home = format!("{}/nvme/{device}", self.home(controller));
            self.write(&format!("{home}/serial"), &format!("{:<20}\n", id.serial.as_str()));
            self.write(&format!("{home}/address"), &format!("{controller}\n"));
            for other in 1..=disk.namespaces {
                let there = self.root().join(format!("{home}/{device}n{other}"));
                fs::create_dir_all(there).expect("make a directory");
            }
            let dir = format!("{home}/{name}");
            self.write(&format!("{dir}/wwid"), &format!("{}\n", id.wwn));
            self.write(&format!("{dir}/size"), &format!("{}\n", id.size_bytes / 512));
            self.write(&format!("{dir}/dev"), &format!("{number}\n"));
            self.link(&format!("{dir}/device"), &format!("../../{device}"));
            self.link(
                &format!("sys/block/{name}"),
                &format!("../{}", dir.trim_start_matches("sys/")),
            );
            self.link(&format!("dev/disk/by-id/{}", id.by_id), &format!("../../{name}"));
            for user in &disk.in_use_by {
                if let Some(holder) = user.strip_prefix("held by ") {
                    self.write(&format!("{dir}/holders/{holder}/x"), "");
                } else if let Some(at) = user.strip_prefix("mounted at ") {
                    mounts.push_str(&format!("36 1 {number} / {at} rw - ext4 /dev/{name} rw\n"));
                }
            }
        }
        self.write("proc/self/mountinfo", &mounts);
    }
}
