//! [`LoadBalancer`]: a load balancer before several servers. It sends each request to the next server, so
//! that consecutive requests never go to the same one. It must not read more of a request than its head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// A load balancer. Dropping it stops it.
pub(crate) struct LoadBalancer {
    /// The address on which it listens.
    pub(crate) address: SocketAddr,
    server_task: JoinHandle<()>,
}

impl LoadBalancer {
    /// Starts a load balancer before these servers.
    #[expect(clippy::disallowed_methods, reason = "it serves beside the test's own requests")]
    pub(crate) async fn start(servers: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, server_task: tokio::spawn(serve(listener, servers)) }
    }
}

impl Drop for LoadBalancer {
    fn drop(&mut self) {
        self.server_task.abort();
    }
}

async fn serve(listener: TcpListener, servers: Vec<SocketAddr>) {
    let (servers, request_count) = (Arc::new(servers), Arc::new(AtomicUsize::new(0)));
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (servers, request_count) = (Arc::clone(&servers), Arc::clone(&request_count));
        connections.spawn(async move {
            let next = || servers[request_count.fetch_add(1, Ordering::Relaxed) % servers.len()];
            // If one side disconnects, the other one is disconnected too.
            let _ = forward(client, next).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards one request and its response. Adds `Connection: close`, so that the server and the client expect
/// no further request.
async fn forward(mut client: TcpStream, next: impl Fn() -> SocketAddr) -> std::io::Result<()> {
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
        // A server that stops reading may still send a response.
        if tokio::io::copy(&mut from_client, &mut to_server).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = up => Ok(()),
        done = tokio::io::copy(&mut from_server, &mut to_client) => done.map(drop),
    }
}
