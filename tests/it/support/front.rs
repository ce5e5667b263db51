//! [`Front`]: what stands before several servers. It sends each request to the next of them, so that consecutive
//! requests never meet the same one. It must not read more of a request than its head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// A load balancer. It is gone when it is dropped.
pub(crate) struct Front {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Front {
    /// One before these.
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    pub(crate) async fn before(servers: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, serving: tokio::spawn(serve(listener, servers)) }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, servers: Vec<SocketAddr>) {
    let (servers, turn) = (Arc::new(servers), Arc::new(AtomicUsize::new(0)));
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (servers, turn) = (Arc::clone(&servers), Arc::clone(&turn));
        connections.spawn(async move {
            let next = || servers[turn.fetch_add(1, Ordering::Relaxed) % servers.len()];
            // Whichever side breaks off, the other one is cut off with it.
            let _ = pass(client, next).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Passes one request on, and its answer back. The server is told that no other comes, and tells the client.
async fn pass(mut client: TcpStream, next: impl Fn() -> SocketAddr) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(END.len()).position(|window| window == END) {
            break end + 2;
        }
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let mut server = TcpStream::connect(next()).await?;
    server.write_all(&head[..end]).await?;
    server.write_all(b"Connection: close\r\n").await?;
    server.write_all(&head[end..]).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let up = async {
        // A server that takes no more may still have something to say.
        if tokio::io::copy(&mut from_client, &mut to_server).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = up => Ok(()),
        done = tokio::io::copy(&mut from_server, &mut to_client) => done.map(drop),
    }
}
