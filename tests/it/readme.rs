//! Runs the walkthrough of README.md.

use std::process::Command;

use crate::support::{PROGRAM, Server, TestDir};

/// Returns the block of README.md that begins with this fence.
fn block(fence: &str) -> String {
    let text = include_str!("../../README.md");
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
    dir.prepare(walkthrough.args(["-eu", "-c", &block("sh walkthrough")]));
    walkthrough.env("URL", server.url());
    let ended = dir.run(walkthrough).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"status\":\"working\""), "{}", ended.stdout);
    assert!(ended.stdout.contains("Lift-off after 3 seconds."), "{}", ended.stdout);
}

#[tokio::test]
async fn readme_config_is_valid() {
    let dir = TestDir::new(&block("toml config"));
    let checked = dir.run(dir.command("check")).await;
    assert!(checked.stdout.ends_with("all right: 1 tool on 1 backend\n"), "{}", checked.stderr);
}
