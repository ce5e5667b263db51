//! Tests for SIGHUP: it reloads the config, changed or not; where it means that the terminal is gone, the
//! server stops.

use rustix::process::Signal;

use super::{ONE, replace_config, start, tools, wait_for_log, wait_for_nth_log};
use crate::support::{BASICS, Pty, TestDir};

#[tokio::test]
async fn a_hangup_reads_the_config_again() {
    let app = start("");
    let session = app.client().await;
    app.server.signal(Signal::HUP);
    wait_for_log(&app.dir, "SIGHUP: config is read again").await;
    wait_for_log(&app.dir, "config read again: no changes").await;
    replace_config(
        &app.dir,
        &format!("{ONE}[tools.more]\nbackend = \"here\"\ntarget.command = [\"true\"]\n"),
    );
    app.server.signal(Signal::HUP);
    wait_for_log(&app.dir, "config applied: tools added: more").await;
    assert_eq!(tools(&session).await, ["hello", "more"]);
    replace_config(&app.dir, "nothing of this is TOML");
    app.server.signal(Signal::HUP);
    wait_for_log(&app.dir, "not valid TOML").await;
    wait_for_nth_log(&app.dir, "SIGHUP", 3).await;
    assert_eq!(tools(&session).await, ["hello", "more"]);
}

#[tokio::test]
async fn lost_terminal_stops_server() {
    let dir = TestDir::new(&format!("{BASICS}{ONE}"));
    let mut pty = Pty::start(&dir.command("serve"));
    pty.wait_for("Or by hand").await;
    assert_eq!(pty.close_terminal().await, Some(0));
}
