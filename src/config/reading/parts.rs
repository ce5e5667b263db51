//! [`Parts`]: digests of a config by part, to find the parts in which two configs differ. It keeps only
//! digests and reports only names, because a part may contain secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value};

use super::source::join;

/// The tables whose members have user-defined names.
const NAMED_TABLES: [&str; 6] =
    ["adapters", "backends", "tools", "resources", "prompts", "concurrency_groups"];

/// Settings whose changes take effect only after a restart: a table, or one field of it.
const RESTART_SETTINGS: [(&str, Option<&str>); 10] = [
    ("server", Some("listen")),
    ("server", Some("drain_for")),
    ("server", Some("stop_within")),
    ("store", None),
    ("reconciler", None),
    ("log", None),
    ("metrics", None),
    ("telemetry", None),
    ("audit", None),
    ("console", None),
];

/// A digest of each member of each table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts(BTreeMap<String, BTreeMap<String, u64>>);

/// The differences between two configs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences(Vec<Difference>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Difference {
    table: String,
    member: String,
    kind: ChangeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ChangeKind {
    Changed,
    Added,
    Removed,
}

impl Parts {
    /// Computes the digests of a file's parts. `files` are digests of the files that a field refers to.
    pub(in crate::config) fn of(fields: &Map<String, Value>, files: &[(String, u64)]) -> Self {
        let mut parts = BTreeMap::new();
        for (table, members) in fields {
            let list;
            let members = match members {
                Value::Object(members) => members,
                // A list of tables is one part, because its members have no names.
                other => {
                    list = Map::from_iter([("all".to_owned(), other.clone())]);
                    &list
                }
            };
            let digest = |(name, value): (&String, &Value)| {
                let mut hasher = DefaultHasher::new();
                value.to_string().hash(&mut hasher);
                let part = if fields[table].is_array() { table.clone() } else { join(table, name) };
                for (field, digest) in files {
                    let is_within =
                        field.strip_prefix(&part).is_some_and(|rest| rest.starts_with(['.', '[']));
                    if is_within || *field == part {
                        (field, digest).hash(&mut hasher);
                    }
                }
                (name.clone(), hasher.finish())
            };
            parts.insert(table.clone(), members.iter().map(digest).collect());
        }
        Self(parts)
    }

    /// Returns true if the file has no tables.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if there is a part of this name.
    pub fn has(&self, table: &str, member: &str) -> bool {
        self.0.get(table).is_some_and(|members| members.contains_key(member))
    }

    /// Returns the differences between this config and a newer one.
    pub fn differences(&self, new: &Self) -> Differences {
        let tables: BTreeSet<&String> = self.0.keys().chain(new.0.keys()).collect();
        let empty = BTreeMap::new();
        let mut all = Vec::new();
        for table in tables {
            let old = self.0.get(table).unwrap_or(&empty);
            let new = new.0.get(table).unwrap_or(&empty);
            let members: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for member in members {
                let kind = match (old.get(member), new.get(member)) {
                    (Some(old), Some(new)) if old == new => continue,
                    (None, Some(_)) => ChangeKind::Added,
                    (Some(_), None) => ChangeKind::Removed,
                    _ => ChangeKind::Changed,
                };
                all.push(Difference { table: table.clone(), member: member.clone(), kind });
            }
        }
        Differences(all)
    }
}

impl Differences {
    /// Returns true if there are no differences.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the differences that take effect after a restart.
    #[must_use]
    pub fn after_restart(&self) -> Self {
        Self(self.0.iter().filter(|difference| difference.needs_restart()).cloned().collect())
    }

    /// Returns the differences that take effect immediately.
    #[must_use]
    pub fn immediate(&self) -> Self {
        Self(self.0.iter().filter(|difference| !difference.needs_restart()).cloned().collect())
    }
}

impl Difference {
    fn needs_restart(&self) -> bool {
        let is_match = |(table, field): &(&str, Option<&str>)| {
            self.table == *table && field.is_none_or(|field| self.member == field)
        };
        RESTART_SETTINGS.iter().any(is_match)
    }
}

/// For example `tools changed: a, b; tools added: c; [server] page_size`.
impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut phrases: Vec<String> = Vec::new();
        for table in NAMED_TABLES {
            for (kind, word) in [
                (ChangeKind::Changed, "changed"),
                (ChangeKind::Added, "added"),
                (ChangeKind::Removed, "removed"),
            ] {
                let is_of_kind =
                    |difference: &&Difference| difference.table == table && difference.kind == kind;
                let names: Vec<&str> =
                    self.0.iter().filter(is_of_kind).map(|difference| &*difference.member).collect();
                if !names.is_empty() {
                    phrases.push(format!("{} {word}: {}", table.replace('_', " "), names.join(", ")));
                }
            }
        }
        let others = self.0.iter().filter(|difference| !NAMED_TABLES.contains(&&*difference.table));
        phrases.extend(others.map(|Difference { table, member, .. }| match member.as_str() {
            "all" => format!("[[{table}]]"),
            member => format!("[{table}] {member}"),
        }));
        f.write_str(&phrases.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parts(config: &Value, files: &[(&str, u64)]) -> Parts {
        let files: Vec<_> = files.iter().map(|(field, digest)| ((*field).to_owned(), *digest)).collect();
        Parts::of(config.as_object().unwrap(), &files)
    }

    /// The text names the changed parts and contains no values.
    #[test]
    fn config_differences_hide_values() {
        let old = json!({
            "server": {"listen": "127.0.0.1:1", "page_size": 5},
            "tools": {"a": {"x": 1}, "ab": {"x": 1}, "gone": {}, "file": {"input_schema": "s.json"}},
            "backends": {"b": {"env": {"TOKEN": "old secret"}}},
        });
        let new = json!({
            "server": {"listen": "127.0.0.1:2", "page_size": 6},
            "tools": {"a": {"x": 1}, "ab": {"x": 2}, "new": {}, "file": {"input_schema": "s.json"}},
            "backends": {"b": {"env": {"TOKEN": "new secret"}}},
            "notify": [{"url": "https://example.com/secret"}],
            "store": {"path": "x"},
        });
        let old = parts(&old, &[("tools.file.input_schema", 1), ("tools.ab", 7)]);
        let new = parts(&new, &[("tools.file.input_schema", 2), ("tools.ab", 7)]);
        let differences = old.differences(&new);
        assert_eq!(
            differences.immediate().to_string(),
            "backends changed: b; tools changed: ab, file; tools added: new; tools removed: gone; [[notify]]; [server] page_size"
        );
        assert_eq!(differences.after_restart().to_string(), "[server] listen; [store] path");
        assert!(old.differences(&old).is_empty());
    }
}
