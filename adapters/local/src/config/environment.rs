//! The environment of jobs. No other module of the adapter may read the server's own environment.

use std::collections::BTreeMap;

use taskbridge_sdk::{Error, Result};

use crate::config::{Config, VariableName};

/// Default `PATH` of a job.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns the environment that all jobs of a backend share, without the variables of each job.
pub(crate) fn shared_variables(config: &Config) -> Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::from([("PATH".to_owned(), PATH.to_owned())]);
    for name in &config.pass_env {
        if let Some(value) = server_variable(name)? {
            variables.insert(name.as_str().to_owned(), value);
        }
    }
    for (name, value) in &config.env {
        variables.insert(name.as_str().to_owned(), value.clone());
    }
    Ok(variables)
}

#[expect(clippy::disallowed_methods, reason = "`pass_env` names variables of the server's environment")]
fn server_variable(name: &VariableName) -> Result<Option<String>> {
    let Some(value) = std::env::var_os(name.as_str()) else { return Ok(None) };
    let value = value.into_string();
    let not_utf8 = |_| Error::config(format!("pass_env: the value of `{}` is not UTF-8", name.as_str()));
    value.map(Some).map_err(not_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Only the configured variables and a `PATH` are passed to a job.
    #[test]
    fn environment_holds_config_and_path() {
        let config = |value| serde_json::from_value::<Config>(value).unwrap();
        let names = |config: &Config| shared_variables(config).unwrap().into_keys().collect::<Vec<_>>();
        assert_eq!(names(&config(json!({}))), ["PATH"]);
        // Cargo sets this variable for tests.
        let passing_config =
            config(json!({"pass_env": ["CARGO_MANIFEST_DIR", "NOT_SET_ANYWHERE"], "env": {"PATH": "/x"}}));
        let variables = shared_variables(&passing_config).unwrap();
        assert_eq!(variables["CARGO_MANIFEST_DIR"], env!("CARGO_MANIFEST_DIR"));
        assert_eq!(variables["PATH"], "/x");
        assert_eq!(variables.len(), 2);
    }

    /// Names that are empty, contain `=` or begin with `TASKBRIDGE_` are refused.
    #[test]
    fn invalid_environment_names_are_refused() {
        for (name, part) in [("", "empty"), ("A=B", "contains `=`"), ("TASKBRIDGE_JOB", "the server's own")] {
            let config = serde_json::from_value::<Config>(json!({"env": {name: "x"}}));
            assert!(config.is_err_and(|e| e.to_string().contains(part)), "{name}");
        }
    }
}
