//! Everything a node can be asked to do. There is no other way in: what is not in the table below does not parse,
//! and what does not parse is refused before it is journalled. Adding a type is a file here, a line in the table
//! and a file in the executor; forgetting one does not compile.

pub mod deprovision_user;
pub mod health_probe;
#[cfg(test)]
mod hostile_tests;
mod phase;
pub mod provision_user;
pub mod slot;
pub mod topology_discover;
pub mod vm_power;
pub mod vm_provision;
pub mod vm_release;

pub use phase::Phase;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::AllocationId;
use crate::json;
use crate::signal::Code;
use crate::trust::Purpose;

/// The table of task types. `$callback!` receives `Variant module` for each; the executor builds its handlers
/// from the same table.
#[macro_export]
macro_rules! for_each_task {
    ($callback:ident) => {
        $callback! {
            HealthProbe health_probe,
            ProvisionUser provision_user,
            DeprovisionUser deprovision_user,
            VmProvision vm_provision,
            VmRelease vm_release,
            VmPower vm_power,
            TopologyDiscover topology_discover,
        }
    };
}

/// What is fixed about a task type at compile time.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name on the wire, `family.verb`.
    pub name: &'static str,
    pub version: u32,
    /// What it does, for `gpuaas task types`.
    pub summary: &'static str,
    /// Which task key may sign it.
    pub purpose: Purpose,
    pub max_runtime_s: u32,
    /// How many may run on one node at once.
    pub running_per_node: u32,
    /// Does it change the host? What only looks may run with a skewed clock or an expired manifest.
    pub changes_host: bool,
    /// May it destroy data?
    pub destroys_data: bool,
}

/// A parameter that is not acceptable, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamsError(pub String);

macro_rules! registry {
    ($($variant:ident $module:ident,)*) => {
        /// The name of a task type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum TaskType {
            $($variant,)*
        }

        impl TaskType {
            pub const ALL: &'static [TaskType] = &[$(TaskType::$variant,)*];

            pub const fn spec(self) -> &'static Spec {
                match self {
                    $(TaskType::$variant => &$module::SPEC,)*
                }
            }

            /// Schemas of the parameters and the output, for tasks.json.
            pub fn schemas(self) -> (schemars::Schema, schemars::Schema) {
                match self {
                    $(TaskType::$variant => (
                        schemars::schema_for!($module::Params),
                        schemars::schema_for!($module::Output),
                    ),)*
                }
            }
        }

        /// A task with its typed parameters.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Task {
            $($variant($module::Params),)*
        }

        impl Task {
            pub const fn task_type(&self) -> TaskType {
                match self {
                    $(Task::$variant(_) => TaskType::$variant,)*
                }
            }

            /// Parameters as they will be signed.
            pub fn params(&self) -> Box<RawValue> {
                let raw = match self {
                    $(Task::$variant(params) => serde_json::value::to_raw_value(params),)*
                };
                raw.expect("parameters have string keys and no failing serialisers")
            }

            /// What later tasks of the same subjects supersede: a user, a VM and its slots. None for what only looks.
            pub fn subjects(&self) -> Vec<String> {
                match self {
                    $(Task::$variant(params) => $module::subjects(params),)*
                }
            }

            pub fn allocation(&self) -> Option<AllocationId> {
                match self {
                    $(Task::$variant(params) => $module::allocation(params),)*
                }
            }

            fn parse_params(task_type: TaskType, params: &RawValue) -> Result<Task, ParamsError> {
                match task_type {
                    $(TaskType::$variant => {
                        let params: $module::Params =
                            serde_json::from_str(params.get()).map_err(|e| ParamsError(e.to_string()))?;
                        $module::check(&params)?;
                        Ok(Task::$variant(params))
                    })*
                }
            }
        }
    };
}
for_each_task!(registry);

impl TaskType {
    /// Does it give a tenant something? Then its node has to be ready.
    pub const fn gives(self) -> bool {
        match self {
            TaskType::ProvisionUser | TaskType::VmProvision => true,
            TaskType::HealthProbe
            | TaskType::DeprovisionUser
            | TaskType::VmRelease
            | TaskType::VmPower
            | TaskType::TopologyDiscover => false,
        }
    }

    /// What a person watches it go through; empty for what is over in a moment.
    pub const fn phases(self) -> &'static [Phase] {
        match self {
            TaskType::VmProvision => vm_provision::PHASES,
            TaskType::VmRelease => vm_release::PHASES,
            TaskType::ProvisionUser => provision_user::PHASES,
            TaskType::DeprovisionUser => deprovision_user::PHASES,
            TaskType::HealthProbe | TaskType::VmPower | TaskType::TopologyDiscover => &[],
        }
    }

    /// Does it take a tenant's things away? Then it is never stopped, and needs no wish that is still standing.
    pub const fn takes_away(self) -> bool {
        match self {
            TaskType::DeprovisionUser | TaskType::VmRelease => true,
            TaskType::HealthProbe
            | TaskType::ProvisionUser
            | TaskType::VmProvision
            | TaskType::VmPower
            | TaskType::TopologyDiscover => false,
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.spec().name
    }
}

impl std::fmt::Display for TaskType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for TaskType {
    type Err = Code;
    fn from_str(text: &str) -> Result<Self, Code> {
        Self::ALL
            .iter()
            .copied()
            .find(|t| t.as_str() == text)
            .ok_or(Code::UnsupportedType)
    }
}

impl Task {
    /// The one match on (type, version). Unknown is `unsupported_type`, a bad field is `params_invalid`.
    pub fn parse(task_type: &str, version: u32, params: &RawValue) -> Result<Self, (Code, String)> {
        let known: TaskType = task_type
            .parse()
            .map_err(|code| (code, format!("this build has no task type {task_type:?}")))?;
        if known.spec().version != version {
            return Err((
                Code::UnsupportedType,
                format!("this build has {known} version {}, not {version}", known.spec().version),
            ));
        }
        if !json::nesting_within(params.get().as_bytes(), json::MAX_DEPTH) {
            return Err((Code::ParamsInvalid, "nested too deeply".to_owned()));
        }
        Self::parse_params(known, params).map_err(|ParamsError(why)| (Code::ParamsInvalid, why))
    }
}

/// A type and the versions of it that a build has: the capability handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypeVersions {
    #[serde(rename = "type")]
    pub task_type: String,
    pub versions: Vec<u32>,
}

/// What this build can do, as it announces it.
pub fn announced() -> Vec<TypeVersions> {
    TaskType::ALL
        .iter()
        .map(|t| TypeVersions {
            task_type: t.as_str().to_owned(),
            versions: vec![t.spec().version],
        })
        .collect()
}
