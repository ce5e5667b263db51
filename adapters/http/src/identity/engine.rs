//! The identity of the engine. Pure.

use crate::config::Config;

/// Returns what the backend is connected to: the name in the config, or the address without its scheme.
pub(crate) fn identity(config: &Config) -> String {
    if let Some(name) = &config.identity {
        return format!("http {name}");
    }
    let host = config.base.host_str().unwrap_or_default();
    let port = config.base.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("http {host}{port}{}", config.base.path().trim_end_matches('/'))
}
