//! Tests for API keys: created by the program, valid until they expire, and used together with tokens.

use std::process::Command;

use super::{config, serve, status_for_token};
use crate::support::issuer::{Issuer, Signer, seconds};
use crate::support::{PROGRAM, TestDir};

/// Creates a key with the program; returns the key and its config lines.
pub(super) async fn create_key(arguments: &[&str]) -> (String, String) {
    let dir = TestDir::new("");
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(["key", "new"]).args(arguments));
    let output = dir.run(command).await;
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    let key = output.stdout.lines().next().unwrap().to_owned();
    let lines = output.stdout.split_once("[[auth.keys]]").unwrap().1;
    assert!(key.starts_with("tb_") && !lines.contains(&key), "{}", output.stdout);
    (key, format!("[[auth.keys]]{lines}"))
}

/// The config lines that `key new` prints accept its key and no other.
#[tokio::test]
async fn generated_key_is_accepted() {
    let (key, lines) =
        create_key(&["--principal", "the \"nightly\" build", "--group", "data", "--scope", "run"]).await;
    let (other, _) = create_key(&["--principal", "bob"]).await;
    assert_ne!(key, other);
    let (dir, server) = serve(&format!("mode = \"api_keys\"\n{lines}"));
    assert_eq!(status_for_token(&server, &key).await.0, 200);
    assert_eq!(status_for_token(&server, &other).await.0, 401);
    assert_eq!(status_for_token(&server, &key[..key.len() - 1]).await.0, 401);
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(!log.contains(&key));
}

#[tokio::test]
async fn key_expires_at_configured_date() {
    let (expired, lines) = create_key(&["--principal", "ann", "--expires", "2020-01-01"]).await;
    let end = jiff::Timestamp::from_second(seconds(3600)).unwrap().to_string();
    let (good, other_lines) = create_key(&["--principal", "bob", "--expires", &end]).await;
    let (_dir, server) = serve(&format!("mode = \"api_keys\"\n{lines}{other_lines}"));
    let (status, message) = status_for_token(&server, &expired).await;
    assert!(status == 401 && message.contains("expired"), "{status} {message}");
    assert_eq!(status_for_token(&server, &good).await.0, 200);
    let (_, invalid_lines) = create_key(&["--principal", "cid", "--expires", "tomorrow"]).await;
    let dir = TestDir::new(&config(&format!("mode = \"api_keys\"\n{invalid_lines}")));
    let refused = dir.run(dir.command("check")).await;
    assert!(refused.stderr.contains("\"tomorrow\" is not a date"), "{}", refused.stderr);
}

/// A key without a principal is refused, and so is a name that others have by default.
#[tokio::test]
async fn default_principal_name_is_refused() {
    let dir = TestDir::new("");
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(["key", "new"]));
    let refused = dir.run(command).await;
    assert!(refused.code == Some(2) && refused.stderr.contains("--principal"), "{refused:?}");
    for name in ["everyone", "NAME"] {
        let (_, lines) = create_key(&["--principal", name]).await;
        let dir = TestDir::new(&config(&format!("mode = \"api_keys\"\n{lines}")));
        let refused = dir.run(dir.command("check")).await;
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
    let (key, lines) = create_key(&["--principal", "nightly"]).await;
    let (_dir, server) = serve(&format!("{}{lines}", issuer.config()));
    let token = signer.sign(&serde_json::json!({}), &issuer.claims("ann", &serde_json::json!({})));
    assert_eq!(status_for_token(&server, &key).await.0, 200);
    assert_eq!(issuer.key_requests(), 0, "a key is nothing that an issuer is asked about");
    assert_eq!(status_for_token(&server, &token).await.0, 200);
}

/// A server that other machines can reach requires authentication or `anyone_may_do_everything`.
#[tokio::test]
async fn open_access_needs_explicit_setting() {
    let public_config =
        |auth: &str| config(auth).replace("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:0\"");
    let dir = TestDir::new(&public_config("single_user = true"));
    let refused = dir.run(dir.command("check")).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("other machines can reach"),
        "{}",
        refused.stderr
    );
    // This config is not served, because it would open this machine during the test.
    let dir = TestDir::new(&public_config("anyone_may_do_everything = true"));
    let accepted = dir.run(dir.command("check")).await;
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
    let dir = TestDir::new(&public_config("anyone_may_do_everything = true\nmode = \"api_keys\""));
    let refused = dir.run(dir.command("check")).await;
    assert!(refused.stderr.contains("only allowed with mode"), "{}", refused.stderr);
}
