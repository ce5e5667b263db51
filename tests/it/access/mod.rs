//! Tests for authorization, and that nothing of one owner is visible to another. Answers are compared as they
//! are on the wire.

mod calls;
mod isolation;
mod limits;
mod questions;
pub(crate) mod raw;
mod reads;

use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// Timeout for anything in these tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Awaits a future with a timeout of [`TIMEOUT`].
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("it takes a moment and no more")
}

/// Returns an `[auth]` section with a key `key-of-NAME` for each name, plus the given lines of its table.
pub(crate) fn keys(names: &[(&str, &str)]) -> String {
    let digest = |name: &str| data_encoding::HEXLOWER.encode(&Sha256::digest(format!("key-of-{name}")));
    let key = |(name, extra): &(&str, &str)| {
        format!("[[auth.keys]]\nprincipal = \"{name}\"\nsha256 = \"{}\"\n{extra}\n", digest(name))
    };
    format!("[auth]\nmode = \"api_keys\"\n{}", names.iter().map(key).collect::<String>())
}
