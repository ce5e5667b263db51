//! Finds the keys of an issuer in its metadata: the documents of RFC 8414 and of OpenID Connect Discovery.
//! The document addresses and the checks of their content are pure; [`discover_keys_url`] sends the
//! requests.

use reqwest::Url;
use serde::Deserialize;

use super::fetch::{FetchError, IssuerClient, is_safe, redacted_url};

const OAUTH_DOCUMENT: &str = "oauth-authorization-server";
const OPENID_DOCUMENT: &str = "openid-configuration";

#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: Option<String>,
}

/// Returns the address of an issuer's keys from its metadata.
pub(super) async fn discover_keys_url(
    client: &IssuerClient,
    issuer: &Url,
    name: &str,
) -> Result<Url, String> {
    let mut attempts = Vec::new();
    for document_url in metadata_urls(issuer) {
        match client.get(document_url.clone()).await {
            Ok(document) => {
                return parse_keys_url(issuer, name, &document)
                    .map_err(|reason| format!("{document_url}: {reason}"));
            }
            // The issuer may have only one of the documents.
            Err(FetchError::Status(status)) => attempts.push(format!("{document_url} answers {status}")),
            Err(error) => return Err(format!("{document_url}: {error}")),
        }
    }
    Err(format!("no issuer metadata found ({}); set `jwks_uri`", attempts.join(", ")))
}

/// Returns the addresses of the documents in the order of the attempts.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let with_path = |path: String| {
        let mut url = issuer.clone();
        url.set_query(None);
        url.set_path(&path);
        url
    };
    let mut urls = vec![
        with_path(format!("/.well-known/{OAUTH_DOCUMENT}{path}")),
        with_path(format!("/.well-known/{OPENID_DOCUMENT}{path}")),
    ];
    if !path.is_empty() {
        urls.push(with_path(format!("{path}/.well-known/{OPENID_DOCUMENT}")));
    }
    urls
}

/// Returns the key address of a document. The document must name this issuer (RFC 8414, section 3.3), and the
/// address must be safe.
fn parse_keys_url(issuer: &Url, name: &str, document: &[u8]) -> Result<Url, String> {
    let metadata: Metadata =
        serde_json::from_slice(document).map_err(|_| "invalid issuer metadata".to_owned())?;
    if metadata.issuer != name {
        return Err(format!("metadata of another issuer, {:?} instead of {name:?}", metadata.issuer));
    }
    let keys_url = metadata.jwks_uri.ok_or("no `jwks_uri`")?;
    let keys_url = Url::parse(&keys_url).map_err(|_| format!("`jwks_uri` {keys_url:?} is not a URL"))?;
    // A remote issuer must not direct this server to loopback or link-local addresses.
    let is_local = |url: &Url| url.host_str().is_none_or(taskbridge_sdk::is_local_address);
    if !is_safe(&keys_url) || (is_local(&keys_url) && !is_local(issuer)) {
        let keys_url = redacted_url(&keys_url);
        return Err(format!(
            "`jwks_uri` {keys_url} is not allowed: it must be https, and not on this machine or link-local"
        ));
    }
    Ok(keys_url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn discovery_urls_follow_protocol() {
        let addresses =
            |issuer: &str| metadata_urls(&url(issuer)).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            addresses("https://login.example/"),
            [
                "https://login.example/.well-known/oauth-authorization-server",
                "https://login.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            addresses("https://login.example:8443/realms/one/"),
            [
                "https://login.example:8443/.well-known/oauth-authorization-server/realms/one",
                "https://login.example:8443/.well-known/openid-configuration/realms/one",
                "https://login.example:8443/realms/one/.well-known/openid-configuration"
            ]
        );
    }

    /// Metadata of another issuer is refused, and so are key addresses that are not safe.
    #[test]
    fn issuer_metadata_must_match_issuer() {
        let believed =
            |issuer: &str, document: &str| parse_keys_url(&url(issuer), issuer, document.as_bytes());
        let document_for =
            |keys: &str| format!(r#"{{"issuer":"https://login.example","jwks_uri":"{keys}"}}"#);
        assert_eq!(
            believed("https://login.example", &document_for("https://keys.example/jwks")),
            Ok(url("https://keys.example/jwks"))
        );
        for (issuer, document, expected) in [
            ("https://honest.example", document_for("https://keys.example"), "another issuer"),
            ("https://login.example/", document_for("https://keys.example"), "another issuer"),
            ("https://login.example", document_for("http://keys.example"), "not allowed"),
            ("https://login.example", document_for("http://127.0.0.1:2379/keys"), "not allowed"),
            ("https://login.example", document_for("https://localhost/keys"), "not allowed"),
            ("https://login.example", document_for("https://localhost./keys"), "not allowed"),
            ("https://login.example", document_for("https://x.localhost/keys"), "not allowed"),
            ("https://login.example", document_for("https://0.0.0.0/keys"), "not allowed"),
            ("https://login.example", document_for("https://0x7f.1/keys"), "not allowed"),
            ("https://login.example", document_for("https://[::]/keys"), "not allowed"),
            ("https://login.example", document_for("https://[::ffff:127.0.0.1]/keys"), "not allowed"),
            ("https://login.example", document_for("https://169.254.169.254/latest"), "not allowed"),
            ("https://login.example", document_for("https://[fe80::1]/keys"), "not allowed"),
            ("https://login.example", document_for("file:///etc/passwd"), "not allowed"),
            ("https://login.example", document_for("nonsense"), "not a URL"),
            ("https://login.example", r#"{"issuer":"https://login.example"}"#.to_owned(), "no `jwks_uri`"),
            ("https://login.example", "<html>".to_owned(), "invalid issuer metadata"),
        ] {
            let error = believed(issuer, &document).unwrap_err();
            assert!(error.contains(expected), "{issuer} {document}: {error}");
        }
    }
}
