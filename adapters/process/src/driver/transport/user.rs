//! [`User`]: the user that a program runs as. It must not change the user of this process.

use rustix::process::{getegid, geteuid};

/// The users of this machine.
const PASSWD: &str = "/etc/passwd";

/// A user that a program runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
}

impl User {
    /// Finds a user by name, or by ids such as `1001:1001`. `None` if this process has this user already.
    ///
    /// # Errors
    /// Why a program cannot run as this user.
    pub(crate) fn find(text: &str) -> Result<Option<Self>, String> {
        let user = Self::look_up(text)?;
        let own = geteuid();
        if (user.uid, user.gid) == (own.as_raw(), getegid().as_raw()) {
            return Ok(None);
        }
        match own.is_root() {
            true => Ok(Some(user)),
            false => Err(format!(
                "the server runs as user {}, and only root can run a program as another user: remove the field, \
                 or run the server as root",
                own.as_raw()
            )),
        }
    }

    /// Looks up a user by name, or reads its ids.
    ///
    /// # Errors
    /// That there is no such user on this machine.
    pub(crate) fn look_up(text: &str) -> Result<Self, String> {
        let passwd = std::fs::read_to_string(PASSWD).unwrap_or_default();
        Self::parse(text, &passwd).ok_or_else(|| {
            format!(
                "no such user: {text:?} is not in {PASSWD}; create it, or write ids such as \"1001:1001\""
            )
        })
    }

    fn parse(text: &str, passwd: &str) -> Option<Self> {
        if let Some((uid, gid)) = text.split_once(':') {
            return Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: "/".to_owned() });
        }
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        fields.into_iter().find_map(|fields| match fields[..] {
            [name, _, uid, gid, _, home, ..] if name == text => {
                Some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.to_owned() })
            }
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_name_or_ids() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n# comment\njobs:x:1001:1002::/srv/jobs:/bin/false\n";
        let parse = |text: &str| User::parse(text, passwd).map(|user| (user.uid, user.gid, user.home));
        assert_eq!(parse("jobs"), Some((1001, 1002, "/srv/jobs".to_owned())));
        assert_eq!(parse("7:8"), Some((7, 8, "/".to_owned())));
        for wrong in ["", "nobody", "1001", "7:", "a:b", "-1:0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
