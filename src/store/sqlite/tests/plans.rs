//! Every statement finds its rows by an index, so that its cost does not grow with the number of rows.

use rusqlite::Connection;

use super::super::schema;

/// The source files with statements.
const SOURCES: [&str; 9] = [
    include_str!("../tasks.rs"),
    include_str!("../insert.rs"),
    include_str!("../update.rs"),
    include_str!("../queue.rs"),
    include_str!("../groups.rs"),
    include_str!("../notes.rs"),
    include_str!("../history.rs"),
    include_str!("../notices.rs"),
    include_str!("../deliveries.rs"),
];

/// Intended full scans of small data: the first due rows, watched groups, an owner's rows and taken slots
/// up to a limit, and abandoned rows of one digest. The same applies to lists of names: backends elsewhere,
/// and tools with visible tasks. Other scans are rare: expired notices are searched once a minute, and the
/// notices of a process that ends are searched once.
const ALLOWED_SCANS: [(&str, &str); 14] = [
    ("SCAN groups", ""),
    ("SCAN (subquery-1)", "FROM slots"),
    ("USE TEMP B-TREE", "digest = :digest"),
    ("SCAN notices", "WHERE since < ?1"),
    ("SCAN json_each", "WHERE since < ?1"),
    ("SCAN notices", "WHERE holder = ?1"),
    // Only after the clock was set back.
    ("SCAN notices", "WHERE holder IS NOT NULL"),
    ("SCAN deliveries", "WHERE until > ?1"),
    ("SCAN json_each", "value = json_extract(tasks.body"),
    ("SCAN json_each", "tool IN (SELECT value FROM json_each"),
    ("SCAN (subquery", "owner = ?1 LIMIT ?2"),
    ("SCAN (subquery", "PARTITION BY owner"),
    ("SCAN fair", "PARTITION BY owner"),
    ("USE TEMP B-TREE", "PARTITION BY owner"),
];

#[test]
fn every_statement_uses_an_index() {
    let mut db = Connection::open_in_memory().expect("a database in memory");
    schema::migrate(&mut db).expect("the schema");
    let mut walked = Vec::new();
    for statement in SOURCES.iter().flat_map(|source| statements(source)) {
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("a statement");
        let count = explain.parameter_count();
        let nulls = rusqlite::params_from_iter(std::iter::repeat_n(None::<i64>, count));
        let steps = explain.query_map(nulls, |row| row.get::<_, String>(3)).expect("a plan");
        for step in steps.map(|step| step.expect("a step")) {
            let walks = step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW";
            let few = ALLOWED_SCANS.iter().any(|(this, of)| step.starts_with(this) && statement.contains(of));
            if (walks || step.contains("TEMP B-TREE")) && !few {
                walked.push(format!("{step}: {statement}"));
            }
        }
    }
    assert!(walked.is_empty(), "{walked:#?}");
}

fn statements(source: &str) -> impl Iterator<Item = &str> {
    let literals = source.split('"').skip(1).step_by(2);
    literals.filter(|text| ["SELECT", "INSERT", "UPDATE", "DELETE"].iter().any(|verb| text.starts_with(verb)))
}

/// SQLite takes a parameter that is not bound as null, without an error.
#[test]
fn every_named_parameter_is_bound() {
    let columns = include_str!("../../row.rs");
    for source in SOURCES {
        for statement in statements(source) {
            let names = statement.split(':').skip(1).map(|rest| {
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
            });
            for literal in names.map(|name| format!("\":{name}\"")) {
                assert!(source.contains(&literal) || columns.contains(&literal), "{literal} of {statement}");
            }
        }
    }
}

#[test]
fn all_statements_are_seen() {
    let seen = SOURCES.iter().flat_map(|source| statements(source)).count();
    let made = SOURCES.iter().map(|source| source.matches(".sql(").count()).sum::<usize>();
    assert_eq!(seen, made, "a statement is not written as one literal");
}
