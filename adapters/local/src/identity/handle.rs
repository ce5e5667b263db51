//! Handles of jobs: the machine, its boot, and the key that names the job's folder. It must not access the
//! folder.

use std::fs;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Error, JobHandle, Result};

/// A machine during one boot. No running process outlives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) boot: String,
}

impl Machine {
    /// Returns this machine.
    pub(crate) fn current() -> Result<Self> {
        const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
        let unreadable =
            |e| Error::config(format!("{BOOT_ID} cannot be read; this backend needs Linux")).caused_by(e);
        let boot = fs::read_to_string(BOOT_ID).map_err(unreadable)?.trim().to_owned();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self { host, boot })
    }

    /// Returns the handle of a job that was started on this machine.
    pub(crate) fn handle(&self, key: &str) -> JobHandle {
        JobHandle::new(format!("local:{}:{}:{key}", self.host, self.boot))
    }
}

/// Parses a handle into machine and key. Returns `None` if it is not a handle of this backend.
pub(crate) fn parse(handle: &JobHandle) -> Option<(Machine, &str)> {
    let rest = handle.as_str().strip_prefix("local:")?;
    let (rest, key) = rest.rsplit_once(':')?;
    let (host, boot) = rest.rsplit_once(':')?;
    is_key(key).then(|| (Machine { host: host.to_owned(), boot: boot.to_owned() }, key))
}

/// Returns true if a key is safe as a single path component.
pub(crate) fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handle is parsed back to its machine and its key, also if the host has colons.
    #[test]
    fn local_handle_round_trips() {
        let machine = Machine::current().unwrap();
        assert_eq!(parse(&machine.handle("tb-abc")), Some((machine.clone(), "tb-abc")));
        let colon_host = Machine { host: "fe80::1".into(), boot: "b".into() };
        assert_eq!(parse(&colon_host.handle("tb-x")), Some((colon_host.clone(), "tb-x")));
    }

    #[test]
    fn invalid_handle_is_not_parsed() {
        for text in
            ["", "local:", "local:h:b:", "local:h:b:../x", "local:h:b:..", "sim:h:b:k", "local:h:b:a/b"]
        {
            assert_eq!(parse(&JobHandle::new(text)), None, "{text}");
        }
    }
}
