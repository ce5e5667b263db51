//! Tests for TLS on the server's own port: which clients connect, which do not, and certificates that change
//! while it serves.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Client;
use rustls::pki_types::ServerName;
use rustls::{HandshakeKind, version};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::raw::{RawConnection, TIMEOUT};
use crate::support::certificates::{self, openssl};
use crate::support::{BASICS, Server, TestApp, TestDir};

const SECURED: &str =
    "[server.tls]\ncertificate = { file = \"server.pem\" }\nkey = { file = \"server.key\" }\n";

/// Creates a [`TestDir`] with two authorities, and a server certificate of the first.
fn dir_with_tls(extra: &str) -> TestDir {
    let dir = TestDir::new(&format!("{BASICS}\n{SECURED}{extra}"));
    for name in ["ca", "other"] {
        certificates::authority(&dir, name);
    }
    issue(&dir, "ca", "server", 2);
    dir
}

/// Lets an authority issue a certificate that is valid for this many days from now.
fn issue(dir: &TestDir, by: &str, name: &str, days: i32) {
    let subject = format!("/O=Example/CN={name}");
    certificates::issue(dir, by, name, &subject, "IP:127.0.0.1,DNS:localhost", days);
}

/// Returns a client that trusts these authorities, keeps no connection, and presents this certificate.
fn client(dir: &TestDir, authorities: &[&str], certificate: Option<&str>) -> Client {
    certificates::client(dir, authorities, certificate).pool_max_idle_per_host(0).build().unwrap()
}

/// Returns true if a client is served.
async fn is_served(client: &Client, server: &Server) -> bool {
    let url = server.url().replace("/mcp", "/healthz");
    matches!(client.get(url).send().await, Ok(response) if response.status() == 200)
}

/// Waits until the server's log contains `expected`.
async fn wait_for_log(dir: &TestDir, expected: &str) {
    let polls = async {
        while !fs::read_to_string(dir.path("server.log")).unwrap().contains(expected) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, polls).await.unwrap_or_else(|_| panic!("the log does not say {expected:?}"));
}

/// Plain HTTP gets 400 with an explanation, and TLS 1.1 an alert.
#[tokio::test]
async fn tls_port_refuses_other_protocols() {
    let dir = dir_with_tls("");
    let app = TestApp { server: dir.serve(), dir };
    assert!(app.server.url().starts_with("https://"), "{}", app.server.url());
    assert!(is_served(&client(&app.dir, &["ca"], None), &app.server).await);
    assert!(
        !is_served(&client(&app.dir, &["other"], None), &app.server).await,
        "a client trusts its authority alone"
    );

    let mut plain = RawConnection::open(app.server.url()).await;
    let response = plain.get("/healthz").await.unwrap();
    assert_eq!((response.status, response.body.contains("speaks TLS")), (400, true), "{response:?}");

    // A TLS 1.1 ClientHello with one cipher of that version and current signature algorithms. The answer is a
    // fatal alert: protocol_version or handshake_failure.
    let mut old = RawConnection::open(app.server.url()).await;
    let mut hello = vec![0x16, 3, 1, 0, 55, 1, 0, 0, 51, 3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    hello.extend([0, 8, 0, 0x0d, 0, 4, 0, 2, 4, 1]);
    old.send(hello).await;
    let mut alert = [0; 7];
    old.stream.read_exact(&mut alert).await.unwrap();
    assert_eq!((alert[0], alert[5]), (0x15, 2), "{alert:?}");
    assert!([70, 40].contains(&alert[6]), "{alert:?}");

    let mut garbage = RawConnection::open(app.server.url()).await;
    garbage.send(b"\x16\x03\x01\xff\xff\xff\xff\xff\xff\xff").await;
    garbage.read_to_end().await;
    assert!(is_served(&client(&app.dir, &["ca"], None), &app.server).await);
}

#[tokio::test]
async fn detached_stream_works_over_tls() {
    let dir = dir_with_tls("");
    let app = TestApp { server: dir.serve(), dir };
    let (client, url) = (client(&app.dir, &["ca"], None), app.server.url());
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let request = client.post(url).header("accept", "application/json, text/event-stream").json(&initialize);
    let response = request.send().await.unwrap();
    let session = response.headers()["mcp-session-id"].clone();
    let listen = client.get(url).header("accept", "text/event-stream").header("mcp-session-id", &session);
    let listening = listen.send().await.unwrap();
    assert_eq!(listening.headers()["connection"], "close", "it was taken from the HTTP library");
    let mut events = listening.bytes_stream();
    let first = timeout(TIMEOUT, events.next()).await.unwrap().unwrap().unwrap();
    assert!(first.starts_with(b"id: "), "{first:?}");
    client.delete(url).header("mcp-session-id", &session).send().await.unwrap();
    while let Some(event) = timeout(TIMEOUT, events.next()).await.unwrap() {
        event.expect("it ends in order");
    }
}

/// A new certificate takes effect under load. An invalid one leaves the old one in force.
#[tokio::test]
async fn certificate_reload_drops_no_request() {
    let dir = dir_with_tls("");
    let app = TestApp { server: dir.serve(), dir };
    let any_client = client(&app.dir, &["ca", "other"], None);
    let change = async {
        issue(&app.dir, "other", "new", 2);
        fs::rename(app.dir.path("new.key"), app.dir.path("server.key")).unwrap();
        fs::rename(app.dir.path("new.pem"), app.dir.path("server.pem")).unwrap();
        wait_for_log(&app.dir, "config applied: [server] tls").await;
    };
    let load = async {
        loop {
            assert!(
                is_served(&any_client, &app.server).await,
                "somebody is turned away while the certificate changes"
            );
        }
    };
    tokio::select! {
        () = change => {}
        () = load => {}
    }
    assert!(is_served(&client(&app.dir, &["other"], None), &app.server).await);
    assert!(!is_served(&client(&app.dir, &["ca"], None), &app.server).await);

    fs::copy(app.dir.path("ca.key"), app.dir.path("server.key")).unwrap();
    wait_for_log(&app.dir, "server.tls.key: the key does not belong to the certificate").await;
    assert!(is_served(&client(&app.dir, &["other"], None), &app.server).await);
    fs::write(app.dir.path("server.pem"), "nothing").unwrap();
    wait_for_log(&app.dir, "server.tls.certificate: there is no certificate in it").await;
    assert!(is_served(&client(&app.dir, &["other"], None), &app.server).await);
}

#[tokio::test]
async fn client_certificate_is_verified() {
    let certificates = [("ca", "good", 2), ("ca", "over", -1), ("other", "wrong", 2)];
    for (mode, accepts_none) in [("required", false), ("optional", true)] {
        let dir =
            dir_with_tls(&format!("client_ca = {{ file = \"ca.pem\" }}\nclient_certificates = \"{mode}\"\n"));
        for (by, name, days) in certificates {
            issue(&dir, by, name, days);
        }
        let app = TestApp { server: dir.serve(), dir };
        for (certificate, served) in
            [(None, accepts_none), (Some("good"), true), (Some("over"), false), (Some("wrong"), false)]
        {
            let client = client(&app.dir, &["ca"], certificate);
            assert_eq!(is_served(&client, &app.server).await, served, "{mode}: {certificate:?}");
        }
    }
}

/// The certificate of a client is verified on every connection.
#[tokio::test]
async fn client_tls_session_never_resumes() {
    let dir = dir_with_tls("client_ca = { file = \"ca.pem\" }\n");
    issue(&dir, "ca", "good", 2);
    let app = TestApp { server: dir.serve(), dir };
    let authority = app.server.url().trim_start_matches("https://").trim_end_matches("/mcp");
    for version in [&version::TLS13, &version::TLS12] {
        let connector =
            TlsConnector::from(Arc::new(certificates::rustls_config(&app.dir, "ca", "good", version)));
        for _ in 0..2 {
            let socket = TcpStream::connect(authority).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = connector.connect(name, socket).await.unwrap();
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .await
                .unwrap();
            let mut response = String::new();
            timeout(TIMEOUT, stream.read_to_string(&mut response)).await.unwrap().unwrap();
            assert!(response.starts_with("HTTP/1.1 200"), "{response}");
            let kind = stream.get_ref().1.handshake_kind();
            assert!(kind.is_some_and(|kind| kind != HandshakeKind::Resumed), "{version:?}: {kind:?}");
        }
    }
}

/// Idle connections and streams of clients whose authority was removed are closed.
#[tokio::test]
async fn removed_authority_closes_connections() {
    let dir = dir_with_tls("client_ca = { file = \"ca.pem\" }\n");
    issue(&dir, "ca", "good", 2);
    let app = TestApp { server: dir.serve(), dir };
    let client_with_pool = || certificates::client(&app.dir, &["ca"], Some("good")).build().unwrap();
    let (idle, listener) = (client_with_pool(), client_with_pool());
    let url = app.server.url();
    let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let request =
        listener.post(url).header("accept", "application/json, text/event-stream").json(&initialize);
    let session = request.send().await.unwrap().headers()["mcp-session-id"].clone();
    let listen = listener.get(url).header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut events = listen.send().await.unwrap().bytes_stream();
    timeout(TIMEOUT, events.next()).await.unwrap().unwrap().unwrap();
    assert!(is_served(&idle, &app.server).await);

    // A new server certificate does not affect open connections.
    issue(&app.dir, "ca", "new", 2);
    fs::rename(app.dir.path("new.key"), app.dir.path("server.key")).unwrap();
    fs::rename(app.dir.path("new.pem"), app.dir.path("server.pem")).unwrap();
    wait_for_log(&app.dir, "config applied: [server] tls").await;
    assert!(timeout(Duration::from_millis(200), events.next()).await.is_err(), "the stream was cut");

    fs::copy(app.dir.path("other.pem"), app.dir.path("ca.pem")).unwrap();
    let ends = async { while let Some(Ok(_)) = events.next().await {} };
    timeout(TIMEOUT, ends).await.expect("the stream of a client goes on that may not connect any more");
    let closes = async {
        while is_served(&idle, &app.server).await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), closes).await.expect("an idle connection goes on");
}

/// Kept connections are closed when `trusted_proxies` changes.
#[tokio::test]
async fn proxy_change_closes_connections() {
    let config = |extra: &str| BASICS.replace("[auth]", &format!("{extra}\n[auth]"));
    let dir = TestDir::new(&config("trusted_proxies = [\"127.0.0.0/8\"]"));
    let app = TestApp { server: dir.serve(), dir };
    let mut connection = RawConnection::open(app.server.url()).await;
    assert_eq!(connection.get("/healthz").await.unwrap().status, 200);
    fs::write(app.dir.config(), config("")).unwrap();
    assert!(connection.closes_silently().await);
}

/// No message contains a password.
#[tokio::test]
async fn check_names_bad_tls_files() {
    let dir = dir_with_tls("");
    let check = async || {
        let ended = dir.run(dir.command("check")).await;
        (ended.code == Some(0), format!("{}{}", ended.stdout, ended.stderr))
    };
    assert!(check().await.0);
    issue(&dir, "ca", "over", -1);
    for (file, from) in [("server.pem", "over.pem"), ("server.key", "over.key")] {
        fs::copy(dir.path(from), dir.path(file)).unwrap();
    }
    let (valid, output) = check().await;
    assert!(
        valid && output.contains("warning: the certificate") && output.contains("has expired"),
        "{output}"
    );
    fs::copy(dir.path("ca.key"), dir.path("server.key")).unwrap();
    let (valid, output) = check().await;
    assert!(
        !valid && output.contains("server.tls.key: the key does not belong to the certificate"),
        "{output}"
    );
    openssl(&dir, "ec -in over.key -aes256 -passout pass:hunter2 -out server.key");
    let (valid, output) = check().await;
    assert!(
        !valid && output.contains("server.tls.key: there is no private key in it that can be used"),
        "{output}"
    );
    fs::remove_file(dir.path("server.key")).unwrap();
    let (valid, output) = check().await;
    assert!(!valid && output.contains("server.tls.key") && output.contains("cannot be read"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
}

#[tokio::test]
async fn stalled_handshake_is_cut_off() {
    let dir = dir_with_tls("[limits]\nhandshake_within = \"1s\"\n");
    let app = TestApp { server: dir.serve(), dir };
    let (silent, mut half_open) =
        (RawConnection::open(app.server.url()).await, RawConnection::open(app.server.url()).await);
    half_open.stream.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
    assert!(is_served(&client(&app.dir, &["ca"], None), &app.server).await);
    assert!(silent.closes_silently().await);
    half_open.read_to_end().await;
}

#[tokio::test]
async fn forwarded_address_needs_trusted_proxy() {
    // Callers are anonymous here, so streams are counted by address.
    let config = |extra: &str| {
        format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{extra}\n[limits]\nmax_streams_per_owner = 1\n[store]\npath = \"state/t.db\"\n"
        )
    };
    for (extra, expected) in [("trusted_proxies = [\"127.0.0.0/8\"]", 200), ("", 429)] {
        let dir = TestDir::new(&config(extra));
        let app = TestApp { server: dir.serve(), dir };
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
        }});
        let request = client.post(app.server.url()).header("accept", "application/json, text/event-stream");
        let response = request.json(&initialize).send().await.unwrap();
        let session = response.headers()["mcp-session-id"].clone();
        let listen = async |from: &str| {
            let get = client.get(app.server.url()).header("accept", "text/event-stream");
            get.header("mcp-session-id", &session).header("x-forwarded-for", from).send().await.unwrap()
        };
        let first = listen("203.0.113.1").await;
        assert_eq!(first.status(), 200);
        assert_eq!(listen("203.0.113.1").await.status(), 429);
        assert_eq!(listen("198.51.100.1, 203.0.113.2").await.status(), expected, "{extra}");
        drop(first);
    }
}
