//! The words of authority: what people may do (scopes, which are also the platform roles) and what processes are
//! (roles, which stand in their certificates).

use std::fmt;
use std::str::FromStr;

pub use model::api::Scope;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of {1}")]
pub struct UnknownWord(String, String);

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)*
        }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;
            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                Self::ALL.iter().copied().find(|one| one.as_str() == word).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
                    UnknownWord(word.chars().take(64).collect(), all.join(", "))
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let word = std::borrow::Cow::<'de, str>::deserialize(d)?;
                word.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "enum": [$($word),*] })
            }
        }
    };
}

words! {
    /// What a certificate says its holder is.
    Role {
        Node = "node",
        Api = "api",
        TerminalGateway = "terminal-gateway",
        NodeLogGateway = "node-log-gateway",
        ProvisioningWorker = "provisioning-worker",
        BillingWorker = "billing-worker",
        WebhookWorker = "webhook-worker",
        AppRuntimeWorker = "app-runtime-worker",
        OutboxRelay = "outbox-relay",
        NotificationRelay = "notification-relay",
        SlurmController = "slurm-controller",
        Rke2Controller = "rke2-controller",
        VettingOrchestrator = "vetting-orchestrator",
    }
}

/// Words from the database. One that this build does not know grants nothing.
pub(super) fn parse_all(words: &[String]) -> Vec<Scope> {
    words.iter().filter_map(|word| word.parse().ok()).collect()
}

/// As the database stores them.
pub(super) fn words_of(scopes: &[Scope]) -> Vec<String> {
    scopes.iter().map(|scope| scope.as_str().to_owned()).collect()
}
