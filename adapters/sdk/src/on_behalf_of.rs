//! [`OnBehalfOf`]: who asked for a job, in as far as an adapter may pick an engine's credentials by it. Plain data; it holds
//! no secret, and must not decide what anybody may do.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What an id has in the place of a subject, where there is none: before the client's, or the name.
const CLIENT: &str = "client_id=";
const NAME: &str = "name=";

/// Who asked for a job, or answers or cancels it. It is kept with the task, so that what is done later (another attempt, or a
/// cancellation by an operator or by a deadline) is done as whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBehalfOf {
    /// What people call them. Two people can have one name: see [`OnBehalfOf::id`].
    pub name: String,
    /// Who vouches for them: the `iss` of their token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// By which name the issuer knows them: the `sub` of their token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The client that acts for nobody but itself, by the `client_id` that the issuer knows it by: then there is no subject.
    /// Some user's `sub` may be the same word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// On whose behalf they act, where an issuer serves several organisations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The groups that they are in.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
}

impl OnBehalfOf {
    /// The longest text in it, in bytes.
    pub const MAX_TEXT: usize = 1024;
    /// The most groups.
    pub const MAX_GROUPS: usize = 1024;
    /// The most bytes that all groups have together.
    pub const MAX_GROUP_BYTES: usize = 32 * 1024;

    /// Somebody of whom nothing but the name is known.
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

    /// The same, if it can be handed to engines: of bounded size, and without control characters, since it ends up in
    /// headers, tags and logs of others.
    ///
    /// # Errors
    /// What is wrong, without the text that is.
    pub fn checked(self) -> Result<Self, String> {
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
                return Err(format!(
                    "your {what} has {} bytes, and {} are the most",
                    text.len(),
                    Self::MAX_TEXT
                ));
            }
            if text.contains(is_unfit) {
                return Err(format!("your {what} holds a control character"));
            }
        }
        let bytes: usize = self.groups.iter().map(String::len).sum();
        if self.groups.len() > Self::MAX_GROUPS || bytes > Self::MAX_GROUP_BYTES {
            return Err(format!(
                "you are in {} groups of {bytes} bytes together, and {} of {} bytes are the most",
                self.groups.len(),
                Self::MAX_GROUPS,
                Self::MAX_GROUP_BYTES
            ));
        }
        Ok(self)
    }

    /// By what they are told from everybody else: credentials are mapped and kept by it, and never by a name alone that
    /// an issuer lets people choose.
    ///
    /// The name, where nobody but this server's config vouches for it (an API key); with a token `ISSUER#SUBJECT`, and
    /// `ISSUER#TENANT#SUBJECT` with a tenant. For a client that acts for nobody but itself `client_id=CLIENT` stands in the
    /// subject's place. A `#` or `%` within a part is written as `%23` or `%25`, and so is (`%3D`) the `=` of a subject that
    /// begins like a client's, so that no two people have one id.
    pub fn id(&self) -> String {
        let Self { name, issuer, subject, client, tenant, groups: _ } = self;
        let subject = match (client, subject) {
            (Some(client), _) => format!("{CLIENT}{}", escaped(client)),
            (None, Some(subject)) => unmarked(escaped(subject)),
            (None, None) if issuer.is_none() && tenant.is_none() => return escaped(name),
            // Without a subject, the name is all that the issuer has said.
            (None, None) => format!("{NAME}{}", escaped(name)),
        };
        let issuer = escaped(issuer.as_deref().unwrap_or_default());
        match tenant {
            Some(tenant) => format!("{issuer}#{}#{subject}", escaped(tenant)),
            None => format!("{issuer}#{subject}"),
        }
    }
}

/// Control characters, and those that turn the direction of text or break lines without being any.
fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(part: &str) -> String {
    part.replace('%', "%25").replace('#', "%23")
}

/// A subject that cannot be taken for what stands in a subject's place. Any other stays as it is, `=` and all: base64 ends in it.
fn unmarked(subject: String) -> String {
    match [CLIENT, NAME].iter().any(|mark| subject.starts_with(mark)) {
        true => subject.replacen('=', "%3D", 1),
        false => subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(issuer: &str, subject: &str, tenant: Option<&str>) -> OnBehalfOf {
        let owned = |text: &str| Some(text.to_owned());
        OnBehalfOf {
            issuer: owned(issuer),
            subject: owned(subject),
            tenant: tenant.and_then(owned),
            ..OnBehalfOf::named("Ann")
        }
    }

    #[test]
    fn no_two_people_have_one_id() {
        assert_eq!(OnBehalfOf::named("ann").id(), "ann");
        assert_eq!(told("https://id.example", "7", None).id(), "https://id.example#7");
        assert_eq!(told("https://id.example", "7", Some("acme")).id(), "https://id.example#acme#7");
        assert_eq!(told("https://id.example", "NyE=", None).id(), "https://id.example#NyE=");
        let client =
            |id: &str| OnBehalfOf { client: Some(id.to_owned()), subject: None, ..told("i", "", None) };
        assert_eq!(client("nightly").id(), "i#client_id=nightly");
        let people = [
            client("s"),
            client("t#s"),
            OnBehalfOf { tenant: Some("t".to_owned()), ..client("s") },
            OnBehalfOf { issuer: None, ..client("s") },
            OnBehalfOf::named("client_id=s"),
            told("i", "client_id=s", None),
            told("i", "client_id%3Ds", None),
            told("i", "name=Ann", None),
            OnBehalfOf::named("i#s"),
            OnBehalfOf::named("i%23s"),
            told("i", "s", None),
            told("i", "t#s", None),
            told("i", "s", Some("t")),
            told("i#t", "s", None),
            told("i", "t%23s", None),
            OnBehalfOf { subject: None, ..told("i", "", None) },
            told("i", "Ann", None),
        ];
        let ids: BTreeSet<String> = people.iter().map(OnBehalfOf::id).collect();
        assert_eq!(ids.len(), people.len(), "{ids:?}");
    }

    #[test]
    fn what_engines_could_not_be_given_is_refused_and_not_repeated() {
        let long = "x".repeat(OnBehalfOf::MAX_TEXT);
        let people = |group: &str, count: usize| OnBehalfOf {
            groups: (0..count).map(|n| format!("{group}{n}")).collect(),
            ..OnBehalfOf::named("ann")
        };
        for fine in
            [OnBehalfOf::named("Änn O'Hara <ann@example.com>"), OnBehalfOf::named(&*long), people("g", 1024)]
        {
            assert_eq!(fine.clone().checked(), Ok(fine));
        }
        for (wrong, says) in [
            (OnBehalfOf::named(""), "your name is empty"),
            (OnBehalfOf::named("s3cret\r\nX-Header: 1"), "your name holds a control character"),
            (OnBehalfOf::named("ann\u{202e}nna"), "your name holds a control character"),
            (OnBehalfOf::named(format!("{long}x")), "your name has 1025 bytes, and 1024 are the most"),
            (told("i", "s\u{0}", None), "your subject holds a control character"),
            (people("g\u{7}", 1), "your group holds a control character"),
            (people("g", 1025), "you are in 1025 groups"),
            (people(&long[..1000], 40), "you are in 40 groups"),
        ] {
            assert!(wrong.clone().checked().is_err_and(|error| error.starts_with(says)), "{wrong:?}");
        }
    }

    #[test]
    fn only_what_is_known_is_written_down() {
        let ann = OnBehalfOf::named("ann");
        let text = serde_json::to_string(&ann).unwrap();
        assert_eq!(text, r#"{"name":"ann"}"#);
        assert_eq!(serde_json::from_str::<OnBehalfOf>(&text).unwrap(), ann);
    }
}
