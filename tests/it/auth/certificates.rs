//! Tests for client certificates as identity: of one authority, of another, of no principal, and together
//! with API keys. They also test an open session after the config or the authorities change.

use std::fs;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::streams::ends;
use super::{config, keys};
use crate::support::certificates::{authority, client, issue};
use crate::support::{Client, Fault, Modern, Place, Server, text};

const SECURED: &str = "[server.tls]\ncertificate = { file = \"server.pem\" }\nkey = { file = \"server.key\" }\n\
                       client_ca = { file = \"clients.pem\" }\nclient_certificates = \"optional\"\n";

const ANN: &str = "[[auth.certificates]]\nprincipal = \"ann\"\ncommon_name = \"Ann\"\nissuer = \"CN=ca\"\ngroups = [\"release\"]\n";
const NIGHTLY: &str = "[[auth.certificates]]\nprincipal = \"nightly\"\nuri = \"spiffe://example/nightly\"\nscopes = [\"run\"]\n";

/// Creates a `Place` with this `[auth]`, whose server accepts client certificates of these authorities. `ca`
/// issues the certificates of the server and its clients.
fn place(auth: &str, clients: &[&str]) -> Place {
    let place = Place::new(&format!("{}{SECURED}", config(auth)));
    for name in ["ca", "other"] {
        authority(&place, name);
    }
    vouching(&place, clients);
    issue(&place, "ca", "server", "/CN=server", "IP:127.0.0.1", 2);
    issue(&place, "ca", "ann", "/O=Example/CN=Ann", "email:ann@example.com", 2);
    issue(&place, "ca", "nightly", "/CN=job", "URI:spiffe://example/nightly,DNS:build.example.com", 2);
    place
}

/// Replaces the authorities of client certificates atomically.
fn vouching(place: &Place, authorities: &[&str]) {
    let pem = |name: &&str| fs::read_to_string(place.path(&format!("{name}.pem"))).unwrap();
    fs::write(place.path("clients.new"), authorities.iter().map(pem).collect::<String>()).unwrap();
    fs::rename(place.path("clients.new"), place.path("clients.pem")).unwrap();
}

fn shows(place: &Place, name: &str) -> reqwest::Client {
    client(place, &["ca"], Some(name)).pool_idle_timeout(None).build().unwrap()
}

async fn open(place: &Place, server: &Server, name: &str) -> Result<Client, Fault> {
    Client::open_over(shows(place, name), server.url(), None).await
}

fn status<T>(of: Result<T, Fault>) -> StatusCode {
    match of.err().expect("it is refused") {
        Fault::Status(status, _) => status,
        other => panic!("{other:?}"),
    }
}

/// Two certificates of one authority are two principals. A certificate without a principal gets 403.
#[tokio::test]
async fn certificate_identifies_one_principal() {
    let place = place(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["ca"]);
    let server = place.serve();
    let (ann, nightly) =
        (open(&place, &server, "ann").await.unwrap(), open(&place, &server, "nightly").await.unwrap());
    let task = ann.start("slow", json!({})).await.unwrap();
    ann.get(&task).await.unwrap();
    let unknown = format!("{:?}", nightly.get("never-was").await.unwrap_err());
    assert_eq!(format!("{:?}", nightly.get(&task).await.unwrap_err()), unknown);
    assert_eq!((ann.list().await.unwrap().len(), nightly.list().await.unwrap().len()), (1, 0));
    assert_eq!(status(ann.over(shows(&place, "nightly")).get(&task).await), 404, "a stolen session");

    // A renewed certificate identifies the same person.
    issue(&place, "ca", "renewed", "/CN=Ann", "DNS:elsewhere.example.com", 2);
    let renewed = ann.over(shows(&place, "renewed"));
    assert_eq!(renewed.cancel(&task).await.unwrap()["taskId"], json!(task));

    issue(&place, "ca", "stranger", "/O=Ann/CN=Anne", "URI:spiffe://example/nightly2,DNS:Ann", 2);
    issue(&place, "ca", "both", "/CN=Ann/CN=Ann", "DNS:Ann", 2);
    issue(&place, "other", "forged", "/O=Example/CN=Ann", "URI:spiffe://example/nightly", 2);
    assert_eq!(status(open(&place, &server, "stranger").await), 403);
    assert_eq!(
        status(open(&place, &server, "both").await),
        403,
        "which of its common names it is for nobody can say"
    );
    let without = client(&place, &["ca"], None).build().unwrap();
    let refused = without.get(server.url()).bearer_auth("key").send().await.unwrap();
    assert_eq!(refused.status(), 403);
    assert!(!refused.headers().contains_key("www-authenticate"), "no header would help");
    let body: Value = refused.json().await.unwrap();
    assert!(body["error"]["message"].as_str().unwrap().contains("client certificate"), "{body}");
    assert!(matches!(open(&place, &server, "forged").await, Err(Fault::Lost(_))), "the handshake fails");
}

/// A certificate of a second authority is no principal of the first. A principal's groups apply to its
/// certificate.
#[tokio::test]
async fn second_authority_cannot_forge_principal() {
    let rules = "[access]\ncall = { groups = [\"release\"] }\n[tools.slow.access]\ncall = { principals = ['[\"certificate\",\"nightly\"]'] }\n";
    let place = place(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["other", "ca"]);
    fs::write(place.config(), format!("{}{rules}", fs::read_to_string(place.config()).unwrap())).unwrap();
    issue(&place, "other", "forged", "/O=Example/CN=Ann", "DNS:a.example", 2);
    let server = place.serve();
    assert_eq!(status(open(&place, &server, "forged").await), 403);
    for (name, expected) in [("ann", "hello"), ("nightly", "slow")] {
        let modern = Modern::without_tasks(server.url()).over(shows(&place, name));
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
    let place = place(&format!("mode = \"certificates\"\n{ANN}{NIGHTLY}"), &["ca"]);
    let server = place.serve();
    let (ann, nightly) =
        (open(&place, &server, "ann").await.unwrap(), open(&place, &server, "nightly").await.unwrap());
    let mut listening = nightly.listen().await.unwrap();
    nightly.call("hello", json!({})).await.expect("a connection that is kept");
    let mut kept = ann.listen().await.unwrap();
    fs::write(place.config(), auth(ANN).replace("Says hello.", "Greets.")).unwrap();
    ends(&mut listening).await;
    assert_eq!(status(nightly.call("hello", json!({})).await), 403);
    assert_eq!(kept.next().await.unwrap().unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(text(&ann.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// A certificate is valid only while one of the configured authorities signed it.
#[tokio::test]
async fn removed_authority_ends_session() {
    let other = "[[auth.certificates]]\nprincipal = \"guest\"\ncommon_name = \"Guest\"\n";
    let place = place(&format!("mode = \"certificates\"\n{ANN}{other}"), &["ca", "other"]);
    issue(&place, "other", "guest", "/CN=Guest", "DNS:guest.example.com", 2);
    let server = place.serve();
    let (ann, guest) =
        (open(&place, &server, "ann").await.unwrap(), open(&place, &server, "guest").await.unwrap());
    let mut listening = guest.listen().await.unwrap();
    guest.call("hello", json!({})).await.expect("a connection that is kept");
    vouching(&place, &["ca"]);
    ends(&mut listening).await;
    // The server closes, or is about to close, the connection that it accepted before.
    guest.call("hello", json!({})).await.expect_err("it does not count any more");
    assert!(matches!(guest.call("hello", json!({})).await, Err(Fault::Lost(_))), "on no connection");
    assert_eq!(text(&ann.call("hello", json!({})).await.unwrap()), "hello\n");
}

/// With API keys, a certificate applies if no key is sent. A key with the same name is another owner.
#[tokio::test]
async fn certificate_applies_without_key() {
    let (key, lines) = keys::made(&["--principal", "ann"]).await;
    let place = place(&format!("mode = \"api_keys\"\n{lines}{ANN}"), &["ca"]);
    let server = place.serve();
    let with = async |name: Option<&str>, key: Option<&str>| {
        let http = client(&place, &["ca"], name).build().unwrap();
        Client::open_over(http, server.url(), key).await
    };
    let by_certificate = with(Some("ann"), None).await.unwrap();
    let by_key = with(Some("ann"), Some(&key)).await.unwrap();
    with(None, Some(&key)).await.unwrap();
    for (name, key) in [(Some("ann"), Some("wrong")), (Some("nightly"), None), (None, None)] {
        assert_eq!(status(with(name, key).await), 401, "{name:?} {key:?}");
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
