//! `tests/changed.py`: what a change affects. It must not run sections.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::root;

/// Returns the sections and the packages that changes of these paths affect.
fn affected(paths: &str) -> (Vec<String>, Vec<String>) {
    let mut command = Command::new(root().join("tests/changed.py"));
    command.arg("-").current_dir(root()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = command.spawn().expect("the script starts");
    script.stdin.take().expect("a pipe").write_all(paths.as_bytes()).expect("it reads");
    let output = script.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let words = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().map(str::to_owned).collect()
    };
    (words("sections:"), words("packages:"))
}

/// A change affects the sections of its kind, and the tests of the packages that use it.
#[test]
fn change_affects_users_only() {
    let (sections, packages) = affected("adapters/slurm/src/core/mod.rs");
    assert!(sections.contains(&"engines".to_owned()) && !sections.contains(&"conformance".to_owned()));
    assert_eq!(packages, ["custom_adapter", "taskbridge", "taskbridge-slurm"]);
    let (sections, _) = affected("adapters/local/src/lib.rs");
    assert!(sections.contains(&"conformance".to_owned()), "its server runs local jobs: {sections:?}");
    let (sections, _) = affected("fuzz/src/lib.rs");
    assert!(sections.contains(&"tests".to_owned()), "they compile it: {sections:?}");
    let (sections, _) = affected("tests/conformance/run.mjs\n");
    assert_eq!(sections, ["packages", "build", "conformance"]);
}

/// What no rule names affects everything, also beside a path that a rule names.
#[test]
fn unknown_path_affects_everything() {
    let (sections, packages) = affected("README.md\nsome/new/file");
    assert!(
        ["lint", "tests", "chaos", "conformance"].iter().all(|name| sections.iter().any(|it| it == name))
    );
    assert_eq!(packages, [""; 0], "that is every package");
}
