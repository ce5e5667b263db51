//! Tests of colours and of hints to the documentation: only for a terminal, and no colour with `NO_COLOR`.

use super::{program, run};
use crate::support::{Pty, TestDir};

/// Returns what a command prints at a terminal.
async fn at_terminal(dir: &TestDir, arguments: &[&str], no_color: bool) -> String {
    let mut command = program(dir, arguments);
    command.env("TERM", "xterm-256color");
    if no_color {
        command.env("NO_COLOR", "1");
    }
    let bytes = Pty::start_at(&command, 200).recording().await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn colour_is_for_terminals_only() {
    let dir = TestDir::new("");
    let check = ["check", "--config", "taskbridge.toml"];
    let coloured = at_terminal(&dir, &check, false).await;
    assert!(coloured.contains("\u{1b}[32mall right\u{1b}[0m"), "{coloured:?}");
    let plain = at_terminal(&dir, &check, true).await;
    assert!(plain.contains("taskbridge.toml: all right: ") && !plain.contains('\u{1b}'), "{plain:?}");
    let piped = run(&dir, &check).await;
    assert_eq!(piped.stdout, "taskbridge.toml: all right: 0 tools on 0 backends\n");
}

/// At a terminal, an error names the page that explains it. A script gets the error alone.
#[tokio::test]
async fn error_names_its_page() {
    let dir = TestDir::new("[sever]\n");
    let check = ["check", "--config", "taskbridge.toml"];
    let shown = at_terminal(&dir, &check, true).await;
    assert!(shown.contains("did you mean `server`?"), "{shown:?}");
    assert!(shown.trim_end().ends_with("More: docs/guide/config-files.md"), "{shown:?}");
    let piped = run(&dir, &check).await;
    assert!(!piped.stderr.contains("More: "), "{}", piped.stderr);
}
