//! The environment of Slurm's commands. Only this module of the adapter reads the server's own environment.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::{Error, Result};

/// The server's variables that Slurm's commands need and that jobs may see. All others are hidden from jobs,
/// since they may contain secrets. Variables that begin with `SBATCH_` would act as unrequested options.
pub(crate) const PASSED_VARIABLES: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "SLURM_CONF",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
    "LD_LIBRARY_PATH",
];

/// The prefix of the variables that describe the job to its script.
const RESERVED_PREFIX: &str = "TASKBRIDGE_";

/// The name of an environment variable that a config may set for jobs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(rename = "SlurmVariableName", with = "String", extend("pattern" = "^(?!TASKBRIDGE_)[A-Za-z_][A-Za-z0-9_]*$"))]
pub struct VariableName(String);

impl VariableName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VariableName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if !name.bytes().all(is_valid) || name.bytes().next().is_none_or(|b| b.is_ascii_digit()) {
            return Err(format!(
                "`{name}` is not a valid variable name: use letters, digits and `_`, and no digit first"
            ));
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(format!(
                "`{name}` cannot be set: variables that begin with `{RESERVED_PREFIX}` are reserved for the server"
            ));
        }
        Ok(Self(name))
    }
}

/// Returns the environment of commands. Fails if a value is not UTF-8.
pub(crate) fn command_environment() -> Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for name in PASSED_VARIABLES {
        if let Some(value) = server_variable(name)? {
            variables.insert(name.to_owned(), value);
        }
    }
    Ok(variables)
}

#[expect(
    clippy::disallowed_methods,
    reason = "Slurm's commands and ssh need a few variables of the server's environment"
)]
fn server_variable(name: &str) -> Result<Option<String>> {
    let Some(value) = std::env::var_os(name) else { return Ok(None) };
    let invalid = |_| Error::config(format!("the value of the environment variable `{name}` is not UTF-8"));
    value.into_string().map(Some).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slurm's commands get only the variables that they need, and invalid names are refused.
    #[test]
    fn command_environment_is_minimal() {
        let variables = command_environment().unwrap();
        assert!(variables.contains_key("PATH"));
        assert!(variables.keys().all(|name| PASSED_VARIABLES.contains(&name.as_str())));
        for (name, part) in [
            ("", "letters"),
            ("A-B", "letters"),
            ("1A", "no digit"),
            ("TASKBRIDGE_X", "reserved for the server"),
        ] {
            assert!(VariableName::try_from(name.to_owned()).is_err_and(|e| e.contains(part)), "{name}");
        }
    }
}
