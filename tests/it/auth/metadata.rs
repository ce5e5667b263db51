//! Tests for the metadata by which a client without a token finds its authorization server (RFC 9728).

use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{challenge, initialize_request, serve, serve_with_issuer};
use crate::support::issuer::{Issuer, RESOURCE, Signer};

fn client() -> Client {
    Client::builder().no_proxy().tls_certs_only([]).build().unwrap()
}

/// The challenge has the address of the metadata, and pages can read it without a token.
#[tokio::test]
async fn missing_token_names_metadata_address() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let auth = issuer.config().replace(
        "[[auth.issuers]]",
        "resource_name = \"Bridge\"\nscopes_supported = [\"run\", \"see\"]\n[[auth.issuers]]",
    );
    let (_dir, server) = serve(&auth);
    let unauthenticated = initialize_request(&server).send().await.unwrap();
    assert_eq!(unauthenticated.status(), 401);
    let metadata_url = "http://127.0.0.1:8808/.well-known/oauth-protected-resource/mcp";
    assert_eq!(challenge(&unauthenticated), format!("Bearer resource_metadata=\"{metadata_url}\""));

    let root = server.url().strip_suffix("/mcp").unwrap();
    for path in ["", "/mcp"] {
        let url = format!("{root}/.well-known/oauth-protected-resource{path}");
        let response = client().get(&url).header("Origin", "https://app.example").send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["access-control-allow-origin"], "*", "pages can read it");
        assert_eq!(response.headers()["content-type"], "application/json");
        let metadata: Value = response.json().await.unwrap();
        assert_eq!(
            metadata,
            json!({
                "resource": RESOURCE, "authorization_servers": [issuer.url()],
                "bearer_methods_supported": ["header"], "scopes_supported": ["run", "see"],
                "resource_name": "Bridge",
            })
        );
        let preflight =
            client().request(Method::OPTIONS, &url).header("Origin", "https://app.example").send().await;
        assert_eq!(preflight.unwrap().status(), 204);
        assert_eq!(client().post(&url).send().await.unwrap().status(), 405);
    }
    let other =
        client().get(format!("{root}/.well-known/oauth-protected-resource/other")).send().await.unwrap();
    assert_eq!(other.status(), 404);
    assert_eq!(issuer.key_requests(), 0, "for that nobody is asked");
}

#[tokio::test]
async fn pages_can_read_a_challenge() {
    let key = Signer::ed("one");
    let issuer = Issuer::with(&[&key]).await;
    let (_dir, server) = serve_with_issuer(&issuer);
    let refused = initialize_request(&server).header("Origin", "http://localhost:6274").send().await.unwrap();
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["access-control-allow-origin"], "http://localhost:6274");
    assert!(
        refused.headers()["access-control-expose-headers"].to_str().unwrap().contains("WWW-Authenticate")
    );
}

#[tokio::test]
async fn without_tokens_there_is_no_metadata() {
    let (_dir, server) = serve("single_user = true");
    let root = server.url().strip_suffix("/mcp").unwrap();
    let response =
        client().get(format!("{root}/.well-known/oauth-protected-resource/mcp")).send().await.unwrap();
    assert_eq!(response.status(), 404);
}
