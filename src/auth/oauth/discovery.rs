//! The metadata of an issuer: the documents of RFC 8414 and of OpenID Connect Discovery. The document
//! addresses and the checks of their content are pure; [`discover`] sends the requests.

use reqwest::Url;
use serde::Deserialize;

use super::fetch::{FetchError, IssuerClient, is_safe, redacted_url};

const OAUTH_DOCUMENT: &str = "oauth-authorization-server";
const OPENID_DOCUMENT: &str = "openid-configuration";

/// The metadata of an issuer.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    issuer: String,
    jwks_uri: Option<String>,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    /// How clients authenticate at the token endpoint. Default: `client_secret_basic`.
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// True if it names itself when it sends a browser back (RFC 9207).
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    /// Parses a document. It must name this issuer (RFC 8414, section 3.3).
    fn parse(name: &str, document: &[u8]) -> Result<Self, String> {
        let metadata: Self =
            serde_json::from_slice(document).map_err(|_| "invalid issuer metadata".to_owned())?;
        if metadata.issuer != name {
            return Err(format!("metadata of another issuer, {:?} instead of {name:?}", metadata.issuer));
        }
        Ok(metadata)
    }

    /// Returns the address of the keys.
    pub(super) fn keys_url(&self, issuer: &Url) -> Result<Url, String> {
        safe_url(issuer, "jwks_uri", self.jwks_uri.as_deref())
    }

    /// Returns the address to which a browser is sent for a sign-in.
    pub(super) fn authorization_endpoint(&self, issuer: &Url) -> Result<Url, String> {
        safe_url(issuer, "authorization_endpoint", self.authorization_endpoint.as_deref())
    }

    /// Returns the address at which codes are exchanged for tokens.
    pub(super) fn token_endpoint(&self, issuer: &Url) -> Result<Url, String> {
        safe_url(issuer, "token_endpoint", self.token_endpoint.as_deref())
    }

    /// Returns true if a client secret must be in the form, because the issuer does not take it in the header.
    pub(super) fn takes_secret_in_form(&self) -> bool {
        let methods = self.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let has = |name: &str| methods.iter().any(|method| method == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}

/// Fetches the metadata of an issuer.
pub(super) async fn discover(client: &IssuerClient, issuer: &Url, name: &str) -> Result<Metadata, String> {
    let mut attempts = Vec::new();
    for document_url in metadata_urls(issuer) {
        match client.get(document_url.clone()).await {
            Ok(document) => {
                return Metadata::parse(name, &document)
                    .map_err(|reason| format!("{document_url}: {reason}"));
            }
            // The issuer may have only one of the documents.
            Err(FetchError::Status(status)) => attempts.push(format!("{document_url} answers {status}")),
            Err(error) => return Err(format!("{document_url}: {error}")),
        }
    }
    Err(format!("no issuer metadata found ({})", attempts.join(", ")))
}

/// Reads an address in the metadata. It must be safe.
fn safe_url(issuer: &Url, field: &str, text: Option<&str>) -> Result<Url, String> {
    let text = text.ok_or_else(|| format!("no `{field}`"))?;
    let url = Url::parse(text).map_err(|_| format!("`{field}` {text:?} is not a URL"))?;
    // A remote issuer must not direct this server to loopback or link-local addresses.
    let is_local = |url: &Url| url.host_str().is_none_or(taskbridge_sdk::is_local_address);
    if !is_safe(&url) || (is_local(&url) && !is_local(issuer)) {
        let url = redacted_url(&url);
        return Err(format!(
            "`{field}` {url} is not allowed: it must be https, and not on this machine or link-local"
        ));
    }
    Ok(url)
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
        let believed = |issuer: &str, document: &str| {
            Metadata::parse(issuer, document.as_bytes()).and_then(|metadata| metadata.keys_url(&url(issuer)))
        };
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
