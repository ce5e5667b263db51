//! Names and tags of people's sessions at AWS. Pure. No two people may get the same session name, and no two
//! values the same tag: rules at AWS depend on them.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::OnBehalfOf;

/// Maximum lengths of a session's name and of a tag's value.
const LONGEST_NAME: usize = 64;
const LONGEST_VALUE: usize = 256;
/// Number of hexadecimal digits that make a modified text unique.
const DIGITS: usize = 16;

/// Session to request from AWS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// `RoleSessionName`, and `SourceIdentity` if configured.
    pub(crate) name: String,
    /// Tags, sorted by key.
    pub(crate) tags: Vec<(String, String)>,
}

impl Session {
    /// Returns the session of a person.
    ///
    /// # Errors
    /// Returns the reason if the person cannot be described to AWS.
    pub(crate) fn of<'a>(
        whom: &OnBehalfOf,
        tags: impl IntoIterator<Item = (&'a String, &'a TagValue)>,
    ) -> Result<Self, String> {
        let mut made = Vec::new();
        for (key, value) in tags {
            if let Some(value) = value.of(whom).map_err(|why| format!("the session tag `{key}`: {why}"))? {
                made.push((key.clone(), value));
            }
        }
        Ok(Self { name: name(whom), tags: made })
    }
}

/// Returns the name of a session. It is the person's name if that is also the person's id, is valid at AWS,
/// and does not look like a name with a digest. Otherwise it is the valid part of the name with a digest of
/// the id.
fn name(whom: &OnBehalfOf) -> String {
    let (id, name) = (whom.id(), whom.name.as_str());
    let fits = (2..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_of_name);
    if id == name && fits && !has_digest(name) {
        return name.to_owned();
    }
    with_digest(name, &id, LONGEST_NAME, is_of_name)
}

/// Returns a valid text unchanged. Otherwise returns its beginning, with `-` for each invalid character, and
/// a digest of the whole text.
fn fitted(text: &str, longest: usize, is_fit: fn(char) -> bool) -> String {
    if text.chars().count() <= longest && text.chars().all(is_fit) && !has_digest(text) {
        return text.to_owned();
    }
    with_digest(text, text, longest, is_fit)
}

fn with_digest(shown: &str, whole: &str, longest: usize, is_fit: fn(char) -> bool) -> String {
    let shown: String =
        shown.chars().map(|c| if is_fit(c) { c } else { '-' }).take(longest - DIGITS - 1).collect();
    let digest = HEXLOWER.encode(&Sha256::digest(whole));
    format!("{shown}-{}", &digest[..DIGITS])
}

/// Returns true for a text that seems to end in a digest. Such a text gets its own digest.
fn has_digest(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let tail = text.len().checked_sub(DIGITS + 1).and_then(|at| text.as_bytes().get(at..));
    tail.is_some_and(|tail| tail[0] == b'-' && tail[1..].iter().all(is_digit))
}

/// Returns true if `RoleSessionName` and `SourceIdentity` may contain this character.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_+=,.@-".contains(c)
}

/// Returns true if a tag may contain this character. Other letters are excluded, because not all systems may
/// interpret them alike.
fn is_of_tag(c: char) -> bool {
    let is_latin = matches!(c, 'À'..='ɏ') && c != '×' && c != '÷';
    c.is_ascii_alphanumeric() || is_latin || "_.:/=+-@ ".contains(c)
}

/// Returns true if a group in a colon-separated list may contain this character.
fn is_of_group(c: char) -> bool {
    c != ':' && is_of_tag(c)
}

/// Template of a tag: text with at most one attribute of the person. With two attributes, a person could
/// choose one so that it resembles part of the other.
#[derive(Clone, Debug, PartialEq)]
pub struct TagValue {
    before: String,
    field: Option<Field>,
    after: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Field {
    Name,
    Id,
    Issuer,
    Subject,
    Tenant,
    Groups,
}

/// Attributes of a person that a tag can contain.
const FIELDS: [(&str, Field); 6] = [
    ("name", Field::Name),
    ("id", Field::Id),
    ("issuer", Field::Issuer),
    ("subject", Field::Subject),
    ("tenant", Field::Tenant),
    ("groups", Field::Groups),
];

impl TagValue {
    fn parse(text: &str) -> Result<Self, String> {
        let (before, rest) = text.split_once("{{").unwrap_or((text, ""));
        let (field, after) = match rest {
            "" if !text.contains("{{") => (None, ""),
            rest => {
                let (named, after) = rest.split_once("}}").ok_or("`{{` is not closed")?;
                let known = FIELDS.iter().find(|(name, _)| *name == named.trim());
                let (_, field) = known.ok_or_else(|| {
                    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                    format!("`{}` is unknown: a tag can say `{}`", named.trim(), names.join("`, `"))
                })?;
                (Some(*field), after)
            }
        };
        if after.contains("{{") {
            return Err("it says two things of the person: make a tag of each".to_owned());
        }
        if !(before.chars().chain(after.chars())).all(is_of_tag) || before.len() + after.len() > 128 {
            return Err(
                "a tag may hold letters, digits, spaces and `_.:/=+-@`, 128 beside the person's".to_owned()
            );
        }
        Ok(Self { before: before.to_owned(), field, after: after.to_owned() })
    }

    /// Renders the tag for a person. `None` if the attribute is unknown or empty. Groups that are too long
    /// together are an error.
    fn of(&self, whom: &OnBehalfOf) -> Result<Option<String>, String> {
        let Self { before, field, after } = self;
        let longest = LONGEST_VALUE - before.chars().count() - after.chars().count();
        let text = match field {
            None => return Ok(Some(before.clone())),
            Some(Field::Groups) if whom.groups.is_empty() => return Ok(None),
            Some(Field::Groups) => {
                let groups = whom.groups.iter().map(|group| fitted(group, LONGEST_VALUE, is_of_group) + ":");
                let joined = format!(":{}", groups.collect::<String>());
                if joined.chars().count() > longest {
                    return Err(format!(
                        "AWS takes {LONGEST_VALUE} characters, and your {} groups are longer together",
                        whom.groups.len()
                    ));
                }
                joined
            }
            Some(one) => {
                let id;
                let said = match one {
                    Field::Issuer => whom.issuer.as_deref(),
                    Field::Subject => whom.subject.as_deref(),
                    Field::Tenant => whom.tenant.as_deref(),
                    Field::Id => {
                        id = whom.id();
                        Some(id.as_str())
                    }
                    Field::Name | Field::Groups => Some(whom.name.as_str()),
                };
                match said.filter(|said| !said.is_empty()) {
                    Some(said) => fitted(said, longest, is_of_tag),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(format!("{before}{text}{after}")))
    }
}

impl<'de> Deserialize<'de> for TagValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn told(name: &str, subject: &str) -> OnBehalfOf {
        let issuer = Some("https://id.example".to_owned());
        OnBehalfOf { issuer, subject: Some(subject.to_owned()), ..OnBehalfOf::named(name) }
    }

    /// A valid name stays as it is. Different callers never get the same session name.
    #[test]
    fn session_name_is_unique_per_caller() {
        for plain in ["ann", "ann@example.com", "o=x,cn+ann_b-1"] {
            assert_eq!(name(&OnBehalfOf::named(plain)), plain);
        }
        let changed = name(&OnBehalfOf::named("ann b"));
        assert!(changed.starts_with("ann-b-") && changed.len() == 6 + DIGITS, "{changed}");
        let long = "x".repeat(65);
        // The name of one person is what the name of another becomes.
        let people = [
            OnBehalfOf::named("ann b"),
            OnBehalfOf::named("ann-b"),
            OnBehalfOf::named("ann/b"),
            OnBehalfOf::named(changed.as_str()),
            OnBehalfOf::named("a"),
            OnBehalfOf::named("änn"),
            OnBehalfOf::named(&long[..64]),
            OnBehalfOf::named(long.as_str()),
            told("ann-b", "1"),
            told("ann-b", "2"),
            told("ann b", "3"),
        ];
        let names: BTreeSet<String> = people.iter().map(name).collect();
        assert_eq!(names.len(), people.len(), "{names:?}");
        for name in names {
            assert!((2..=64).contains(&name.len()) && name.chars().all(is_of_name), "{name}");
        }
    }

    fn tags(pairs: &[(&str, &str)], whom: &OnBehalfOf) -> Result<Vec<(String, String)>, String> {
        let tags: BTreeMap<String, TagValue> = pairs
            .iter()
            .map(|(key, value)| Ok(((*key).to_owned(), TagValue::parse(value)?)))
            .collect::<Result<_, String>>()?;
        Session::of(whom, &tags).map(|session| session.tags)
    }

    /// The name or the group of a caller cannot inject another tag or another group.
    #[test]
    fn caller_name_cannot_forge_session_tag() {
        let said =
            |whom: &OnBehalfOf, value: &str| tags(&[("t", value)], whom).unwrap().pop().map(|tag| tag.1);
        let ann = told("Ann Ö.", "7");
        assert_eq!(said(&ann, "{{ name }}").as_deref(), Some("Ann Ö."));
        assert_eq!(said(&ann, "u={{subject}}.").as_deref(), Some("u=7."));
        assert_eq!(said(&ann, "ours").as_deref(), Some("ours"));
        assert_eq!((said(&ann, "{{ tenant }}"), said(&ann, "{{ groups }}")), (None, None));
        let injected = said(&OnBehalfOf::named("bob&Tags.member.2.Key=team\"*"), "{{ name }}").unwrap();
        assert!(injected.starts_with("bob-Tags.member.2.Key=team---"), "{injected}");

        let grouped = |groups: &[&str]| OnBehalfOf {
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..OnBehalfOf::named("ann")
        };
        assert_eq!(said(&grouped(&["data", "ml ops"]), "{{ groups }}").as_deref(), Some(":data:ml ops:"));
        let one = said(&grouped(&["data:admins"]), "{{ groups }}").unwrap();
        assert!(one.starts_with(":data-admins-") && !one.contains(":admins:"), "{one}");
        let many = grouped(&["x".repeat(200).as_str(), "y".repeat(200).as_str()]);
        let refused = tags(&[("team", "{{ groups }}")], &many).unwrap_err();
        assert!(refused.contains("`team`") && refused.contains("your 2 groups"), "{refused}");
    }

    /// A tag value that cannot be rendered is rejected when the config is read.
    #[test]
    fn invalid_tag_template_fails_config() {
        for (value, wrong) in [
            ("{{ nmae }}", "`nmae` is unknown: a tag can say `name`, `id`"),
            ("{{ name", "is not closed"),
            ("{{ name }}/{{ tenant }}", "two things"),
            ("a\u{7}", "a tag may hold"),
            ("{{ name | upper }}", "is unknown"),
        ] {
            assert!(TagValue::parse(value).is_err_and(|e| e.contains(wrong)), "{value}");
        }
    }
}
