//! Identity of this backend: the server, and the id of the configured repository, which survives a rename. It
//! must not call GitHub.

use std::sync::OnceLock;

use reqwest::Url;

/// Server and repository.
pub(crate) struct Identity {
    server: String,
    /// `None` if the config names no repository: each handle names its own.
    repository: Option<OnceLock<u64>>,
}

impl Identity {
    /// Derives the server from the address of the API. `has_repository` is true if a repository is
    /// configured.
    pub(crate) fn new(api: &str, has_repository: bool) -> Self {
        let url = Url::parse(api).ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        let host = if host == "api.github.com" { "github.com" } else { host };
        let server = match url.as_ref().and_then(Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Self { server, repository: has_repository.then(OnceLock::new) }
    }

    /// Stores the id of the configured repository. The first id stays.
    pub(crate) fn learn(&self, id: u64) {
        if let Some(known) = &self.repository {
            let _ = known.set(id);
        }
    }

    /// Returns the identity, or `None` until the id of the configured repository is known.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.repository {
            None => Some(format!("github-actions {}", self.server)),
            Some(id) => id.get().map(|id| format!("github-actions {}/{id}", self.server)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_names_server_and_repository_id() {
        let all = Identity::new("https://api.github.com", false);
        assert_eq!(all.text().unwrap(), "github-actions github.com");
        let own = Identity::new("https://user:pass@github.example.com:8443/api/v3", true);
        assert_eq!(own.text(), None, "the id is not known yet");
        own.learn(42);
        own.learn(43);
        assert_eq!(own.text().unwrap(), "github-actions github.example.com:8443/42");
    }
}
