//! Tests for client certificates as identity: of one authority, of another, of no principal, and together
//! with API keys. They also test an open session after the config or the authorities change.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::streams::wait_for_end;
use super::{config, keys};
use crate::support::certificates::{authority, client, issue};
use crate::support::{Client, Fault, ModernClient, Server, TestDir, text};

const SECURED: &str = "[server.tls]\ncertificate = { file = \"server.pem\" }\nkey = { file = \"server.key\" }\n\
                       client_ca = { file = \"clients.pem\" }\nclient_certificates = \"optional\"\n";

const ANN: &str = "[[auth.certificates]]\nprincipal = \"ann\"\ncommon_name = \"Ann\"\nissuer = \"CN=ca\"\ngroups = [\"release\"]\n";
const NIGHTLY: &str = "[[auth.certificates]]\nprincipal = \"nightly\"\nuri = \"spiffe://example/nightly\"\nscopes = [\"run\"]\n";

/// Creates a [`TestDir`] with this `[auth]`, whose server accepts client certificates of these authorities.
/// `ca` issues the certificates of the server and its clients.
fn dir_with_tls(auth: &str, clients: &[&str]) -> TestDir {
    let dir = TestDir::new(&format!("{}{SECURED}", config(auth)));
    for name in ["ca", "other"] {
        authority(&dir, name);
    }
    set_authorities(&dir, clients);
    issue(&dir, "ca", "server", "/CN=server", "IP:127.0.0.1", 2);
    issue(&dir, "ca", "ann", "/O=Example/CN=Ann", "email:ann@example.com", 2);
    issue(&dir, "ca", "nightly", "/CN=job", "URI:spiffe://example/nightly,DNS:build.example.com", 2);
    dir
}

/// Replaces the authorities of client certificates atomically.
fn set_authorities(dir: &TestDir, authorities: &[&str]) {
    let pem = |name: &&str| fs::read_to_string(dir.path(&format!("{name}.pem"))).unwrap();
    fs::write(dir.path("clients.new"), authorities.iter().map(pem).collect::<String>()).unwrap();
    fs::rename(dir.path("clients.new"), dir.path("clients.pem")).unwrap();
}

fn http_client(dir: &TestDir, name: &str) -> reqwest::Client {
    client(dir, &["ca"], Some(name)).pool_idle_timeout(None).build().unwrap()
}

async fn open(dir: &TestDir, server: &Server, name: &str) -> Result<Client, Fault> {
    Client::open_over(http_client(dir, name), server.url(), None).await
}

fn status<T>(result: Result<T, Fault>) -> StatusCode {
    match result.err().expect("it is refused") {
        Fault::Status(status, _) => status,
        other => panic!("{other:?}"),
    }
}

/// Two certificates of one authority are two principals. A certificate without a principal gets 403.
#[tokio::test]
async fn certificate_identifies_one_principal() {
    let dir = dir_with_tls(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["ca"]);
    let server = dir.serve();
    let (ann, nightly) =
        (open(&dir, &server, "ann").await.unwrap(), open(&dir, &server, "nightly").await.unwrap());
    let task = ann.start("slow", json!({})).await.unwrap();
    ann.get(&task).await.unwrap();
    let unknown = format!("{:?}", nightly.get("never-was").await.unwrap_err());
    assert_eq!(format!("{:?}", nightly.get(&task).await.unwrap_err()), unknown);
    assert_eq!((ann.list().await.unwrap().len(), nightly.list().await.unwrap().len()), (1, 0));
    assert_eq!(status(ann.with_http(http_client(&dir, "nightly")).get(&task).await), 404, "a stolen session");

    // A renewed certificate identifies the same person.
    issue(&dir, "ca", "renewed", "/CN=Ann", "DNS:elsewhere.example.com", 2);
    let renewed = ann.with_http(http_client(&dir, "renewed"));
    assert_eq!(renewed.cancel(&task).await.unwrap()["taskId"], json!(task));

    issue(&dir, "ca", "stranger", "/O=Ann/CN=Anne", "URI:spiffe://example/nightly2,DNS:Ann", 2);
    issue(&dir, "ca", "both", "/CN=Ann/CN=Ann", "DNS:Ann", 2);
    issue(&dir, "other", "forged", "/O=Example/CN=Ann", "URI:spiffe://example/nightly", 2);
    assert_eq!(status(open(&dir, &server, "stranger").await), 403);
    assert_eq!(
        status(open(&dir, &server, "both").await),
        403,
        "which of its common names it is for nobody can say"
    );
    let without_certificate = client(&dir, &["ca"], None).build().unwrap();
    let refused = without_certificate.get(server.url()).bearer_auth("key").send().await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(!refused.headers().contains_key("www-authenticate"), "no header would help");
    let body: Value = refused.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("client certificate"), "{body}");
    assert!(matches!(open(&dir, &server, "forged").await, Err(Fault::Lost(_))), "the handshake fails");
}

/// A certificate of a second authority is no principal of the first. A principal's groups apply to its
/// certificate.
#[tokio::test]
async fn second_authority_cannot_forge_principal() {
    let rules = "[access]\ncall = { groups = [\"release\"] }\n[tools.slow.access]\ncall = { principals = ['[\"certificate\",\"nightly\"]'] }\n";
    let dir = dir_with_tls(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["other", "ca"]);
    fs::write(dir.config(), format!("{}{rules}", fs::read_to_string(dir.config()).unwrap())).unwrap();
    issue(&dir, "other", "forged", "/O=Example/CN=Ann", "DNS:a.example", 2);
    let server = dir.serve();
    assert_eq!(status(open(&dir, &server, "forged").await), 403);
    for (name, expected) in [("ann", "hello"), ("nightly", "slow")] {
        let modern = ModernClient::without_tasks(server.url()).with_http(http_client(&dir, name));
        let tools = modern.request("tools/list", json!({})).await.unwrap();
        let names: Vec<&str> =
            tools["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
        let others: Vec<&&str> = names.iter().filter(|name| ["hello", "slow"].contains(*name)).collect();
        assert_eq!(others, [&expected], "{name}");
    }
}

#[tokio::test]
async fn removed_certificate_ends_session() {
    let auth = |rules: &str| format!("{}{SECURED}", config(&format!("mode = \"certificates\"\n{rules}")));
    let dir = dir_with_tls(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["ca"]);
    let server = dir.serve();
    let (ann, nightly) =
        (open(&dir, &server, "ann").await.unwrap(), open(&dir, &server, "nightly").await.unwrap());
    let mut listening = nightly.listen().await.unwrap();
    nightly.call("hello", json!({})).await.expect("a connection that is kept");
    let mut ann_stream = ann.listen().await.unwrap();
    fs::write(dir.config(), auth(ANN).replace("Says hello.", "Greets.")).unwrap();
    wait_for_end(&mut listening).await;
    assert_eq!(status(nightly.call("hello", json!({})).await), 403);
    assert_eq!(ann_stream.next().await.unwrap().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(text(&ann.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// A certificate is valid only while one of the configured authorities signed it.
#[tokio::test]
async fn removed_authority_ends_session() {
    let other = "[[auth.certificates]]\nprincipal = \"guest\"\ncommon_name = \"Guest\"\n";
    let dir = dir_with_tls(&format!("mode = \"certificates\"\n{ANN}{other}"), &["ca", "other"]);
    issue(&dir, "other", "guest", "/CN=Guest", "DNS:guest.example.com", 2);
    let server = dir.serve();
    let (ann, guest) =
        (open(&dir, &server, "ann").await.unwrap(), open(&dir, &server, "guest").await.unwrap());
    let mut listening = guest.listen().await.unwrap();
    guest.call("hello", json!({})).await.expect("a connection that is kept");
    set_authorities(&dir, &["ca"]);
    wait_for_end(&mut listening).await;
    // The server closes, or is about to close, the connection that it accepted before.
    guest.call("hello", json!({})).await.expect_err("it does not count any more");
    assert!(matches!(guest.call("hello", json!({})).await, Err(Fault::Lost(_))), "on no connection");
    assert_eq!(text(&ann.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// With API keys, a certificate applies if no key is sent. A key with the same name is another owner.
#[tokio::test]
async fn certificate_applies_without_key() {
    let (key, lines) = keys::create_key(&["--principal", "ann"]).await;
    let dir = dir_with_tls(&format!("mode = \"api_keys\"\n{lines}{ANN}"), &["ca"]);
    let server = dir.serve();
    let connect = async |name: Option<&str>, key: Option<&str>| {
        let http = client(&dir, &["ca"], name).build().unwrap();
        Client::open_over(http, server.url(), key).await
    };
    let by_certificate = connect(Some("ann"), None).await.unwrap();
    let by_key = connect(Some("ann"), Some(&key)).await.unwrap();
    connect(None, Some(&key)).await.unwrap();
    for (name, key) in [(Some("ann"), Some("wrong")), (Some("nightly"), None), (None, None)] {
        assert_eq!(status(connect(name, key).await), 401, "{name:?} {key:?}");
    }
    let task = by_certificate.start("hello", json!({})).await.unwrap();
    assert_eq!(
        by_key.list().await.unwrap(),
        Vec::<Value>::new(),
        "a key of the same name is another owner's"
    );
    assert!(by_key.get(&task).await.is_err());
    assert_eq!(by_certificate.list().await.unwrap().len(), 1);
}
