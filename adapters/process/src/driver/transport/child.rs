//! [`Launch`]: starts a program behind the launcher, with an almost empty environment, and ends it. It must
//! not put config or secrets into arguments or the environment.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;

use super::connection::{Connection, Transport};
use super::user::User;
use crate::config::{KIND, Limits};
use crate::launcher::{Confinement, HELPER_ROLE, WATCH};

/// Environment variables that every program inherits.
const ENVIRONMENT: [&str; 4] = ["PATH", "LANG", "TZ", "HOME"];

/// How a program is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// A program with the launcher's role.
    pub(crate) launcher: PathBuf,
    pub(crate) command: Vec<String>,
    /// Names of further environment variables that it inherits.
    pub(crate) env: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) user: Option<User>,
}

impl Transport for Launch {
    fn connect(&self) -> io::Result<Connection> {
        let user = self.user.as_ref().map(|user| (user.uid, user.gid));
        let confinement = serde_json::to_string(&Confinement { limits: self.limits, user })?;
        let mut child = Command::new(&self.launcher)
            .args([HELPER_ROLE, KIND, WATCH, &std::process::id().to_string(), &confinement])
            .args(&self.command)
            .env_clear()
            .envs(self.environment())
            .envs(self.user.iter().map(|user| ("HOME", &user.home)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(io::Error::other("the program has no pipes"));
        };
        Ok(Connection::piped(input, output, errors, Some(child)))
    }
}

impl Launch {
    fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        std::env::vars_os().filter(|(name, _)| {
            name.to_str()
                .is_some_and(|name| ENVIRONMENT.contains(&name) || self.env.iter().any(|n| n == name))
        })
    }
}
