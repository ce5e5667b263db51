//! Runs the walkthrough with curl of the book, and checks README.md: its config and its length.

use std::process::Command;

use crate::support::{PROGRAM, Server, TestDir};

const README: &str = include_str!("../../README.md");

/// Returns the block of a page that begins with this fence.
fn block(text: &str, fence: &str) -> String {
    let (_, rest) = text.split_once(&format!("```{fence}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[tokio::test]
async fn the_walkthrough_ends_with_a_result() {
    let dir = TestDir::new("");
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(["--listen", "127.0.0.1:0"]));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let mut server = Server::spawn(command, &dir.path("server.log"));
    server.wait_until_it_listens();

    let mut walkthrough = Command::new("sh");
    dir.prepare(walkthrough.args([
        "-eu",
        "-c",
        &block(include_str!("../../docs/guide/curl.md"), "sh walkthrough"),
    ]));
    walkthrough.env("URL", server.url());
    let ended = dir.run(walkthrough).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"status\":\"working\""), "{}", ended.stdout);
    assert!(ended.stdout.contains("Lift-off after 3 seconds."), "{}", ended.stdout);
}

#[tokio::test]
async fn readme_config_is_valid() {
    let dir = TestDir::new(&block(README, "toml config"));
    let checked = dir.run(dir.command("check")).await;
    assert!(checked.stdout.ends_with("all right: 1 tool on 1 backend\n"), "{}", checked.stderr);
}

/// A new reader reads one page.
#[test]
fn readme_is_one_page() {
    let words = README.split_whitespace().count();
    assert!(words < 1000, "README.md has {words} words: move what is too much into docs/");
}

/// Every file that README.md links exists.
#[test]
fn readme_links_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let targets = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files: Vec<&str> = targets.filter(|target| !target.starts_with("http")).collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        assert!(root.join(file.split('#').next().unwrap_or_default()).exists(), "README.md links {file}");
    }
}
