//! Identity of this backend: the GitHub server, and the id of the configured repository. The id survives a
//! rename of the repository. This module must not call GitHub.

use std::sync::OnceLock;

use reqwest::Url;

/// Identity of the engine that this backend is connected to. The taskbridge server stores it with its tasks.
/// A backend with the same name but another engine therefore does not touch them.
pub(crate) struct Identity {
    /// Host name, with the port unless it is the default one.
    server: String,
    /// Id of the configured repository; empty until it is known. `None` if the config names no repository:
    /// then each tool names its own, and the handle of each job contains it.
    repository_id: Option<OnceLock<u64>>,
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
        Self { server, repository_id: has_repository.then(OnceLock::new) }
    }

    /// Stores the id of the configured repository. The first id stays.
    pub(crate) fn set_repository_id(&self, id: u64) {
        if let Some(cell) = &self.repository_id {
            let _ = cell.set(id);
        }
    }

    /// Returns the identity, or `None` until the id of the configured repository is known.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.repository_id {
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
        let server_only = Identity::new("https://api.github.com", false);
        assert_eq!(server_only.text().unwrap(), "github-actions github.com");
        let with_repository = Identity::new("https://user:pass@github.example.com:8443/api/v3", true);
        assert_eq!(with_repository.text(), None, "the id is not known yet");
        with_repository.set_repository_id(42);
        with_repository.set_repository_id(43);
        assert_eq!(with_repository.text().unwrap(), "github-actions github.example.com:8443/42");
    }
}
