//! [`CheckedResolver`]: resolves names, and refuses addresses that the rules forbid. The connection uses
//! exactly the checked addresses, so a second answer of the name server cannot change them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::targets::Targets;

/// Function that looks a name up. Tests replace it.
pub(super) type Lookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> + Send + Sync>;

pub(super) struct CheckedResolver {
    pub(super) targets: Arc<Targets>,
    pub(super) lookup: Lookup,
}

/// Refused address. The cause of an error of the HTTP library.
#[derive(Debug)]
pub(super) struct ForbiddenAddress(String);

impl fmt::Display for ForbiddenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ForbiddenAddress {}

/// Looks a name up with the resolver of this machine.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|host| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(found.collect())
        })
    })
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_ascii_lowercase();
        let (targets, lookup) = (Arc::clone(&self.targets), Arc::clone(&self.lookup));
        Box::pin(async move {
            let found = lookup(host.clone()).await?;
            for address in &found {
                // One forbidden address refuses all: no order of attempts can then reach it.
                targets.check_address(&host, address.ip()).map_err(ForbiddenAddress)?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
