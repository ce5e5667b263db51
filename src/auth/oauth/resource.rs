//! [`Resource`]: the metadata by which clients find out how to get a token for this server (RFC 9728), and
//! its URL.

use reqwest::Url;
use serde_json::{Value, json};

/// Well-known path of the metadata of protected resources.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// This server as a protected resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The URL of this server, exactly as clients must name it.
    id: String,
    url: Url,
    /// Display name.
    name: Option<String>,
    /// Scopes that clients can request.
    scopes: Vec<String>,
}

impl Resource {
    /// Creates the resource with this URL.
    ///
    /// # Errors
    /// If the URL is invalid; the text names the fix.
    pub fn new(id: &str, name: Option<String>, scopes: Vec<String>) -> Result<Self, String> {
        let example = "write the address that clients use, such as https://bridge.example.com/mcp";
        let url = Url::parse(id).map_err(|_| format!("{id:?} is not a URL: {example}"))?;
        if !super::is_safe(&url) {
            return Err(format!("{id:?} is not https, so tokens could be intercepted: {example}"));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(format!("{id:?} has more than a host and a path: {example}"));
        }
        Ok(Self { id: id.to_owned(), url, name, scopes })
    }

    /// Returns the audience of tokens for this server (RFC 8707).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns true if the metadata is served at this path below the well-known one. The path is that of the
    /// resource, `/mcp` (a proxy may publish another path), or empty.
    pub fn is_metadata_path(&self, path: &str) -> bool {
        path.is_empty() || path == "/mcp" || path == self.url.path().trim_end_matches('/')
    }

    /// Returns the URL of the metadata (RFC 9728, section 3.1).
    pub fn metadata_url(&self) -> String {
        let path = self.url.path().trim_end_matches('/');
        format!("{}{WELL_KNOWN}{path}", self.url.origin().ascii_serialization())
    }

    /// Returns the metadata document.
    pub fn metadata<'a>(&self, issuers: impl Iterator<Item = &'a str>) -> Value {
        let mut metadata = json!({
            "resource": self.id,
            "authorization_servers": issuers.collect::<Vec<_>>(),
            "bearer_methods_supported": ["header"],
        });
        if !self.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.scopes);
        }
        if let Some(name) = &self.name {
            metadata["resource_name"] = json!(name);
        }
        metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata is at the path of RFC 9728, with and without a proxy that strips the prefix.
    #[test]
    fn resource_metadata_is_at_wellknown_path() {
        for (id, url) in [
            ("https://bridge.example/mcp", "https://bridge.example/.well-known/oauth-protected-resource/mcp"),
            ("https://bridge.example", "https://bridge.example/.well-known/oauth-protected-resource"),
            (
                "https://b.example:8443/x/mcp",
                "https://b.example:8443/.well-known/oauth-protected-resource/x/mcp",
            ),
            ("http://127.0.0.1:8808/mcp", "http://127.0.0.1:8808/.well-known/oauth-protected-resource/mcp"),
        ] {
            assert_eq!(Resource::new(id, None, Vec::new()).unwrap().metadata_url(), url);
        }
        let behind_a_proxy = Resource::new("https://b.example/x/mcp", None, Vec::new()).unwrap();
        for (path, expected) in
            [("", true), ("/mcp", true), ("/x/mcp", true), ("/x", false), ("/other", false)]
        {
            assert_eq!(behind_a_proxy.is_metadata_path(path), expected, "{path}");
        }
    }

    #[test]
    fn resource_metadata_names_issuers() {
        let resource =
            Resource::new("https://b.example/mcp", Some("Bridge".to_owned()), vec!["run".to_owned()]);
        assert_eq!(
            resource.unwrap().metadata(["https://login.example"].into_iter()),
            json!({
                "resource": "https://b.example/mcp",
                "authorization_servers": ["https://login.example"],
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["run"],
                "resource_name": "Bridge",
            })
        );
    }

    /// A resource id needs HTTPS, and no query, fragment or user.
    #[test]
    fn unusable_resource_id_is_refused() {
        for id in [
            "bridge.example",
            "http://bridge.example/mcp",
            "https://b.example/mcp#x",
            "https://b.example?x=1",
            "https://u@b.example",
        ] {
            assert!(Resource::new(id, None, Vec::new()).unwrap_err().contains(id), "{id}");
        }
    }
}
