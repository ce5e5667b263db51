//! [`Capacity`]: how many connections fit the descriptor limit of this process (`RLIMIT_NOFILE`). It must not
//! count connections.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Bounds of the reserve: a quarter of the descriptor limit, which connections cannot use. The reserve is for
/// files and connections of the store, log rotation, connections to engines and receivers, and the pipes of
/// local jobs. Connections that are being evicted and those of the metrics page use it too.
const RESERVE: (u64, u64) = (16, 256);

/// Assumed number of open descriptors if the system does not list them.
const ASSUMED_OPEN: u64 = 64;

/// The minimum number of connections, however low the limit is.
const FEWEST: u64 = 8;

/// The number of connections that fit the descriptor limit.
pub(super) struct Capacity {
    /// `None` without a limit.
    limit: Option<u64>,
    fitting: usize,
    /// The configured limit of the last warning.
    warned: Option<usize>,
}

impl Capacity {
    /// Returns the capacity of this process. Must be called before it accepts connections.
    pub(super) fn of_process() -> Self {
        // The directory that is being read is one of them.
        let open = fs::read_dir("/proc/self/fd").map_or(ASSUMED_OPEN, |open| open.count() as u64);
        Self::new(getrlimit(Resource::Nofile).current, open)
    }

    fn new(limit: Option<u64>, open: u64) -> Self {
        let fitting = limit.map_or(u64::MAX, |limit| limit.saturating_sub(open + reserve(limit)).max(FEWEST));
        Self { limit, fitting: usize::try_from(fitting).unwrap_or(usize::MAX), warned: None }
    }

    /// Returns the smaller of the configured limit and the capacity. Warns once for each limit that does not
    /// fit.
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
