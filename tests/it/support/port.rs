//! [`Port`]: a free port for a server that a test starts. It must not listen on it.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A port of 127.0.0.1, chosen as in `tests/ports.py`: below the ports of outgoing connections, one of which could
/// take it before the server listens, or while it is down.
pub(crate) struct Port {
    pub(crate) number: u16,
    /// Keeps it from other tests on this machine.
    _reservation: UnixListener,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub(crate) fn reserve() -> Self {
        let reserve = |number: u16| {
            let name = SocketAddr::from_abstract_name(format!("taskbridge-test-port-{number}")).unwrap();
            let reservation = UnixListener::bind_addr(&name).ok()?;
            TcpListener::bind(("127.0.0.1", number)).ok()?;
            Some(Self { number, _reservation: reservation })
        };
        let first = 20_000 + u16::try_from(std::process::id() % 12_000).unwrap();
        (first..32_000).chain(20_000..first).find_map(reserve).unwrap()
    }
}
