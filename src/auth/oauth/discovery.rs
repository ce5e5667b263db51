//! Finds the keys of an issuer in its metadata: the documents of RFC 8414 and of OpenID Connect Discovery.
//! The document addresses and the checks of their content are pure; [`keys_at`] sends the requests.

use reqwest::Url;
use serde::Deserialize;

use super::fetch::{FetchError, IssuerClient, is_safe, redacted_url};

const OAUTH: &str = "oauth-authorization-server";
const OPENID: &str = "openid-configuration";

#[derive(Debug, Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: Option<String>,
}

/// Returns the address of an issuer's keys from its metadata.
pub(super) async fn keys_at(line: &IssuerClient, issuer: &Url, name: &str) -> Result<Url, String> {
    let mut said = Vec::new();
    for at in addresses(issuer) {
        match line.get(at.clone()).await {
            Ok(document) => return believed(issuer, name, &document).map_err(|why| format!("{at}: {why}")),
            // The issuer may have only one of the documents.
            Err(FetchError::Status(status)) => said.push(format!("{at} answers {status}")),
            Err(error) => return Err(format!("{at}: {error}")),
        }
    }
    Err(format!("it says nowhere where its keys are ({}); name the place by `jwks_uri`", said.join(", ")))
}

/// Returns the addresses of the documents in the order of the attempts.
fn addresses(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let at = |path: String| {
        let mut url = issuer.clone();
        url.set_query(None);
        url.set_path(&path);
        url
    };
    let mut all = vec![at(format!("/.well-known/{OAUTH}{path}")), at(format!("/.well-known/{OPENID}{path}"))];
    if !path.is_empty() {
        all.push(at(format!("{path}/.well-known/{OPENID}")));
    }
    all
}

/// Returns the key address of a document. The document must name this issuer (RFC 8414, section 3.3), and the
/// address must be safe.
fn believed(issuer: &Url, name: &str, document: &[u8]) -> Result<Url, String> {
    let metadata: Metadata =
        serde_json::from_slice(document).map_err(|_| "it is no metadata of an issuer".to_owned())?;
    if metadata.issuer != name {
        return Err(format!(
            "it is the metadata of another issuer, {:?}, and not of {name:?}",
            metadata.issuer
        ));
    }
    let keys = metadata.jwks_uri.ok_or("it names no keys (`jwks_uri`)")?;
    let keys = Url::parse(&keys).map_err(|_| format!("its `jwks_uri` {keys:?} is no address"))?;
    // A remote issuer must not direct this server to loopback or link-local addresses.
    let is_near = |url: &Url| url.host_str().is_none_or(taskbridge_sdk::is_near);
    if !is_safe(&keys) || (is_near(&keys) && !is_near(issuer)) {
        let keys = redacted_url(&keys);
        return Err(format!(
            "its `jwks_uri` {keys} is not asked: it must be https, and not on this machine or link-local"
        ));
    }
    Ok(keys)
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
            |issuer: &str| addresses(&url(issuer)).iter().map(ToString::to_string).collect::<Vec<_>>();
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
        let believed = |issuer: &str, document: &str| believed(&url(issuer), issuer, document.as_bytes());
        let of = |keys: &str| format!(r#"{{"issuer":"https://login.example","jwks_uri":"{keys}"}}"#);
        assert_eq!(
            believed("https://login.example", &of("https://keys.example/jwks")),
            Ok(url("https://keys.example/jwks"))
        );
        for (issuer, document, why) in [
            ("https://honest.example", of("https://keys.example"), "another issuer"),
            ("https://login.example/", of("https://keys.example"), "another issuer"),
            ("https://login.example", of("http://keys.example"), "not asked"),
            ("https://login.example", of("http://127.0.0.1:2379/keys"), "not asked"),
            ("https://login.example", of("https://localhost/keys"), "not asked"),
            ("https://login.example", of("https://localhost./keys"), "not asked"),
            ("https://login.example", of("https://x.localhost/keys"), "not asked"),
            ("https://login.example", of("https://0.0.0.0/keys"), "not asked"),
            ("https://login.example", of("https://0x7f.1/keys"), "not asked"),
            ("https://login.example", of("https://[::]/keys"), "not asked"),
            ("https://login.example", of("https://[::ffff:127.0.0.1]/keys"), "not asked"),
            ("https://login.example", of("https://169.254.169.254/latest"), "not asked"),
            ("https://login.example", of("https://[fe80::1]/keys"), "not asked"),
            ("https://login.example", of("file:///etc/passwd"), "not asked"),
            ("https://login.example", of("nonsense"), "no address"),
            ("https://login.example", r#"{"issuer":"https://login.example"}"#.to_owned(), "no keys"),
            ("https://login.example", "<html>".to_owned(), "no metadata"),
        ] {
            let said = believed(issuer, &document).unwrap_err();
            assert!(said.contains(why), "{issuer} {document}: {said}");
        }
    }
}
