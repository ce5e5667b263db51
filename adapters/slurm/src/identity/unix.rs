//! Looks up Unix users and groups on this machine. It must not decide which caller may act as which user.

use std::collections::BTreeMap;
use std::path::Path;

use nix::unistd::{Group, Uid, User};
use serde::{Deserialize, Serialize};
use taskbridge_sdk::{Error, Result};

use crate::config::Person;

/// A Unix user other than our own that jobs run as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnixUser {
    pub(crate) name: String,
    /// The uid: files of other owners are not the job's.
    pub(crate) number: u32,
    /// The gid of the group that we share with the user. The config may change it while jobs run.
    pub(crate) group: u32,
}

impl UnixUser {
    /// Finds the user and the group that the config names.
    pub(crate) fn find(caller: &str, person: &Person) -> Result<Self> {
        let field = format!("`run_as.\"{caller}\"`");
        let unknown = |kind: &str, name: &str| {
            Error::config(format!("{field}: this machine has no {kind} `{name}`; check with `getent`"))
        };
        let lookup_error = |e: nix::Error| {
            Error::unavailable(format!("{field}: the users of this machine cannot be looked up: {e}"))
        };
        let user = User::from_name(&person.user).map_err(lookup_error)?;
        let user = user.ok_or_else(|| unknown("user", &person.user))?;
        if user.uid.is_root() {
            return Err(Error::config(format!("{field}: jobs cannot run as root; name another user")));
        }
        let group = person.group.as_ref().unwrap_or(&person.user);
        let group_entry = Group::from_name(group).map_err(lookup_error)?;
        let gid = group_entry.ok_or_else(|| unknown("group", group))?.gid;
        Ok(Self { name: person.user.clone(), number: user.uid.as_raw(), group: gid.as_raw() })
    }
}

/// Returns the name of a user, if this machine knows it. It can be slow with a remote user directory.
pub(crate) fn name_of(number: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(number)).ok().flatten().map(|user| user.name)
}

/// Returns the login variables of a user, or of our own user for `None`, as far as this machine knows them.
pub(crate) fn variables(name: Option<&str>) -> BTreeMap<&'static str, String> {
    let account = match name {
        Some(name) => User::from_name(name),
        None => User::from_uid(Uid::effective()),
    };
    let Ok(Some(user)) = account else {
        return name.map(|name| ("USER", name.to_owned())).into_iter().collect();
    };
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (home, shell) = (path(&user.dir), path(&user.shell));
    BTreeMap::from([("HOME", home), ("LOGNAME", user.name.clone()), ("SHELL", shell), ("USER", user.name)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(user: &str, group: Option<&str>) -> std::result::Result<UnixUser, String> {
        let person = Person { user: user.to_owned(), group: group.map(str::to_owned), token: None };
        UnixUser::find("ann", &person).map_err(|e| e.to_string())
    }

    /// The error of an unknown user or group names the field of `run_as`.
    #[test]
    fn unix_user_lookup_refuses_root() {
        let daemon = find("daemon", None).unwrap();
        assert_eq!((daemon.name.as_str(), daemon.number == 0, daemon.group == 0), ("daemon", false, false));
        assert_ne!(find("daemon", Some("mail")).unwrap().group, daemon.group);
        for (user, group, expected) in [
            ("nobody-of-this-name", None, "no user `nobody-of-this-name`"),
            ("daemon", Some("no-group-of-this-name"), "no group `no-group-of-this-name`"),
            ("root", None, "as root"),
        ] {
            let error = find(user, group).unwrap_err();
            assert!(error.contains(expected) && error.contains("`run_as.\"ann\"`"), "{error}");
        }
    }

    /// `HOME` and `USER` are those of the account.
    #[test]
    fn user_variables_match_unix_account() {
        assert_eq!(variables(Some("root"))["HOME"], "/root");
        assert_eq!(variables(None)["USER"], User::from_uid(Uid::effective()).unwrap().unwrap().name);
        let unknown = variables(Some("nobody-of-this-name"));
        assert_eq!(unknown, BTreeMap::from([("USER", "nobody-of-this-name".to_owned())]));
    }
}
