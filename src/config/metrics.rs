//! `[metrics]`: whether the server's own numbers can be read, where and by whom. It must not show the token.

use std::net::SocketAddr;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use super::reader::Reader;
use super::secret::Secret;

/// The fewest characters of a token. In hexadecimal they hold 128 bits.
const SHORTEST: usize = 32;

/// Where Prometheus can read the server's own numbers (`/metrics`): at an address of its own, since they name all tools and
/// backends, also those that a caller may not see. A change takes effect when the server is started again.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Metrics {
    /// The address and port, such as `127.0.0.1:9464`. Without it, nothing can be read. One that other machines can reach is
    /// refused unless there is a `token`, or `anybody_may_read`.
    #[serde(deserialize_with = "address")]
    #[schemars(with = "Option<String>")]
    listen: Option<SocketAddr>,
    /// What whoever reads must show, as `Authorization: Bearer TOKEN`: a long random text (`openssl rand -hex 32`),
    /// `{ env = "NAME" }` or `{ file = "PATH" }`.
    token: Option<Secret>,
    /// Other machines may read without a token, because a network or a proxy keeps out whoever should not.
    anybody_may_read: bool,
}

/// Where the numbers can be read.
#[derive(Clone, Debug)]
pub struct Page {
    /// Where.
    pub listen: SocketAddr,
    /// The SHA-256 of the token that must be shown.
    pub token: Option<[u8; 32]>,
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(|_| {
        serde::de::Error::custom(format!(
            "\"{text}\" is not an address and port: write one such as \"127.0.0.1:9464\""
        ))
    })
}

/// Where the numbers can be read, if they can be.
pub(super) fn page(reader: &mut Reader<'_>, metrics: &Metrics, dir: &Path) -> Option<Page> {
    let Metrics { listen, token, anybody_may_read } = metrics;
    let token = token.as_ref().and_then(|token| {
        let text = token.reveal(reader, "metrics.token", dir)?;
        let length = text.chars().count();
        if length < SHORTEST {
            let message = format!(
                "it has {length} characters, and a token needs at least {SHORTEST}: write what `openssl rand -hex 32` prints"
            );
            reader.problem("metrics.token", message);
        }
        Some(Sha256::digest(text).into())
    });
    let Some(listen) = *listen else {
        if metrics.token.is_some() || *anybody_may_read {
            let message =
                "it is missing, so that nobody can read anything: write one such as \"127.0.0.1:9464\"";
            reader.problem("metrics.listen", message);
        }
        return None;
    };
    if *anybody_may_read && metrics.token.is_some() {
        reader.problem("metrics.anybody_may_read", "it goes without `token`: remove one of them");
    }
    if !listen.ip().is_loopback() && metrics.token.is_none() && !anybody_may_read {
        let message = format!(
            "other machines can reach {listen}, and could read the names of all tools: listen on 127.0.0.1, set `token`, or \
             say that they may (anybody_may_read = true)"
        );
        reader.problem("metrics.listen", message);
    }
    Some(Page { listen, token })
}
