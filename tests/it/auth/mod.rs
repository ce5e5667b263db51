//! Tests for authentication through the endpoint of the real program: access tokens of a small issuer with
//! real keys, API keys together with them, and client certificates.

mod certificates;
mod issuers;
mod keys;
mod metadata;
mod streams;
mod tokens;
mod words;

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::issuer::Issuer;
use crate::support::{BASICS, Server, TestDir};

/// Timeout for anything in these tests.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A backend, and a tool that prints a line.
const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
description = "Says hello."
backend = "here"
target.command = ["echo", "hello"]

[tools.slow]
backend = "here"
target.command = ["sh", "-c", "sleep 5; echo late"]
"#;

/// Returns a config with this `[auth]`.
fn config(auth: &str) -> String {
    format!("{}{TOOLS}", BASICS.replace("single_user = true", auth))
}

/// Starts a server with this `[auth]`.
fn serve(auth: &str) -> (TestDir, Server) {
    let dir = TestDir::new(&config(auth));
    let server = dir.serve();
    (dir, server)
}

/// Starts a server that accepts tokens of this issuer.
fn serve_with_issuer(issuer: &Issuer) -> (TestDir, Server) {
    serve(&issuer.config())
}

/// Returns a request that opens a session.
fn initialize_request(server: &Server) -> RequestBuilder {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        },
    });
    let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let request = client.post(server.url()).header("Accept", "application/json, text/event-stream");
    request.header("Content-Type", "application/json").body(body.to_string())
}

/// Opens a session with a token.
async fn initialize_with(server: &Server, token: &str) -> Response {
    initialize_request(server).bearer_auth(token).send().await.unwrap()
}

/// Returns the status and the error message for a token.
async fn status_for_token(server: &Server, token: &str) -> (u16, String) {
    let response = initialize_with(server, token).await;
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    (status, body["error"]["message"].as_str().unwrap_or_default().to_owned())
}

fn challenge(response: &Response) -> &str {
    response.headers()["www-authenticate"].to_str().unwrap()
}
