//! API keys: made by the program, good until their end, and beside tokens.

use std::process::Command;

use super::{answered, config, serve};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{PROGRAM, Place};

/// A key that the program makes, and the lines of the config.
pub(super) async fn made(arguments: &[&str]) -> (String, String) {
    let place = Place::new("");
    let mut command = Command::new(PROGRAM);
    place.settle(command.args(["key", "new"]).args(arguments));
    let said = place.run(command).await;
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""));
    let key = said.stdout.lines().next().unwrap().to_owned();
    let lines = said.stdout.split_once("[[auth.keys]]").unwrap().1;
    assert!(key.starts_with("tb_") && !lines.contains(&key), "{}", said.stdout);
    (key, format!("[[auth.keys]]{lines}"))
}

#[tokio::test]
async fn a_key_that_was_made_is_let_in_by_the_lines_that_came_with_it() {
    let (key, lines) =
        made(&["--principal", "the \"nightly\" build", "--group", "data", "--scope", "run"]).await;
    let (other, _) = made(&["--principal", "bob"]).await;
    assert_ne!(key, other);
    let (place, server) = serve(&format!("mode = \"api_keys\"\n{lines}"));
    assert_eq!(answered(&server, &key).await.0, 200);
    assert_eq!(answered(&server, &other).await.0, 401);
    assert_eq!(answered(&server, &key[..key.len() - 1]).await.0, 401);
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    assert!(!log.contains(&key));
}

#[tokio::test]
async fn a_key_ends_when_the_config_says() {
    let (over, lines) = made(&["--principal", "ann", "--expires", "2020-01-01"]).await;
    let end = jiff::Timestamp::from_second(seconds(3600)).unwrap().to_string();
    let (good, more) = made(&["--principal", "bob", "--expires", &end]).await;
    let (_place, server) = serve(&format!("mode = \"api_keys\"\n{lines}{more}"));
    let (status, message) = answered(&server, &over).await;
    assert!(status == 401 && message.contains("expired"), "{status} {message}");
    assert_eq!(answered(&server, &good).await.0, 200);
    let (_, wrong) = made(&["--principal", "cid", "--expires", "tomorrow"]).await;
    let place = Place::new(&config(&format!("mode = \"api_keys\"\n{wrong}")));
    let refused = place.run(place.command("check")).await;
    assert!(refused.stderr.contains("\"tomorrow\" is no date"), "{}", refused.stderr);
}

#[tokio::test]
async fn nobody_has_a_name_that_others_have_by_default() {
    let place = Place::new("");
    let mut command = Command::new(PROGRAM);
    place.settle(command.args(["key", "new"]));
    let refused = place.run(command).await;
    assert!(refused.code == Some(2) && refused.stderr.contains("--principal"), "{refused:?}");
    for name in ["everyone", "NAME"] {
        let (_, lines) = made(&["--principal", name]).await;
        let place = Place::new(&config(&format!("mode = \"api_keys\"\n{lines}")));
        let refused = place.run(place.command("check")).await;
        assert_eq!(refused.code, Some(1), "{name}");
        let field = format!("auth.keys[0].principal: {name:?} ");
        assert!(refused.stderr.contains(&field), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn machines_have_keys_beside_the_tokens_of_people() {
    let signer = Signer::ed("one");
    let issuer = Issuer::with(&[&signer]).await;
    let (key, lines) = made(&["--principal", "nightly"]).await;
    let (_place, server) = serve(&format!("{}{lines}", issuer.config()));
    let token = signer.sign(&serde_json::json!({}), &issuer.claims("ann", &serde_json::json!({})));
    assert_eq!(answered(&server, &key).await.0, 200);
    assert_eq!(issuer.asked_for_keys(), 0, "a key is nothing that an issuer is asked about");
    assert_eq!(answered(&server, &token).await.0, 200);
}

#[tokio::test]
async fn anybody_is_let_in_from_elsewhere_only_if_the_config_says_so_loudly() {
    let open = |auth: &str| config(auth).replace("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"");
    let place = Place::new(&open("single_user = true"));
    let refused = place.run(place.command("check")).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("other machines can reach"),
        "{}",
        refused.stderr
    );
    // Not served here: that would open this machine for as long as the test takes.
    let place = Place::new(&open("anyone_may_do_everything = true"));
    let taken = place.run(place.command("check")).await;
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    let place = Place::new(&open("anyone_may_do_everything = true\nmode = \"api_keys\""));
    let refused = place.run(place.command("check")).await;
    assert!(refused.stderr.contains("contradicts"), "{}", refused.stderr);
}
