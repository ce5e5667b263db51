//! [`Proxy`]: a TCP proxy that a test controls: it can change the target, stall, refuse connections, or reset
//! them. It must not inspect the data.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The state of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// Data is forwarded.
    Open,
    /// Data is delayed without an error on either side, as in a network that drops packets.
    Silent,
    /// New connections are reset at once.
    Shut,
}

#[derive(Clone, Copy)]
struct State {
    target: Option<SocketAddr>,
    mode: ProxyMode,
    /// Number of resets of all connections.
    resets: u64,
}

/// A proxy. Dropping it closes its connections.
pub(crate) struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    _server_tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy to this address, or to none for now.
    pub(crate) async fn to(target: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (state, receiver) = watch::channel(State { target, mode: ProxyMode::Open, resets: 0 });
        let mut server_task = JoinSet::new();
        server_task.spawn(serve(listener, receiver));
        Self { address, state, _server_tasks: server_task }
    }

    /// Returns the address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the target of new connections.
    pub(crate) fn set_target(&self, target: Option<SocketAddr>) {
        self.state.send_modify(|state| state.target = target);
    }

    /// Sets the state from now on. It applies to existing connections too, except for [`ProxyMode::Shut`].
    pub(crate) fn set(&self, mode: ProxyMode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Resets all existing connections.
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
                connections.spawn(forward(client, state.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Forwards one connection. The other side sees a reset if the connection could not be forwarded or was
/// reset.
async fn forward(mut client: TcpStream, mut state: watch::Receiver<State>) {
    let first = *state.borrow_and_update();
    let is_reset = |state: &State| state.resets != first.resets;
    let mut resets = state.clone();
    let forwarded = async {
        if !wait_until_open(&mut state).await {
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
    let completed = tokio::select! {
        forwarded = forwarded => forwarded.is_some(),
        _ = resets.wait_for(is_reset) => false,
    };
    if !completed {
        // With zero linger, the kernel sends a reset on close.
        let _ = client.set_zero_linger();
    }
}

/// Waits while the proxy is silent; returns false if it is shut.
async fn wait_until_open(state: &mut watch::Receiver<State>) -> bool {
    match state.wait_for(|state| state.mode != ProxyMode::Silent).await {
        Ok(state) => state.mode == ProxyMode::Open,
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
        if state.wait_for(|state| state.mode != ProxyMode::Silent).await.is_err()
            || to.write_all(&piece[..length]).await.is_err()
        {
            return;
        }
    }
}
