//! [`Credential`]: credentials of one identity. It must not know where they come from.

use async_trait::async_trait;
use taskbridge_sdk::Result;

use crate::driver::net::Request;

/// Credentials of one identity.
#[async_trait]
pub(super) trait Credential: Send + Sync {
    /// Adds the credentials to a complete request.
    async fn apply(&self, request: &mut Request) -> Result<()>;

    /// Learns that the engine refused the credentials. Returns true if the next attempt uses new ones.
    fn refused(&self) -> bool {
        false
    }
}
