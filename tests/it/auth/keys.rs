//! Tests for API keys: created by the program, valid until they expire, and used together with tokens.

use std::process::Command;

use super::{answered, config, serve};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{PROGRAM, Place};

/// Creates a key with the program; returns the key and its config lines.
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

/// The config lines that `key new` prints accept its key and no other.
#[tokio::test]
async fn generated_key_is_accepted() {
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
async fn key_expires_at_configured_date() {
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

/// A key without a principal is refused, and so is a name that others have by default.
#[tokio::test]
async fn default_principal_name_is_refused() {
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

/// The issuer gets no request about a key.
#[tokio::test]
async fn keys_work_beside_tokens() {
    let signer = Signer::ed("one");
    let issuer = Issuer::with(&[&signer]).await;
    let (key, lines) = made(&["--principal", "nightly"]).await;
    let (_place, server) = serve(&format!("{}{lines}", issuer.config()));
    let token = signer.sign(&serde_json::json!({}), &issuer.claims("ann", &serde_json::json!({})));
    assert_eq!(answered(&server, &key).await.0, 200);
    assert_eq!(issuer.asked_for_keys(), 0, "a key is nothing that an issuer is asked about");
    assert_eq!(answered(&server, &token).await.0, 200);
}

/// A server that other machines can reach requires authentication or `anyone_may_do_everything`.
#[tokio::test]
async fn open_access_needs_explicit_setting() {
    let open = |auth: &str| config(auth).replace("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"");
    let place = Place::new(&open("single_user = true"));
    let refused = place.run(place.command("check")).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("other machines can reach"),
        "{}",
        refused.stderr
    );
    // This config is not served, because it would open this machine during the test.
    let place = Place::new(&open("anyone_may_do_everything = true"));
    let taken = place.run(place.command("check")).await;
    assert_eq!(taken.code, Some(0), "{}", taken.stderr);
    let place = Place::new(&open("anyone_may_do_everything = true\nmode = \"api_keys\""));
    let refused = place.run(place.command("check")).await;
    assert!(refused.stderr.contains("contradicts"), "{}", refused.stderr);
}
