//! What both machines judge alike: when a disk is the one that was meant, and how a refusal reads.

use model::proof::WipeMethod;
use model::signal::Code;
use model::value::DiskIdentity;

use crate::{Error, Result};

fn refused(code: Code, identity: &DiskIdentity, why: impl Into<String>) -> Error {
    Error::Device {
        code,
        subject: identity.by_id.to_string(),
        why: why.into(),
    }
}

pub(crate) fn missing(identity: &DiskIdentity) -> Error {
    refused(Code::DiskMissing, identity, "no such disk on the host")
}

pub(crate) fn unproved(identity: &DiskIdentity, why: impl Into<String>) -> Error {
    refused(Code::WipeUnproved, identity, why)
}

pub(crate) fn not_offered(identity: &DiskIdentity, method: WipeMethod) -> Error {
    let why = format!(
        "it cannot be wiped by {}, or a neighbour would be wiped with it",
        method.as_str()
    );
    refused(Code::DiskGuard, identity, why)
}

pub(crate) fn guard(wanted: &DiskIdentity, seen: &DiskIdentity, in_use_by: &[String]) -> Result<()> {
    let differs = |what: &str, wanted: &dyn std::fmt::Display, seen: &dyn std::fmt::Display| {
        Some(format!("its {what} is {seen} and not {wanted}"))
    };
    let why = if wanted.serial != seen.serial {
        differs("serial number", &wanted.serial, &seen.serial)
    } else if wanted.wwn != seen.wwn {
        differs("world-wide name", &wanted.wwn, &seen.wwn)
    } else if wanted.size_bytes != seen.size_bytes {
        differs("size in bytes", &wanted.size_bytes, &seen.size_bytes)
    } else {
        in_use_by.first().map(|user| format!("it is in use: {user}"))
    };
    match why {
        Some(why) => Err(refused(Code::DiskGuard, wanted, why)),
        None => Ok(()),
    }
}
