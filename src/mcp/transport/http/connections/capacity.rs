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
const MIN_CONNECTIONS: u64 = 8;

/// The number of connections that fit the descriptor limit.
pub(in crate::mcp::transport::http) struct Capacity {
    /// `None` without a limit.
    limit: Option<u64>,
    max_connections: usize,
    /// The configured limit of the last warning.
    last_warned_limit: Option<usize>,
}

impl Capacity {
    /// Returns the capacity of this process. Must be called before it accepts connections.
    pub(in crate::mcp::transport::http) fn of_process() -> Self {
        // The directory that is being read is one of them.
        let open_descriptors =
            fs::read_dir("/proc/self/fd").map_or(ASSUMED_OPEN, |entries| entries.count() as u64);
        Self::new(getrlimit(Resource::Nofile).current, open_descriptors)
    }

    fn new(limit: Option<u64>, open_descriptors: u64) -> Self {
        let max_connections = limit.map_or(u64::MAX, |limit| {
            limit.saturating_sub(open_descriptors + reserve(limit)).max(MIN_CONNECTIONS)
        });
        Self {
            limit,
            max_connections: usize::try_from(max_connections).unwrap_or(usize::MAX),
            last_warned_limit: None,
        }
    }

    /// Returns the smaller of the configured limit and the capacity. Warns once for each limit that does not
    /// fit.
    pub(in crate::mcp::transport::http) fn fit(&mut self, allowed: usize) -> usize {
        if let Some(limit) = self.limit
            && allowed > self.max_connections
            && self.last_warned_limit.replace(allowed) != Some(allowed)
        {
            tracing::warn!(
                "max_connections in [limits] is {allowed}, and {} fit: this process may have {limit} descriptors open \
                 (RLIMIT_NOFILE), of which {} are kept for the store, logs and engines, beside those that it opened at its \
                 start; raise that limit (`ulimit -n`, `LimitNOFILE=` of systemd), or lower max_connections",
                self.max_connections,
                reserve(limit)
            );
        }
        allowed.min(self.max_connections)
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
        let fit = |limit, open_descriptors| Capacity::new(limit, open_descriptors).fit(16_384);
        assert_eq!(fit(Some(64), 30), 64 - 30 - 16);
        assert_eq!(fit(Some(1024), 40), 1024 - 40 - 256);
        assert_eq!(fit(Some(32_768), 40), 16_384, "no more than the config allows");
        assert_eq!(fit(None, 40), 16_384);
        assert_eq!(fit(Some(32), 40), 8, "never none");
    }
}
