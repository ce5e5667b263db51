//! [`Proxy`]: a way over TCP that a test can bend: to another address, into silence, shut, or broken with a reset. It must
//! not look at what it carries.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It arrives.
    Open,
    /// It is held back, as by a network that lost its way; nobody is told.
    Silent,
    /// New connections are reset at once.
    Shut,
}

#[derive(Clone, Copy)]
struct State {
    target: Option<SocketAddr>,
    way: Way,
    /// How often all connections were reset.
    resets: u64,
}

/// A proxy. Who is connected through it is cut off when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// A way to this address, or to none for the time being.
    pub(crate) async fn to(target: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, seen) = watch::channel(State { target, way: Way::Open, resets: 0 });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, seen));
        Self { address, state, _serving: serving }
    }

    /// Where it listens, for as long as it is there.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections go from now on.
    pub(crate) fn aim(&self, target: Option<SocketAddr>) {
        self.state.send_modify(|state| state.target = target);
    }

    /// What becomes of what is sent from now on, connections that are there included unless it is shut.
    pub(crate) fn set(&self, way: Way) {
        self.state.send_modify(|state| state.way = way);
    }

    /// Resets all connections that are there.
    pub(crate) fn reset(&self) {
        self.state.send_modify(|state| state.resets += 1);
    }
}

async fn serve(listener: TcpListener, state: watch::Receiver<State>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.unwrap();
                connections.spawn(carry(client, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection. When it is dropped with bytes unread, or is reset, the other side hears of that.
async fn carry(mut client: TcpStream, mut state: watch::Receiver<State>) {
    let first = *state.borrow_and_update();
    let is_reset = |state: &State| state.resets != first.resets;
    let mut until = state.clone();
    let carried = async {
        if !passes(&mut state).await {
            return None;
        }
        let target = state.borrow().target?;
        let mut server = TcpStream::connect(target).await.ok()?;
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        tokio::select! {
            () = pump(from_client, to_server, state.clone()) => {}
            () = pump(from_server, to_client, state.clone()) => {}
        }
        Some(())
    };
    let whole = tokio::select! {
        carried = carried => carried.is_some(),
        _ = until.wait_for(is_reset) => false,
    };
    if !whole {
        // Closed without a goodbye: the kernel sends a reset.
        let _ = client.set_zero_linger();
    }
}

/// Waits out a silence; false if the way is shut.
async fn passes(state: &mut watch::Receiver<State>) -> bool {
    match state.wait_for(|state| state.way != Way::Silent).await {
        Ok(state) => state.way == Way::Open,
        Err(_) => false,
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<State>,
) {
    let mut piece = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if state.wait_for(|state| state.way != Way::Silent).await.is_err()
            || to.write_all(&piece[..length]).await.is_err()
        {
            return;
        }
    }
}
