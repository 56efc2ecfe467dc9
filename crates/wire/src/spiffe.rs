//! The name in a certificate: a node in one epoch of its life, or a process of ours in its role. There is one text
//! per name; everything that is not exactly it does not parse.

use std::fmt;
use std::str::FromStr;

use model::id::{InstallationId, NodeId};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Spiffe {
    Node {
        installation: InstallationId,
        node_id: NodeId,
        epoch: u64,
    },
    Role {
        installation: InstallationId,
        role: String,
        instance: String,
    },
}

impl Spiffe {
    pub const fn installation(&self) -> InstallationId {
        match self {
            Self::Node { installation, .. } | Self::Role { installation, .. } => *installation,
        }
    }
}

impl fmt::Display for Spiffe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node {
                installation,
                node_id,
                epoch,
            } => {
                write!(f, "spiffe://{installation}/node/{node_id}/epoch/{epoch}")
            }
            Self::Role {
                installation,
                role,
                instance,
            } => {
                write!(f, "spiffe://{installation}/role/{role}/{instance}")
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a name of a node or a role of ours")]
pub struct SpiffeError;

impl FromStr for Spiffe {
    type Err = SpiffeError;

    fn from_str(text: &str) -> Result<Self, SpiffeError> {
        let rest = text.strip_prefix("spiffe://").ok_or(SpiffeError)?;
        let parts: Vec<&str> = rest.split('/').collect();
        match parts.as_slice() {
            [installation, "node", node_id, "epoch", epoch] => Ok(Self::Node {
                installation: installation.parse().map_err(|_| SpiffeError)?,
                node_id: node_id.parse().map_err(|_| SpiffeError)?,
                epoch: number(epoch)?,
            }),
            [installation, "role", role, instance] => Ok(Self::Role {
                installation: installation.parse().map_err(|_| SpiffeError)?,
                role: word(role)?,
                instance: word(instance)?,
            }),
            _ => Err(SpiffeError),
        }
    }
}

/// `+1` and `01` parse as numbers too; they would be a second text for the same name.
fn number(text: &str) -> Result<u64, SpiffeError> {
    let number: u64 = text.parse().map_err(|_| SpiffeError)?;
    if number.to_string() == text {
        Ok(number)
    } else {
        Err(SpiffeError)
    }
}

fn word(text: &str) -> Result<String, SpiffeError> {
    let letters = text
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b));
    if letters && (1..=64).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(SpiffeError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_text() {
        let installation = InstallationId::new();
        let node = Spiffe::Node {
            installation,
            node_id: NodeId::new(),
            epoch: 7,
        };
        let role = Spiffe::Role {
            installation,
            role: "outbox-relay".to_owned(),
            instance: "a_1".to_owned(),
        };
        for name in [node, role] {
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let (inst, node) = (InstallationId::new(), NodeId::new());
        for bad in [
            format!("spiffe://{inst}/node/{node}/epoch/01"),
            format!("spiffe://{inst}/node/{node}/epoch/+1"),
            format!("spiffe://{inst}/node/{node}/epoch/1/"),
            format!("spiffe://{inst}/node/{node}/epoch/1?x"),
            format!("spiffe://{node}/node/{inst}/epoch/1"),
            format!("spiffe://{inst}/node/{node}"),
            format!("spiffe://{inst}/role/Api/1"),
            format!("spiffe://{inst}/role//1"),
            format!("spiffe://{inst}/role/api/../x"),
            format!("SPIFFE://{inst}/role/api/1"),
            format!(" spiffe://{inst}/role/api/1"),
        ] {
            assert_eq!(bad.parse::<Spiffe>(), Err(SpiffeError), "{bad}");
        }
    }
}
