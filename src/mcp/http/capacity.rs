//! [`Capacity`]: how many connections fit the descriptor limit of this process (`RLIMIT_NOFILE`). It must not count
//! connections.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Descriptors that no connection takes: a quarter of the limit, within these bounds. The store opens files and connections
/// while it works, logs are rotated, engines and receivers are called over connections of their own, and a local job takes
/// pipes as it starts. Connections that are being closed for others and those of the metrics page come out of it as well.
const RESERVE: (u64, u64) = (16, 256);

/// Descriptors that are assumed to be open where the system does not list them.
const ASSUMED_OPEN: u64 = 64;

/// The fewest connections that are taken, however low the limit is.
const FEWEST: u64 = 8;

/// The connections that fit the descriptor limit.
pub(super) struct Capacity {
    /// `None` without a limit.
    limit: Option<u64>,
    fitting: usize,
    /// What was last asked for in vain.
    warned: Option<usize>,
}

impl Capacity {
    /// That of this process, by what it has open before it takes connections.
    pub(super) fn of_process() -> Self {
        // The folder that is being read is one of them.
        let open = fs::read_dir("/proc/self/fd").map_or(ASSUMED_OPEN, |open| open.count() as u64);
        Self::new(getrlimit(Resource::Nofile).current, open)
    }

    fn new(limit: Option<u64>, open: u64) -> Self {
        let fitting = limit.map_or(u64::MAX, |limit| limit.saturating_sub(open + reserve(limit)).max(FEWEST));
        Self { limit, fitting: usize::try_from(fitting).unwrap_or(usize::MAX), warned: None }
    }

    /// As many of the connections that the config allows as fit. Warns once if they do not all fit.
    pub(super) fn fit(&mut self, allowed: usize) -> usize {
        if let Some(limit) = self.limit
            && allowed > self.fitting
            && self.warned.replace(allowed) != Some(allowed)
        {
            tracing::warn!(
                "max_connections in [limits] is {allowed}, and {} fit: this process may have {limit} descriptors open \
                 (RLIMIT_NOFILE), of which {} are kept for the store, logs and engines, beside those that it opened at its \
                 start; raise that limit (`ulimit -n`, `LimitNOFILE=` of systemd), or lower max_connections",
                self.fitting,
                reserve(limit)
            );
        }
        allowed.min(self.fitting)
    }
}

fn reserve(limit: u64) -> u64 {
    (limit / 4).clamp(RESERVE.0, RESERVE.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_in_reserve() {
        let fit = |limit, open| Capacity::new(limit, open).fit(16_384);
        assert_eq!(fit(Some(64), 30), 64 - 30 - 16);
        assert_eq!(fit(Some(1024), 40), 1024 - 40 - 256);
        assert_eq!(fit(Some(32_768), 40), 16_384, "no more than the config allows");
        assert_eq!(fit(None, 40), 16_384);
        assert_eq!(fit(Some(32), 40), 8, "never none");
    }
}
