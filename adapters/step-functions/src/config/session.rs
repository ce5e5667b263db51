//! Names and tags of people's sessions at AWS. Pure. No two people may get the same session name, and no two
//! values the same tag: rules at AWS depend on them.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::OnBehalfOf;

/// Maximum lengths of a session's name and of a tag's value.
const MAX_NAME_LENGTH: usize = 64;
const MAX_VALUE_LENGTH: usize = 256;
/// Number of hexadecimal digits that make a modified text unique.
const DIGEST_DIGITS: usize = 16;

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
        person: &OnBehalfOf,
        tags: impl IntoIterator<Item = (&'a String, &'a TagValue)>,
    ) -> Result<Self, String> {
        let mut rendered_tags = Vec::new();
        for (key, value) in tags {
            if let Some(value) =
                value.of(person).map_err(|reason| format!("the session tag `{key}`: {reason}"))?
            {
                rendered_tags.push((key.clone(), value));
            }
        }
        Ok(Self { name: name(person), tags: rendered_tags })
    }
}

/// Returns the name of a session. It is the person's name if that is also the person's id, is valid at AWS,
/// and does not look like a name with a digest. Otherwise it is the valid part of the name with a digest of
/// the id.
fn name(person: &OnBehalfOf) -> String {
    let (id, name) = (person.id(), person.name.as_str());
    let is_valid = (2..=MAX_NAME_LENGTH).contains(&name.len()) && name.chars().all(is_name_char);
    if id == name && is_valid && !has_digest(name) {
        return name.to_owned();
    }
    with_digest(name, &id, MAX_NAME_LENGTH, is_name_char)
}

/// Returns a valid text unchanged. Otherwise returns its beginning, with `-` for each invalid character, and
/// a digest of the whole text.
fn fit_or_digest(text: &str, max_length: usize, is_allowed: fn(char) -> bool) -> String {
    if text.chars().count() <= max_length && text.chars().all(is_allowed) && !has_digest(text) {
        return text.to_owned();
    }
    with_digest(text, text, max_length, is_allowed)
}

fn with_digest(visible: &str, digest_input: &str, max_length: usize, is_allowed: fn(char) -> bool) -> String {
    let prefix: String = visible
        .chars()
        .map(|c| if is_allowed(c) { c } else { '-' })
        .take(max_length - DIGEST_DIGITS - 1)
        .collect();
    let digest = HEXLOWER.encode(&Sha256::digest(digest_input));
    format!("{prefix}-{}", &digest[..DIGEST_DIGITS])
}

/// Returns true for a text that seems to end in a digest. Such a text gets its own digest.
fn has_digest(text: &str) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let tail = text.len().checked_sub(DIGEST_DIGITS + 1).and_then(|at| text.as_bytes().get(at..));
    tail.is_some_and(|tail| tail[0] == b'-' && tail[1..].iter().all(is_digit))
}

/// Returns true if `RoleSessionName` and `SourceIdentity` may contain this character.
fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_+=,.@-".contains(c)
}

/// Returns true if a tag may contain this character. Other letters are excluded, because not all systems may
/// interpret them alike.
fn is_tag_char(c: char) -> bool {
    let is_latin = matches!(c, 'À'..='ɏ') && c != '×' && c != '÷';
    c.is_ascii_alphanumeric() || is_latin || "_.:/=+-@ ".contains(c)
}

/// Returns true if a group in a colon-separated list may contain this character.
fn is_group_char(c: char) -> bool {
    c != ':' && is_tag_char(c)
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
                let (attribute, after) = rest.split_once("}}").ok_or("`{{` is not closed")?;
                let entry = FIELDS.iter().find(|(name, _)| *name == attribute.trim());
                let (_, field) = entry.ok_or_else(|| {
                    let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
                    format!("`{}` is unknown: a tag can contain `{}`", attribute.trim(), names.join("`, `"))
                })?;
                (Some(*field), after)
            }
        };
        if after.contains("{{") {
            return Err("the value has two attributes of the person: use a tag for each".to_owned());
        }
        if !(before.chars().chain(after.chars())).all(is_tag_char) || before.len() + after.len() > 128 {
            return Err(
                "a tag may contain letters, digits, spaces and `_.:/=+-@`, at most 128 besides the attribute"
                    .to_owned(),
            );
        }
        Ok(Self { before: before.to_owned(), field, after: after.to_owned() })
    }

    /// Renders the tag for a person. `None` if the attribute is unknown or empty. Groups that are too long
    /// together are an error.
    fn of(&self, person: &OnBehalfOf) -> Result<Option<String>, String> {
        let Self { before, field, after } = self;
        let max_length = MAX_VALUE_LENGTH - before.chars().count() - after.chars().count();
        let text = match field {
            None => return Ok(Some(before.clone())),
            Some(Field::Groups) if person.groups.is_empty() => return Ok(None),
            Some(Field::Groups) => {
                let groups = person
                    .groups
                    .iter()
                    .map(|group| fit_or_digest(group, MAX_VALUE_LENGTH, is_group_char) + ":");
                let joined = format!(":{}", groups.collect::<String>());
                if joined.chars().count() > max_length {
                    return Err(format!(
                        "AWS accepts {MAX_VALUE_LENGTH} characters, and your {} groups are longer together",
                        person.groups.len()
                    ));
                }
                joined
            }
            Some(attribute) => {
                let id;
                let value = match attribute {
                    Field::Issuer => person.issuer.as_deref(),
                    Field::Subject => person.subject.as_deref(),
                    Field::Tenant => person.tenant.as_deref(),
                    Field::Id => {
                        id = person.id();
                        Some(id.as_str())
                    }
                    Field::Name | Field::Groups => Some(person.name.as_str()),
                };
                match value.filter(|value| !value.is_empty()) {
                    Some(value) => fit_or_digest(value, max_length, is_tag_char),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(format!("{before}{text}{after}")))
    }
}

impl<'de> Deserialize<'de> for TagValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn federated_person(name: &str, subject: &str) -> OnBehalfOf {
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
        assert!(changed.starts_with("ann-b-") && changed.len() == 6 + DIGEST_DIGITS, "{changed}");
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
            federated_person("ann-b", "1"),
            federated_person("ann-b", "2"),
            federated_person("ann b", "3"),
        ];
        let names: BTreeSet<String> = people.iter().map(name).collect();
        assert_eq!(names.len(), people.len(), "{names:?}");
        for name in names {
            assert!((2..=64).contains(&name.len()) && name.chars().all(is_name_char), "{name}");
        }
    }

    fn tags(pairs: &[(&str, &str)], person: &OnBehalfOf) -> Result<Vec<(String, String)>, String> {
        let tags: BTreeMap<String, TagValue> = pairs
            .iter()
            .map(|(key, value)| Ok(((*key).to_owned(), TagValue::parse(value)?)))
            .collect::<Result<_, String>>()?;
        Session::of(person, &tags).map(|session| session.tags)
    }

    /// The name or the group of a caller cannot inject another tag or another group.
    #[test]
    fn caller_name_cannot_forge_session_tag() {
        let render =
            |person: &OnBehalfOf, value: &str| tags(&[("t", value)], person).unwrap().pop().map(|tag| tag.1);
        let ann = federated_person("Ann Ö.", "7");
        assert_eq!(render(&ann, "{{ name }}").as_deref(), Some("Ann Ö."));
        assert_eq!(render(&ann, "u={{subject}}.").as_deref(), Some("u=7."));
        assert_eq!(render(&ann, "ours").as_deref(), Some("ours"));
        assert_eq!((render(&ann, "{{ tenant }}"), render(&ann, "{{ groups }}")), (None, None));
        let injected = render(&OnBehalfOf::named("bob&Tags.member.2.Key=team\"*"), "{{ name }}").unwrap();
        assert!(injected.starts_with("bob-Tags.member.2.Key=team---"), "{injected}");

        let grouped = |groups: &[&str]| OnBehalfOf {
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..OnBehalfOf::named("ann")
        };
        assert_eq!(render(&grouped(&["data", "ml ops"]), "{{ groups }}").as_deref(), Some(":data:ml ops:"));
        let one = render(&grouped(&["data:admins"]), "{{ groups }}").unwrap();
        assert!(one.starts_with(":data-admins-") && !one.contains(":admins:"), "{one}");
        let many = grouped(&["x".repeat(200).as_str(), "y".repeat(200).as_str()]);
        let error = tags(&[("team", "{{ groups }}")], &many).unwrap_err();
        assert!(error.contains("`team`") && error.contains("your 2 groups"), "{error}");
    }

    /// A tag value that cannot be rendered is rejected when the config is read.
    #[test]
    fn invalid_tag_template_fails_config() {
        for (value, expected) in [
            ("{{ nmae }}", "`nmae` is unknown: a tag can contain `name`, `id`"),
            ("{{ name", "is not closed"),
            ("{{ name }}/{{ tenant }}", "two attributes"),
            ("a\u{7}", "a tag may contain"),
            ("{{ name | upper }}", "is unknown"),
        ] {
            assert!(TagValue::parse(value).is_err_and(|e| e.contains(expected)), "{value}");
        }
    }
}
