//! Cached results of feasibility tests. All of it may be lost. It must not send a request to Slurm.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::driver::Feasibility;
use crate::notation::directives::Options;

/// How long it is cached that a node could run a job, or that the test failed or took too long.
pub(crate) const POSITIVE_TTL: Duration = Duration::from_mins(10);

/// How long another result is cached: nodes may be added, or become available.
pub(crate) const NEGATIVE_TTL: Duration = Duration::from_secs(30);

/// Maximum number of cached results.
const MAX_RESULTS: usize = 1000;

/// Cached results of tests, with their times.
#[derive(Default)]
pub(crate) struct FeasibilityCache(Mutex<HashMap<Options, (Feasibility, Instant)>>);

impl FeasibilityCache {
    /// Returns the cached result for a request, unless it has expired.
    pub(crate) fn get(&self, request: &Options) -> Option<Feasibility> {
        let cache = self.0.lock();
        let (result, at) = cache.get(request)?;
        let ttl = if *result == Feasibility::Feasible { POSITIVE_TTL } else { NEGATIVE_TTL };
        (at.elapsed() < ttl).then(|| result.clone())
    }

    pub(crate) fn insert(&self, request: Options, result: Feasibility) {
        let mut cache = self.0.lock();
        if cache.len() >= MAX_RESULTS {
            cache.clear();
        }
        cache.insert(request, (result, Instant::now()));
    }
}
