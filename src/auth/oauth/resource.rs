//! [`Resource`]: what this server says of itself to whoever looks for a token for it: the metadata of RFC 9728, and where
//! it stands.

use reqwest::Url;
use serde_json::{Value, json};

/// Where the metadata of protected resources stands.
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What this server is to clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The address at which clients reach it, exactly as they are to name it.
    id: String,
    url: Url,
    /// A name for people.
    name: Option<String>,
    /// The scopes that there are to ask for.
    scopes: Vec<String>,
}

impl Resource {
    /// The resource with this address.
    ///
    /// # Errors
    /// What is wrong with the address, and how to mend it.
    pub fn new(id: &str, name: Option<String>, scopes: Vec<String>) -> Result<Self, String> {
        let example = "write the address that clients use, such as https://bridge.example.com/mcp";
        let url = Url::parse(id).map_err(|_| format!("{id:?} is no address: {example}"))?;
        if !super::is_safe(&url) {
            return Err(format!("{id:?} is not https, and tokens could be read on the way: {example}"));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(format!("{id:?} has more than a host and a path: {example}"));
        }
        Ok(Self { id: id.to_owned(), url, name, scopes })
    }

    /// Whom tokens for this server are meant for (RFC 8707).
    pub fn id(&self) -> &str {
        &self.id
    }

    /// True if the metadata stands at this path below the well-known one: the path of the resource, that of the endpoint
    /// as it is known here (a proxy may show another outside), or none.
    pub fn stands_at(&self, path: &str) -> bool {
        path.is_empty() || path == "/mcp" || path == self.url.path().trim_end_matches('/')
    }

    /// The address of the metadata (RFC 9728, section 3.1).
    pub fn metadata_url(&self) -> String {
        let path = self.url.path().trim_end_matches('/');
        format!("{}{WELL_KNOWN}{path}", self.url.origin().ascii_serialization())
    }

    /// The metadata.
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

    #[test]
    fn the_metadata_stands_where_clients_look_for_it() {
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
        for (path, stands) in [("", true), ("/mcp", true), ("/x/mcp", true), ("/x", false), ("/other", false)]
        {
            assert_eq!(behind_a_proxy.stands_at(path), stands, "{path}");
        }
    }

    #[test]
    fn says_what_a_client_needs() {
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

    #[test]
    fn an_address_that_nobody_could_use_is_refused() {
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
