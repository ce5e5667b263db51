//! The `WWW-Authenticate` challenge for unauthenticated callers (RFC 6750). If the server accepts tokens, it
//! has the URL of the metadata of RFC 9728 and the scopes to request, as both MCP revisions require. It must
//! not decide who is admitted.

use super::oauth::{OAuth, Resource};
use super::{Authenticator, Unauthorized};

impl Authenticator {
    /// Returns the challenge for a caller that was rejected.
    pub fn challenge(&self, reason: &Unauthorized) -> String {
        let (error, description) = match reason {
            Unauthorized::Missing
            | Unauthorized::NoCertificate
            | Unauthorized::UnknownCertificate
            | Unauthorized::CertificateExpired
            | Unauthorized::Unavailable => (None, None),
            Unauthorized::Malformed => (Some("invalid_request"), None),
            Unauthorized::UnknownKey | Unauthorized::KeyExpired => (Some("invalid_token"), None),
            Unauthorized::Token(flaw) => (Some("invalid_token"), Some(flaw.to_string())),
            Unauthorized::InsufficientScope(_) => (Some("insufficient_scope"), None),
        };
        let scopes = match (reason, self.oauth()) {
            (Unauthorized::InsufficientScope(needed), _) => needed.as_slice(),
            (_, Some(oauth)) => oauth.required_scopes(),
            (_, None) => &[],
        };
        self.render(error, scopes, description.as_deref())
    }

    /// Returns the scopes that a token needs for an operation that requires `needed`. They include the scopes
    /// that this server requires of every token, so that a token with exactly these scopes is sufficient.
    pub fn scopes_for(&self, needed: &[String]) -> Vec<String> {
        let required = self.oauth().map(OAuth::required_scopes).unwrap_or_default();
        let others = required.iter().filter(|scope| !needed.contains(scope));
        needed.iter().chain(others).cloned().collect()
    }

    /// Returns the protected resource, which has the metadata URL of this server, if it accepts tokens.
    pub fn resource(&self) -> Option<&Resource> {
        self.oauth().map(OAuth::resource)
    }

    /// Returns the metadata document.
    pub fn metadata(&self) -> Option<serde_json::Value> {
        self.oauth().map(|oauth| oauth.resource().metadata(oauth.issuers()))
    }

    pub(super) fn oauth(&self) -> Option<&OAuth> {
        match self {
            Authenticator::OAuth(oauth, _) => Some(oauth),
            Authenticator::Certificates(_, otherwise) => otherwise.as_ref()?.oauth(),
            Authenticator::None { .. } | Authenticator::ApiKeys(_) => None,
        }
    }

    fn render(&self, error: Option<&str>, scopes: &[String], description: Option<&str>) -> String {
        let metadata = self.resource().map(Resource::metadata_url);
        let scopes = Some(scopes.join(" ")).filter(|scopes| !scopes.is_empty());
        let parameters = [
            ("error", error),
            ("error_description", description),
            ("scope", scopes.as_deref()),
            ("resource_metadata", metadata.as_deref()),
        ];
        let rendered =
            parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", quote(value?))));
        let rendered: Vec<String> = rendered.collect();
        if rendered.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", rendered.join(", ")) }
    }
}

/// Returns a quoted string of HTTP. Characters that it cannot contain are dropped.
fn quote(text: &str) -> String {
    let allowed = text.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\'));
    format!("\"{}\"", allowed.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::ApiKeys;
    use crate::auth::oauth::TokenError;
    use crate::clock::System;

    #[test]
    fn challenge_explains_authentication() {
        let resource = Resource::new("https://b.example/mcp", None, Vec::new()).unwrap();
        let oauth = OAuth::new(resource, vec!["run".to_owned()], [], System::clock()).unwrap();
        let oauth = Authenticator::OAuth(Box::new(oauth), ApiKeys::default());
        let metadata_parameter =
            "resource_metadata=\"https://b.example/.well-known/oauth-protected-resource/mcp\"";
        let needed = vec!["run".to_owned(), "de\"ploy".to_owned()];
        for (reason, challenge) in [
            (Unauthorized::Missing, format!("Bearer scope=\"run\", {metadata_parameter}")),
            (
                Unauthorized::Malformed,
                format!("Bearer error=\"invalid_request\", scope=\"run\", {metadata_parameter}"),
            ),
            (
                Unauthorized::Token(TokenError::Expired),
                format!(
                    "Bearer error=\"invalid_token\", error_description=\"the token has expired\", scope=\"run\", {metadata_parameter}"
                ),
            ),
            (
                Unauthorized::InsufficientScope(needed.clone()),
                format!("Bearer error=\"insufficient_scope\", scope=\"run deploy\", {metadata_parameter}"),
            ),
        ] {
            assert_eq!(oauth.challenge(&reason), challenge);
        }
        assert_eq!(oauth.scopes_for(&needed), needed);
        assert_eq!(oauth.scopes_for(&["deploy".to_owned()]), ["deploy", "run"]);
        let keys = Authenticator::ApiKeys(ApiKeys::default());
        assert_eq!(keys.challenge(&Unauthorized::Missing), "Bearer");
        assert_eq!(keys.challenge(&Unauthorized::UnknownKey), "Bearer error=\"invalid_token\"");
    }
}
