//! Tests for SIGHUP: it reloads the config, changed or not; where it means that the terminal is gone, the
//! server stops.

use rustix::process::Signal;

use super::{ONE, logged, logged_again, put, start, tools};
use crate::support::{BASICS, Place, Pty};

#[tokio::test]
async fn a_hangup_reads_the_config_again() {
    let app = start("");
    let session = app.client().await;
    app.server.signal(Signal::HUP);
    logged(&app.place, "SIGHUP: the config is read again").await;
    logged(&app.place, "config read again: nothing to apply").await;
    put(&app.place, &format!("{ONE}[tools.more]\nbackend = \"here\"\ntarget.command = [\"true\"]\n"));
    app.server.signal(Signal::HUP);
    logged(&app.place, "config applied: tools added: more").await;
    assert_eq!(tools(&session).await, ["hello", "more"]);
    put(&app.place, "nothing of this is TOML");
    app.server.signal(Signal::HUP);
    logged(&app.place, "not valid TOML").await;
    logged_again(&app.place, "SIGHUP", 3).await;
    assert_eq!(tools(&session).await, ["hello", "more"]);
}

#[tokio::test]
async fn lost_terminal_stops_server() {
    let place = Place::new(&format!("{BASICS}{ONE}"));
    let mut pty = Pty::start(&place.command("serve"));
    pty.shows("Or by hand").await;
    assert_eq!(pty.goes_away().await, Some(0));
}
