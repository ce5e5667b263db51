//! A job's handle: which machine, since which boot, and which folder. It must not look at the folder.

use std::fs;

use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Error, JobHandle, Result};

/// A machine between two boots: what a running process cannot outlive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) host: String,
    pub(crate) boot: String,
}

impl Machine {
    /// This one.
    pub(crate) fn here() -> Result<Self> {
        const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
        let unreadable =
            |e| Error::config(format!("{BOOT_ID} cannot be read; this backend needs Linux")).caused_by(e);
        let boot = fs::read_to_string(BOOT_ID).map_err(unreadable)?.trim().to_owned();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self { host, boot })
    }

    /// The handle of a job that was started here.
    pub(crate) fn handle(&self, key: &str) -> JobHandle {
        JobHandle::new(format!("local:{}:{}:{key}", self.host, self.boot))
    }
}

/// The machine and the key that a handle names; `None` if it is no handle of this backend.
pub(crate) fn parse(handle: &JobHandle) -> Option<(Machine, &str)> {
    let rest = handle.as_str().strip_prefix("local:")?;
    let (rest, key) = rest.rsplit_once(':')?;
    let (host, boot) = rest.rsplit_once(':')?;
    is_key(key).then(|| (Machine { host: host.to_owned(), boot: boot.to_owned() }, key))
}

/// True of a key that becomes a path as one plain name.
pub(crate) fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_comes_back_as_it_was() {
        let here = Machine::here().unwrap();
        assert_eq!(parse(&here.handle("tb-abc")), Some((here.clone(), "tb-abc")));
        let odd = Machine { host: "fe80::1".into(), boot: "b".into() };
        assert_eq!(parse(&odd.handle("tb-x")), Some((odd.clone(), "tb-x")));
    }

    #[test]
    fn what_is_no_handle_leads_nowhere() {
        for text in
            ["", "local:", "local:h:b:", "local:h:b:../x", "local:h:b:..", "sim:h:b:k", "local:h:b:a/b"]
        {
            assert_eq!(parse(&JobHandle::new(text)), None, "{text}");
        }
    }
}
