//! An image with an empty disk inside: nothing of it would be written, and the disk would be its last tenant's.

use std::fs;

use host::Images;
use model::signal::Code;
use model::task::vm_provision::ImageFormat;

use crate::images::Desk;

#[test]
fn an_image_without_a_disk_inside_is_refused() {
    let Some(desk) = Desk::new("empty") else { return };
    fs::write(desk.path("images/empty.raw"), "").expect("written");
    desk.qemu_img(&["create", "-q", "-f", "qcow2", "images/empty.qcow2", "0"]);
    for (name, format) in [("empty.raw", ImageFormat::Raw), ("empty.qcow2", ImageFormat::Qcow2)] {
        let image = desk.image(name, format);
        assert_eq!(desk.go(&image, false).expect_err(name), Code::ImageRefused, "{name}");
        // Even where nobody has looked before.
        assert_eq!(desk.go(&image, true).expect_err(name), Code::ImageRefused, "{name}");
        let why = desk.images.verify(&image).expect_err(name).to_string();
        assert!(why.contains("there is no disk in it"), "{why}");
    }
}
