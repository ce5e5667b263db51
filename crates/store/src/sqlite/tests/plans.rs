//! Every statement finds its rows by an index, so that its cost does not grow with the number of rows. No
//! statement has a parameter that is not bound.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rusqlite::Connection;

use super::super::connection::schema;

/// Files whose statements read whole tables or are executed rarely: the audit log, the operators' view, a
/// copy, the schema, and counts. Each name occurs once among the folders of the store.
const UNCHECKED: [&str; 6] = ["audit.rs", "export.rs", "moved.rs", "schema.rs", "survey.rs", "tally.rs"];

/// Intended full scans of small data: the first due rows, watched groups, an owner's rows and taken slots
/// up to a limit, and abandoned rows of one digest. The same applies to lists of names: backends elsewhere,
/// and tools with visible tasks. Other scans are rare: expired notices are searched once a minute, the
/// notices of a process that ends are searched once, and the identities of a backend's rows are counted when
/// it connects.
const ALLOWED_SCANS: [(&str, &str); 12] = [
    ("SCAN groups", ""),
    ("SCAN (subquery-1)", "FROM slots"),
    ("USE TEMP B-TREE", "digest = :digest"),
    // Rows with one due time are sorted by id.
    ("USE TEMP B-TREE", "(due_at, id) > (:due, :id)"),
    ("USE TEMP B-TREE", "GROUP BY identity"),
    ("SCAN notices", "WHERE since < ?1"),
    ("SCAN json_each", "WHERE since < ?1"),
    ("SCAN notices", "WHERE holder = ?1"),
    // Only after the clock was set back.
    ("SCAN notices", "WHERE holder IS NOT NULL"),
    ("SCAN deliveries", "WHERE until > ?1"),
    ("SCAN json_each", "tool IN (SELECT value FROM json_each"),
    ("SCAN (subquery", "owner = ?1 LIMIT ?2"),
];

#[test]
fn every_statement_uses_an_index() {
    let mut db = Connection::open_in_memory().expect("a database in memory");
    schema::migrate(&mut db).expect("the schema");
    let (mut walked, mut used) = (Vec::new(), BTreeSet::new());
    let sources = checked_sources();
    for statement in sources.iter().flat_map(|source| statements(source)) {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("a statement");
        let count = explain.parameter_count();
        let nulls = rusqlite::params_from_iter(std::iter::repeat_n(None::<i64>, count));
        let steps = explain.query_map(nulls, |row| row.get::<_, String>(3)).expect("a plan");
        for step in steps.map(|step| step.expect("a step")) {
            let walks = step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW";
            if !walks && !step.contains("TEMP B-TREE") {
                continue;
            }
            match ALLOWED_SCANS.iter().find(|(this, of)| step.starts_with(this) && statement.contains(of)) {
                Some(allowed) => drop(used.insert(allowed)),
                None => walked.push(format!("{step}: {statement}")),
            }
        }
    }
    assert!(walked.is_empty(), "{walked:#?}");
    let unused: Vec<_> = ALLOWED_SCANS.iter().filter(|allowed| !used.contains(allowed)).collect();
    assert!(unused.is_empty(), "allowed, but no statement does it: {unused:#?}");
}

#[test]
fn all_statements_are_seen() {
    let sources = checked_sources();
    let seen = sources.iter().flat_map(|source| statements(source)).count();
    let calls = ["db.sql(", "db.execute(", "db.first(", "db.all(", "db.exists("];
    let made = |source: &String| calls.iter().map(|call| source.matches(call).count()).sum::<usize>();
    let made = sources.iter().map(made).sum::<usize>();
    assert_eq!(seen, made, "a statement is not written as one literal");
}

/// `row::execute`, `row::query` and `row::write` check that no parameter is missing.
#[test]
fn named_parameters_are_checked() {
    for (name, source) in sources(|_| true) {
        let checks = ["row::execute(", "row::query(", "row::write("];
        let checked: usize = checks.iter().map(|check| source.matches(check).count()).sum();
        let named = source.matches("named_params! {").count();
        assert_eq!(named, checked, "{name} executes a statement whose named parameters are not checked");
    }
}

/// Returns the files of the store, also those in its folders, without their tests. A name has no folder.
fn sources(is_included: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite")];
    let mut included = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("an entry")) {
            let (path, name) = (entry.path(), entry.file_name().into_string().expect("a name in UTF-8"));
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if name.ends_with(".rs") && is_included(&name) {
                let source = fs::read_to_string(path).expect("a file");
                let code = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                included.push((name, code.to_owned()));
            }
        }
    }
    included
}

fn checked_sources() -> Vec<String> {
    let unchecked = sources(|name| UNCHECKED.contains(&name));
    assert_eq!(unchecked.len(), UNCHECKED.len(), "each file that is not checked exists once");
    let checked = sources(|name| !UNCHECKED.contains(&name));
    checked.into_iter().map(|(_, source)| expand_claimable(&source)).collect()
}

/// Replaces each `claimable!()` within a `concat!` by its text.
fn expand_claimable(source: &str) -> String {
    let Some((_, definition)) = source.split_once("macro_rules! claimable {") else {
        return source.to_owned();
    };
    let text = definition.split('"').nth(1).expect("a literal");
    let is_joint = |c: char| c.is_whitespace() || c == ',' || c == '"';
    let parts: Vec<&str> = source.split("claimable!(),").map(|part| part.trim_matches(is_joint)).collect();
    parts.join(&format!(" {text} "))
}

fn statements(source: &str) -> impl Iterator<Item = &str> {
    let literals = source.split('"').skip(1).step_by(2);
    literals.filter(|text| ["SELECT", "INSERT", "UPDATE", "DELETE"].iter().any(|verb| text.starts_with(verb)))
}
