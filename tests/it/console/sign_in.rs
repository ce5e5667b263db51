//! Signing in and out: each way, what ends a session, and that all of it is in the audit log.

use std::fs;

use reqwest::StatusCode;

use super::{Browser, TOOLS, dir_with_keys, start};
use crate::support::TestDir;

/// The printed address signs in one browser. A GET does not use it up, and the next one works for the next
/// browser.
#[tokio::test]
async fn printed_address_signs_in_once() {
    let mut app = start();
    let address = app.server.console_address();
    let path = address[address.find("/console").unwrap()..].to_owned();
    let mut browser = Browser::new(&app.server);
    let root = browser.get("/").await;
    assert_eq!((root.status, root.header("location")), (StatusCode::SEE_OTHER, "/console"));
    let inbox = browser.get("/console/tasks?state=failed").await;
    assert_eq!(inbox.header("location"), "/console/login?next=%2Fconsole%2Ftasks%3Fstate%3Dfailed");
    for _ in 0..2 {
        assert_eq!(browser.get(&path).await.status, StatusCode::OK);
        assert!(browser.cookie.is_none());
    }
    let once = browser.get(&path).await.field("once").to_owned();
    let signed_in = browser.post("/console/login", &[("once", &once), ("next", "/console/tasks")]).await;
    assert_eq!(signed_in.header("location"), "/console/tasks");
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.contains("; Path=/console; HttpOnly; SameSite=Strict; Max-Age="), "{cookie}");
    assert!(browser.get("/console").await.text.contains("<h1>Inbox</h1>"));

    let mut other = Browser::new(&app.server);
    let refused = other.post("/console/login", &[("once", &once)]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(refused.text.contains("used before") && other.cookie.is_none(), "{}", refused.text);
    let next = app.server.console_address();
    let next = next.rsplit_once("once=").unwrap().1;
    assert_eq!(other.post("/console/login", &[("once", next)]).await.status, StatusCode::SEE_OTHER);
}

/// A key is exchanged for a session of its principal. A wrong key, a bearer and a forged cookie are not.
#[tokio::test]
async fn api_key_is_exchanged_for_session() {
    let dir = dir_with_keys("");
    let server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    assert!(ann.get("/console").await.text.contains("<bdi>ann</bdi>"));
    let cookie = ann.cookie.clone().unwrap();
    assert!(!cookie.contains("key-of-ann"));

    let mut nobody = Browser::new(&server);
    for (name, value) in [("key", "key-of-eve"), ("once", "x"), ("certificate", "yes"), ("x", "y")] {
        let got = nobody.post("/console/login", &[(name, value)]).await;
        assert_eq!(got.status, StatusCode::FORBIDDEN, "{name}");
    }
    let bearer = nobody.request(reqwest::Method::GET, "/console/tasks");
    let got = nobody.send(bearer.header("authorization", "Bearer key-of-ann-0123456789")).await;
    assert_eq!(got.status, StatusCode::SEE_OTHER, "a bearer signs nobody in");
    let (name, value) = cookie.split_once('=').unwrap();
    let other = if value.starts_with('A') { 'B' } else { 'A' };
    for forged in [
        format!("{name}={other}{}", &value[1..]),
        format!("{name}=x"),
        format!("{name}="),
        format!("{cookie}; {cookie}"),
        format!("{name}=x; {cookie}"),
    ] {
        nobody.cookie = Some(forged.clone());
        assert_eq!(nobody.get("/console").await.status, StatusCode::SEE_OTHER, "{forged}");
    }
}

/// A sign-out ends the session itself, not only its cookie; everywhere, all of its owner. Both are in the
/// audit log, and so are sign-ins and failures.
#[tokio::test]
async fn sign_out_ends_sessions() {
    let dir = dir_with_keys("[audit]\nto = [\"file\"]\npath = \"audit.jsonl\"\n");
    let server = dir.serve();
    let (mut one, mut two) =
        (Browser::with_key(&server, "ann").await, Browser::with_key(&server, "ann").await);
    let (mut three, mut bob) =
        (Browser::with_key(&server, "ann").await, Browser::with_key(&server, "bob").await);
    let stolen = one.cookie.clone();
    assert_eq!(one.act("/console/logout", &[]).await.status, StatusCode::SEE_OTHER);
    assert!(one.cookie.is_none());
    one.cookie = stolen;
    assert_eq!(one.get("/console").await.status, StatusCode::SEE_OTHER, "the session has ended");
    assert_eq!(two.get("/console").await.status, StatusCode::OK);

    two.act("/console/logout", &[("everywhere", "yes")]).await;
    assert_eq!(three.get("/console").await.status, StatusCode::SEE_OTHER);
    assert_eq!(bob.get("/console").await.status, StatusCode::OK);
    let mut again = Browser::with_key(&server, "ann").await;
    assert_eq!(again.get("/console").await.status, StatusCode::OK);
    Browser::new(&server).post("/console/login", &[("key", "wrong")]).await;

    let mut server = server;
    server.stop();
    let log = fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    let count =
        |event: &str| log.lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count();
    assert_eq!(
        (count("console.signed_in"), count("console.signed_out"), count("auth.failed")),
        (5, 2, 1),
        "{log}"
    );
    assert!(!log.contains("key-of-") && log.contains("\"by\":\"console\""), "{log}");
}

/// A session ends with its key's entry in the config, while its pages are open.
#[tokio::test]
async fn removed_key_ends_session_and_stream() {
    let dir = dir_with_keys("");
    let server = dir.serve();
    let mut ann = Browser::with_key(&server, "ann").await;
    let mut stream = ann.request(reqwest::Method::GET, "/console?live=1").send().await.unwrap();
    let config = fs::read_to_string(dir.config()).unwrap();
    fs::write(dir.config(), config.replace("\"ann\"", "\"anna\"")).unwrap();
    let mut text = String::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(text.contains("<h1>Signed out</h1>"), "{text}");
    assert_eq!(ann.get("/console").await.status, StatusCode::SEE_OTHER);
}

/// With an address of its own, the console is there alone, and the protocol is not.
#[tokio::test]
async fn console_has_its_own_address() {
    let basics = "[server]\nlisten = \"127.0.0.1:0\"\n[store]\npath = \"state/taskbridge.db\"\n[auth]\nsingle_user = true\n";
    let dir = TestDir::new(&format!("{basics}[console]\nlisten = \"127.0.0.1:0\"\n{TOOLS}"));
    let mut server = dir.serve();
    let address = server.console_address();
    let (origin, once) = address.split_once("/console/login?once=").unwrap();
    let mut browser = Browser::new(&server);
    assert_ne!(browser.origin, origin);
    for path in ["/", "/console", "/console/login"] {
        assert_eq!(browser.get(path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    browser.origin = origin.to_owned();
    assert_eq!(browser.post("/console/login", &[("once", once)]).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/console/tools").await.status, StatusCode::OK);
    assert_eq!(browser.get("/mcp").await.status, StatusCode::NOT_FOUND);
    assert_eq!(server.stop(), Some(0));
}

/// Without callers that can be told apart there is no console, and elsewhere it needs one line.
#[tokio::test]
async fn console_is_off_unless_safe() {
    let basics = "[server]\nlisten = \"127.0.0.1:0\"\n[store]\npath = \"state/taskbridge.db\"\n";
    for auth in ["", "[auth]\nsingle_user = true\n[console]\nenabled = false\n"] {
        let dir = TestDir::new(&format!("{basics}{auth}{TOOLS}"));
        let server = dir.serve();
        assert_eq!(Browser::new(&server).get("/console").await.status, StatusCode::NOT_FOUND, "{auth}");
    }
    for (config, expected) in [
        ("[console]\nenabled = true\n", "console.enabled: callers cannot be distinguished"),
        ("[console]\nurl = \"https://x/y\"\n", "console.url: \"https://x/y\" is not an origin"),
        ("[console]\nidle = \"0s\"\n", "console.idle: must not be zero"),
    ] {
        let dir = TestDir::new(&format!("{basics}{config}{TOOLS}"));
        let output = dir.run(dir.command("check")).await;
        assert!(output.stderr.contains(expected), "{config}: {}", output.stderr);
    }
}
