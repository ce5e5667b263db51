//! The tests that documents name exist.

use std::fs;

use super::{Source, assert_none, root, sources};

/// The conformance tables, and the test folder that their unqualified names refer to.
const CONFORMANCE: [(&str, &str); 2] =
    [("docs/conformance.md", "v2025"), ("docs/conformance-2026-07-28.md", "v2026")];

/// Returns the test names in the last column of a row: `function`, or one qualified with its modules.
fn tests_named(row: &str) -> Vec<&str> {
    let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    let names = cell.split(|c: char| !is_part(c)).map(|name| name.trim_matches(':'));
    names.filter(|name| name.rsplit("::").next().is_some_and(|last| last.matches('_').count() > 1)).collect()
}

/// Reports a test name that is ambiguous or missing. Its function must be in exactly one file, or in several
/// if one of them is below `own`.
fn test_name_error(all: &[Source], name: &str, own: Option<&str>) -> Option<String> {
    let mut parts = name.rsplit("::");
    let function = parts.next().unwrap_or(name);
    let modules: Vec<&str> = parts.filter(|module| *module != "tests").collect();
    let matches_modules = |source: &&Source| {
        let path = source.path.trim_end_matches(".rs");
        modules.iter().all(|module| path.split('/').any(|part| part == *module))
    };
    let has = |source: &&Source| source.text.contains(&format!("fn {function}("));
    let found: Vec<&Source> = all.iter().filter(matches_modules).filter(has).collect();
    let in_own_folder = own.is_some_and(|own| found.iter().any(|source| source.path.starts_with(own)));
    let is_unique = found.len() == 1 || (found.len() > 1 && in_own_folder);
    (!is_unique).then(|| format!("{name} is in {} files", found.len()))
}

/// Each test that these files name must exist, in a file or folder with the name of its module.
#[test]
fn conformance_tables_name_existing_tests() {
    let all = sources(&["src", "crates", "adapters", "tests"]);
    let mut errors = Vec::new();
    for (file, folder) in CONFORMANCE {
        let table = fs::read_to_string(root().join(file)).unwrap();
        let own = format!("tests/it/{folder}/");
        let mut named = 0;
        for row in table.lines().filter(|line| line.starts_with("| ")) {
            for name in tests_named(row) {
                named += 1;
                if let Some(error) = test_name_error(&all, name, Some(&own)) {
                    let id = row.split('|').nth(1).unwrap_or("").trim();
                    errors.push(format!("{file}, {id}: {error}"));
                }
            }
        }
        assert!(named > 100, "{file} names only {named} tests");
    }
    assert_none("names of tests in a conformance table that are missing or ambiguous", &errors);
}

/// The minimum number of attacks in docs/attacks.md.
const ATTACKS: usize = 86;

/// Each attack has a test, and each row describes the attempt and the result in two cells.
#[test]
fn each_attack_names_tests_that_exist() {
    let all = sources(&["src", "crates", "adapters", "tests", "fuzz"]);
    let table = fs::read_to_string(root().join("docs/attacks.md")).unwrap();
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| what is tried")).collect();
    let mut errors = Vec::new();
    for row in &rows {
        let tried = row.split('|').nth(1).unwrap_or_default().trim();
        if row.matches('|').count() != 4 || tests_named(row).is_empty() {
            errors.push(format!("{tried}: three cells, with a test in the last"));
        }
        errors.extend(tests_named(row).iter().filter_map(|name| {
            let error = test_name_error(&all, name, None)?;
            Some(format!("{tried}: {error}"))
        }));
    }
    let mut tried: Vec<&str> = rows.iter().filter_map(|row| row.split('|').nth(1)).collect();
    tried.sort_unstable();
    errors.extend(
        tried.windows(2).filter(|two| two[0] == two[1]).map(|two| format!("{} is listed twice", two[0])),
    );
    assert_none("rows of docs/attacks.md that no test covers", &errors);
    assert!(rows.len() >= ATTACKS, "docs/attacks.md has only {} rows", rows.len());
}
