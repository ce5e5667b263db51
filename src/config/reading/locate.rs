//! The locations of the config file and of state, and the environment variables. Nothing else reads the
//! environment, with three exceptions: an adapter may pass variables on to jobs, HTTP clients follow the
//! proxy variables, and output follows `NO_COLOR`.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use taskbridge_sdk::Secret;

/// The variable with the path of the config file.
pub const CONFIG_VARIABLE: &str = "TASKBRIDGE_CONFIG";
/// The variable with the log filter.
pub const LOG_VARIABLE: &str = "TASKBRIDGE_LOG";

/// The variable with the name of this machine, if `uname -n` is not stable, as in a container.
pub const HOST_VARIABLE: &str = "TASKBRIDGE_HOST";

/// The variable with the server URL for `taskbridge call`.
pub const URL_VARIABLE: &str = "TASKBRIDGE_URL";
/// The variable with the API key for `taskbridge call`.
pub const KEY_VARIABLE: &str = "TASKBRIDGE_KEY";

/// Returns the value of a variable that the config names.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(in crate::config) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// Returns the name of this machine.
pub fn this_machine() -> String {
    let given = variable(HOST_VARIABLE).filter(|name| !name.is_empty());
    given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// The values of the environment.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$TASKBRIDGE_CONFIG`.
    pub config: Option<PathBuf>,
    /// `$TASKBRIDGE_LOG`.
    pub log: Option<String>,
    /// `$TASKBRIDGE_URL`.
    pub url: Option<String>,
    /// `$TASKBRIDGE_KEY`.
    pub key: Option<Secret>,
    /// The home folder of the user.
    pub home: Option<PathBuf>,
    /// `$CODEX_HOME`: the settings folder of Codex, if it is not `~/.codex`.
    pub codex_home: Option<PathBuf>,
    /// The XDG config home: `~/.config` by default.
    pub config_home: Option<PathBuf>,
    /// The XDG state home: `~/.local/state` by default.
    pub state_home: Option<PathBuf>,
}

impl Environment {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_process() -> Self {
        let xdg = Xdg::new().ok();
        let non_empty = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name: &str| non_empty(name).and_then(|value| value.into_string().ok());
        Self {
            config: non_empty(CONFIG_VARIABLE).map(PathBuf::from),
            log: text(LOG_VARIABLE),
            url: text(URL_VARIABLE),
            key: text(KEY_VARIABLE).map(|key| Secret::from(key.trim())),
            home: xdg.as_ref().map(|xdg| xdg.home_dir().to_owned()),
            codex_home: non_empty("CODEX_HOME").map(PathBuf::from),
            config_home: xdg.as_ref().map(BaseStrategy::config_dir),
            state_home: xdg.as_ref().and_then(BaseStrategy::state_dir),
        }
    }

    /// Returns the path of the config file: the requested one, or else the first existing default.
    ///
    /// # Errors
    /// If no file is found; the text names the locations.
    pub fn find_config(&self, requested: Option<&Path>, working_dir: &Path) -> Result<PathBuf, String> {
        if let Some(file) = requested.or(self.config.as_deref()) {
            return Ok(file.to_owned());
        }
        let in_working_dir = Path::new("config").join("taskbridge.toml");
        let in_home = self.config_home.as_ref().map(|home| home.join("taskbridge").join("taskbridge.toml"));
        if working_dir.join(&in_working_dir).is_file() {
            return Ok(in_working_dir);
        }
        match in_home {
            Some(path) if path.is_file() => Ok(path),
            other => {
                let also = other.map(|path| format!(" nor {}", path.display())).unwrap_or_default();
                Err(format!(
                    "no config file: there is no {}{also}. Write one with `taskbridge init`, or pass one with --config \
                     FILE or ${CONFIG_VARIABLE}. `taskbridge dev` needs none",
                    in_working_dir.display()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_locations_are_tried_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let mut environment = Environment { config_home: Some(home.clone()), ..Environment::default() };
        let find = |environment: &Environment, asked: Option<&str>| {
            environment.find_config(asked.map(Path::new), folder.path())
        };
        let text = find(&environment, None).unwrap_err();
        assert!(text.contains("config/taskbridge.toml") && text.contains("home/taskbridge/"), "{text}");

        let there = home.join("taskbridge/taskbridge.toml");
        std::fs::create_dir_all(there.parent().unwrap()).unwrap();
        std::fs::write(&there, "").unwrap();
        assert_eq!(find(&environment, None), Ok(there));

        std::fs::create_dir(folder.path().join("config")).unwrap();
        std::fs::write(folder.path().join("config/taskbridge.toml"), "").unwrap();
        assert_eq!(find(&environment, None), Ok(PathBuf::from("config/taskbridge.toml")));

        environment.config = Some(PathBuf::from("from_variable.toml"));
        assert_eq!(find(&environment, None), Ok(PathBuf::from("from_variable.toml")));
        assert_eq!(find(&environment, Some("asked.toml")), Ok(PathBuf::from("asked.toml")));
    }
}
