//! [`OnBehalfOf`]: the person who requests, answers or cancels a job, with the data by which an adapter may
//! choose credentials of an engine. Plain data. It contains no secret, and must not decide on permissions.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prefixes of what takes the place of the subject in an id: the client id, or the name.
const CLIENT_PREFIX: &str = "client_id=";
const NAME_PREFIX: &str = "name=";

/// The person who requests, answers or cancels a job. It is stored with the task, so that later actions use
/// the same identity. Examples are another attempt, or a cancellation by an operator or by a deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnBehalfOf {
    /// Display name. Two people can have the same name: see [`OnBehalfOf::id`].
    pub name: String,
    /// Issuer that authenticated the person: the `iss` of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Identifier that the issuer uses for the person: the `sub` of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The `client_id` of a client that acts for itself alone. There is no subject then. The `sub` of a user
    /// may be the same text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Organisation that the person acts for, if an issuer serves several organisations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Groups that the person belongs to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
}

impl OnBehalfOf {
    /// Longest text in any field, in bytes.
    pub const MAX_TEXT: usize = 1024;
    /// Maximum number of groups.
    pub const MAX_GROUPS: usize = 1024;
    /// Maximum size of all groups together, in bytes.
    pub const MAX_GROUP_BYTES: usize = 32 * 1024;

    /// Creates a value with a name and no other information.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            issuer: None,
            subject: None,
            client: None,
            tenant: None,
            groups: BTreeSet::new(),
        }
    }

    /// Returns the value if it can be passed to engines: its size is limited, and it contains no control
    /// characters. Engines put it into headers, tags and logs.
    ///
    /// # Errors
    /// Returns a message if a field is not valid. The message does not contain the invalid text.
    pub fn validate(self) -> Result<Self, String> {
        if self.name.is_empty() {
            return Err("your name is empty".to_owned());
        }
        let texts = [
            ("name", Some(&self.name)),
            ("issuer", self.issuer.as_ref()),
            ("subject", self.subject.as_ref()),
            ("client_id", self.client.as_ref()),
            ("tenant", self.tenant.as_ref()),
        ];
        let groups = self.groups.iter().map(|group| ("group", Some(group)));
        for (what, text) in texts.into_iter().chain(groups) {
            let Some(text) = text else { continue };
            if text.len() > Self::MAX_TEXT {
                return Err(format!("your {what} has {} bytes, the limit is {}", text.len(), Self::MAX_TEXT));
            }
            if text.contains(is_forbidden_char) {
                return Err(format!("your {what} contains a control character"));
            }
        }
        let bytes: usize = self.groups.iter().map(String::len).sum();
        if self.groups.len() > Self::MAX_GROUPS || bytes > Self::MAX_GROUP_BYTES {
            return Err(format!(
                "you are in {} groups with {bytes} bytes in total, the limit is {} groups with {} bytes",
                self.groups.len(),
                Self::MAX_GROUPS,
                Self::MAX_GROUP_BYTES
            ));
        }
        Ok(self)
    }

    /// Returns the unique id of the person. Credentials are assigned and cached by this id, never by a name
    /// alone, because an issuer may let people choose their names.
    ///
    /// Without a token, it is the name, which comes from the server's config (an API key). With a token, it
    /// is `ISSUER#SUBJECT`, or `ISSUER#TENANT#SUBJECT` with a tenant. For a client that acts for itself
    /// alone, `client_id=CLIENT` takes the place of the subject. Without a subject, `name=NAME` takes its
    /// place. Within a part, `#` is written as `%23` and `%` as `%25`. If a subject starts like such a
    /// prefix, its `=` is written as `%3D`. Thus no two people have the same id.
    pub fn id(&self) -> String {
        let Self { name, issuer, subject, client, tenant, groups: _ } = self;
        let subject = match (client, subject) {
            (Some(client), _) => format!("{CLIENT_PREFIX}{}", escape(client)),
            (None, Some(subject)) => escape_prefix(escape(subject)),
            (None, None) if issuer.is_none() && tenant.is_none() => return escape(name),
            // Without a subject, the name is the only identifier from the issuer.
            (None, None) => format!("{NAME_PREFIX}{}", escape(name)),
        };
        let issuer = escape(issuer.as_deref().unwrap_or_default());
        match tenant {
            Some(tenant) => format!("{issuer}#{}#{subject}", escape(tenant)),
            None => format!("{issuer}#{subject}"),
        }
    }
}

/// Returns true for control characters, and for other characters that change the text direction or break
/// lines.
fn is_forbidden_char(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(part: &str) -> String {
    part.replace('%', "%25").replace('#', "%23")
}

/// Escapes a subject that could be confused with one of the prefixes. All others stay unchanged, including
/// `=`, because base64 ends with it.
fn escape_prefix(subject: String) -> String {
    match [CLIENT_PREFIX, NAME_PREFIX].iter().any(|prefix| subject.starts_with(prefix)) {
        true => subject.replacen('=', "%3D", 1),
        false => subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(issuer: &str, subject: &str, tenant: Option<&str>) -> OnBehalfOf {
        let owned = |text: &str| Some(text.to_owned());
        OnBehalfOf {
            issuer: owned(issuer),
            subject: owned(subject),
            tenant: tenant.and_then(owned),
            ..OnBehalfOf::named("Ann")
        }
    }

    #[test]
    fn caller_ids_are_unique() {
        assert_eq!(OnBehalfOf::named("ann").id(), "ann");
        assert_eq!(person("https://id.example", "7", None).id(), "https://id.example#7");
        assert_eq!(person("https://id.example", "7", Some("acme")).id(), "https://id.example#acme#7");
        assert_eq!(person("https://id.example", "NyE=", None).id(), "https://id.example#NyE=");
        let client =
            |id: &str| OnBehalfOf { client: Some(id.to_owned()), subject: None, ..person("i", "", None) };
        assert_eq!(client("nightly").id(), "i#client_id=nightly");
        let people = [
            client("s"),
            client("t#s"),
            OnBehalfOf { tenant: Some("t".to_owned()), ..client("s") },
            OnBehalfOf { issuer: None, ..client("s") },
            OnBehalfOf::named("client_id=s"),
            person("i", "client_id=s", None),
            person("i", "client_id%3Ds", None),
            person("i", "name=Ann", None),
            OnBehalfOf::named("i#s"),
            OnBehalfOf::named("i%23s"),
            person("i", "s", None),
            person("i", "t#s", None),
            person("i", "s", Some("t")),
            person("i#t", "s", None),
            person("i", "t%23s", None),
            OnBehalfOf { subject: None, ..person("i", "", None) },
            person("i", "Ann", None),
        ];
        let ids: BTreeSet<String> = people.iter().map(OnBehalfOf::id).collect();
        assert_eq!(ids.len(), people.len(), "{ids:?}");
    }

    /// The error does not repeat a name or group that engines could not be given.
    #[test]
    fn unsuitable_caller_identity_is_refused() {
        let long = "x".repeat(OnBehalfOf::MAX_TEXT);
        let people = |group: &str, count: usize| OnBehalfOf {
            groups: (0..count).map(|n| format!("{group}{n}")).collect(),
            ..OnBehalfOf::named("ann")
        };
        for fine in
            [OnBehalfOf::named("Änn O'Hara <ann@example.com>"), OnBehalfOf::named(&*long), people("g", 1024)]
        {
            assert_eq!(fine.clone().validate(), Ok(fine));
        }
        for (wrong, expected) in [
            (OnBehalfOf::named(""), "your name is empty"),
            (OnBehalfOf::named("s3cret\r\nX-Header: 1"), "your name contains a control character"),
            (OnBehalfOf::named("ann\u{202e}nna"), "your name contains a control character"),
            (OnBehalfOf::named(format!("{long}x")), "your name has 1025 bytes, the limit is 1024"),
            (person("i", "s\u{0}", None), "your subject contains a control character"),
            (people("g\u{7}", 1), "your group contains a control character"),
            (people("g", 1025), "you are in 1025 groups"),
            (people(&long[..1000], 40), "you are in 40 groups"),
        ] {
            assert!(wrong.clone().validate().is_err_and(|error| error.starts_with(expected)), "{wrong:?}");
        }
    }

    /// Only the known parts of an identity are serialized.
    #[test]
    fn absent_identity_fields_are_omitted() {
        let ann = OnBehalfOf::named("ann");
        let text = serde_json::to_string(&ann).unwrap();
        assert_eq!(text, r#"{"name":"ann"}"#);
        assert_eq!(serde_json::from_str::<OnBehalfOf>(&text).unwrap(), ann);
    }
}
