//! `[metrics]`: the address of the metrics page, and who may read it. It must not print the token.

use std::net::SocketAddr;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// The metrics page for Prometheus (`/metrics`). It has its own address, because metrics name all tools and
/// backends, including those that a caller may not see. Changes take effect after a restart.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Metrics {
    /// The address and port, such as `127.0.0.1:9464`. Without it, there is no metrics page. An address that
    /// other machines can reach requires a `token`, or `anybody_may_read`.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "Option<String>")]
    listen: Option<SocketAddr>,
    /// The token that readers send as `Authorization: Bearer TOKEN`. A long random text
    /// (`openssl rand -hex 32`), `{ env = "NAME" }` or `{ file = "PATH" }`.
    token: Option<Secret>,
    /// Allows other machines to read without a token, where a network or proxy restricts access.
    anybody_may_read: bool,
}

/// The metrics page.
#[derive(Clone, Debug)]
pub struct MetricsPage {
    /// The listen address.
    pub listen: SocketAddr,
    /// The SHA-256 hash of the token that readers must send, not the token itself. `None` if no token is
    /// configured, or if it was not read.
    pub token: Option<[u8; 32]>,
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not an address and port: write one such as \"127.0.0.1:9464\""
        ))
    })
}

/// Validates and converts the table. Returns `None` if there is no `listen` address. Otherwise it returns the
/// page even if it recorded a problem: `reader` rejects the config at the end.
pub(in crate::config) fn page(reader: &mut Reader<'_>, metrics: &Metrics, dir: &Path) -> Option<MetricsPage> {
    let Metrics { listen, token, anybody_may_read } = metrics;
    let token = token.as_ref().and_then(|token| {
        let text = token.reveal_key(reader, "metrics.token", "token", dir)?;
        Some(Sha256::digest(text).into())
    });
    let Some(listen) = *listen else {
        if metrics.token.is_some() || *anybody_may_read {
            let message = "missing, so there is no metrics page: write an address such as \"127.0.0.1:9464\"";
            reader.problem("metrics.listen", message);
        }
        return None;
    };
    if *anybody_may_read && metrics.token.is_some() {
        reader.problem("metrics.anybody_may_read", "has no effect with `token`: remove one of them");
    }
    if !listen.ip().is_loopback() && metrics.token.is_none() && !anybody_may_read {
        let message = format!(
            "other machines can reach {listen}, and could read the names of all tools: listen on 127.0.0.1, set \
             `token`, or allow it with anybody_may_read = true"
        );
        reader.problem("metrics.listen", message);
    }
    Some(MetricsPage { listen, token })
}
