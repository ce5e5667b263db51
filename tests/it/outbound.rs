//! Tests of outbound connections: the server connects only to addresses from its config. Neither redirects
//! of an issuer, receiver, collector or engine, nor addresses in a caller's arguments make it connect
//! elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::issuer::{RESOURCE, Signer, seconds};
use crate::support::{BASICS, Client, Fault, ModernClient, TestDir, text};

const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.say]
backend = "here"
target.command = ["echo", "{{ what }}"]
parameters.what.type = "string"

[tools.read]
backend = "here"
target.command = ["cat", "{{ document }}"]
parameters.document.type = "file"
"#;

/// A server that redirects every request to a trap, an address that must never be requested.
struct RedirectServer {
    url: String,
    requested_paths: Arc<Mutex<Vec<String>>>,
    trap: String,
    trap_hits: Arc<AtomicUsize>,
    server_tasks: [JoinHandle<()>; 2],
}

impl RedirectServer {
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    async fn start() -> Self {
        let trap_hits = Arc::<AtomicUsize>::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let trap = format!("http://{}", listener.local_addr().unwrap());
        let hits = Arc::clone(&trap_hits);
        let counting = tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                hits.fetch_add(1, Ordering::SeqCst);
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requested_paths = Arc::<Mutex<Vec<String>>>::default();
        let state = (trap.clone(), Arc::clone(&requested_paths));
        let router = Router::new().fallback(redirect).with_state(state);
        let redirecting = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, requested_paths, trap, trap_hits, server_tasks: [counting, redirecting] }
    }

    /// Asserts that this path was requested and that no client followed the redirect.
    fn assert_not_followed(&self, path: &str) {
        let requested_paths = self.requested_paths.lock();
        assert!(
            requested_paths.iter().any(|requested| requested == path),
            "nobody asked for {path}: {requested_paths:?}"
        );
        assert_eq!(self.trap_hits.load(Ordering::SeqCst), 0, "{requested_paths:?}");
    }
}

impl Drop for RedirectServer {
    fn drop(&mut self) {
        self.server_tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn redirect(
    State((trap, requested_paths)): State<(String, Arc<Mutex<Vec<String>>>)>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    // Status 307 preserves the method and the body.
    let response = (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, format!("{trap}{path}"))]);
    requested_paths.lock().push(path);
    response.into_response()
}

#[tokio::test]
async fn issuer_redirect_is_not_followed() {
    let redirector = RedirectServer::start().await;
    let url = &redirector.url;
    let issuer = format!("{url}/realm");
    let signer = Signer::ed("one");
    let claims =
        json!({"iss": issuer, "aud": RESOURCE, "sub": "ann", "exp": seconds(3600), "iat": seconds(-1)});
    let signed = signer.sign(&json!({}), &claims);
    let introspection = format!(
        "[auth.issuers.introspection]\nendpoint = \"{url}/introspect\"\nclient_id = \"a\"\nclient_secret = \"b\"\n"
    );
    for (extra, token, path) in [
        ("", &*signed, "/.well-known/openid-configuration/realm"),
        (&*format!("jwks_uri = \"{url}/keys\"\n"), &*signed, "/keys"),
        (&*introspection, "opaque", "/introspect"),
    ] {
        let auth = format!(
            "mode = \"oauth\"\nresource = \"{RESOURCE}\"\n[[auth.issuers]]\nissuer = \"{issuer}\"\n{extra}"
        );
        let dir = TestDir::new(&format!("{}{TOOLS}", BASICS.replace("single_user = true", &auth)));
        let server = dir.serve();
        match Client::open_with_key(server.url(), token).await.err() {
            Some(Fault::Status(status, _)) => assert!([401, 503].contains(&status.as_u16()), "{status}"),
            other => panic!("{path}: {other:?}"),
        }
        redirector.assert_not_followed(path);
    }
}

/// The redirects of notice receivers and of trace collectors are logged and not followed.
#[tokio::test]
async fn receiver_and_collector_redirects_are_refused() {
    let redirector = RedirectServer::start().await;
    let url = &redirector.url;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let dir = TestDir::new(&format!(
        "{BASICS}{TOOLS}[[notify]]\nurl = \"{url}/hook\"\nsecret = \"{secret}\"\n[telemetry]\notlp = \"{url}\"\n"
    ));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    client.call("say", json!({"what": "x"})).await.unwrap();
    let log = || std::fs::read_to_string(dir.path("server.log")).unwrap();
    let logged = async {
        let expected = ["redirects are not followed", "spans cannot be sent, and are lost"];
        while !expected.iter().all(|expected| log().contains(expected)) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, logged).await.expect("the log says of both that they are not told");
    redirector.assert_not_followed("/hook");
    redirector.assert_not_followed("/v1/traces");
}

#[tokio::test]
async fn engine_redirect_is_not_followed() {
    let redirector = RedirectServer::start().await;
    let url = &redirector.url;
    for (kind, fields, path) in [
        (
            "github-actions",
            format!("repository = \"o/r\"\ntoken = \"ghp_x\"\napi = \"{url}\"\n"),
            "/repos/o/r",
        ),
        (
            "slurm",
            format!("jobs_dir = \"jobs\"\nrest = {{ url = \"{url}\", user = \"u\", token = \"t\" }}\n"),
            "/openapi",
        ),
    ] {
        let dir = TestDir::new(&format!("{BASICS}[backends.engine]\nkind = \"{kind}\"\n{fields}"));
        let output = dir.run(dir.command("doctor")).await;
        assert_eq!(output.code, Some(1), "{kind}: {output:?}");
        redirector.assert_not_followed(path);
    }
}

/// The proxy of the environment is used for engines, issuers and receivers alike, except for hosts in
/// `NO_PROXY`.
#[tokio::test]
async fn environment_proxy_is_used() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let record = Arc::clone(&requests);
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    let server_task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            drop(stream.read_line(&mut line).await);
            record.lock().push(line.trim().to_owned());
            drop(stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await);
        }
    });
    let auth = format!(
        "mode = \"oauth\"\nresource = \"{RESOURCE}\"\n[[auth.issuers]]\nissuer = \"https://login.test/realm\"\n"
    );
    let dir = TestDir::new(&format!(
        "{}[backends.engine]\nkind = \"github-actions\"\nrepository = \"o/r\"\ntoken = \"ghp_x\"\n\
         api = \"https://github.test\"\n[[notify]]\nurl = \"https://receiver.test/hook\"\n\
         secret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\n",
        BASICS.replace("single_user = true", &auth)
    ));
    let hosts = ["github.test", "login.test", "receiver.test"];
    for excepted in ["", "login.test"] {
        let mut doctor = dir.command("doctor");
        doctor.env("HTTPS_PROXY", &proxy).env("NO_PROXY", excepted);
        let output = dir.run(doctor).await;
        let requests = std::mem::take(&mut *requests.lock());
        for host in hosts {
            let was_requested = requests.iter().any(|line| line.starts_with(&format!("CONNECT {host}:443")));
            assert_eq!(was_requested, host != excepted, "{host}: {requests:?}, {output:?}");
        }
    }
    server_task.abort();
}

/// No address in a caller's arguments, headers or metadata makes the server send a request.
#[tokio::test]
async fn caller_supplied_address_is_never_requested() {
    let redirector = RedirectServer::start().await;
    let trap = &redirector.trap;
    let dir = TestDir::new(&format!("{BASICS}{TOOLS}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let modern = ModernClient::with_capabilities(
        server.url(),
        json!({"elicitation": {"url": {}}, "extensions": {trap.clone(): {"href": trap}}}),
    );
    let echo = client.call("say", json!({"what": trap})).await.unwrap();
    assert_eq!(text(&echo), format!("{trap}\n"), "it is a text like any other");
    let refused = client.call("read", json!({"document": trap})).await;
    assert!(refused.map_or(true, |result| result["isError"] == true), "an address is no file");
    let file = json!({"document": {"uri": trap, "name": trap}});
    assert!(client.call("read", file).await.map_or(true, |result| result["isError"] == true));
    for (method, params) in [
        ("resources/read", json!({"uri": trap})),
        ("resources/read", json!({"uri": format!("taskbridge://tasks/{trap}/log")})),
        ("resources/subscribe", json!({"uri": trap})),
        ("prompts/get", json!({"name": trap})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": trap}, "argument": {"name": "a", "value": trap}}),
        ),
    ] {
        let _: Result<Value, Fault> = client.request(method, params).await;
    }
    let icon = json!([{"src": format!("{trap}/icon.png")}]);
    let meta = json!({"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1", "websiteUrl": trap, "icons": icon}}});
    let _ = modern.call("say", &json!({"what": trap}), meta).await;
    for name in ["host", "origin", "referer", "x-forwarded-host", "forwarded"] {
        let _ = ModernClient::without_tasks(server.url())
            .with_header(name, trap)
            .request("tools/list", json!({}))
            .await;
    }
    assert_eq!(redirector.trap_hits.load(Ordering::SeqCst), 0);
    assert!(redirector.requested_paths.lock().is_empty());
}
