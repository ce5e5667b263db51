//! Hostile clients in a separate process: connections of five kinds in turn, and calls that are designed to
//! be slow. A client whose connection is closed reconnects. Their rate is limited to what the machine can
//! drive, so that the benchmark measures the server under attack and not the throughput between two
//! programs.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

use super::Result;
use super::client::Connection;
use super::wire::{Generation, Request};

/// What the process prints once all are connected.
pub(crate) const READY: &str = "the crowd is there";

/// The pause of each client between two actions.
const BEAT: Duration = Duration::from_millis(200);

const HEAD: &[u8] = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Slow: ";
const BODY: &[u8] = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
const GARBAGE: &[u8] = b"\x00\xff\x16\x03GARBAGE\r\n\r\n";
const REFUSED: &[u8] = b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// Minimum percentage of clients with an open connection while none is locked out. The others are thrown out
/// at once and pause after that.
pub(crate) const THERE: usize = 60;

/// Slow calls per second. Each has its own connection, so that none waits for another's response.
const CALLS_PER_SECOND: usize = 10;

/// Number of open connections.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Number of slow calls that were answered.
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Prints the number of open connections and of answered slow calls, for each line of input. The end of the
/// input means that the benchmark is gone, and the process exits.
fn count() {
    for _ in std::io::stdin().lines().map_while(std::result::Result::ok) {
        let (held, answered) = (HELD.load(Ordering::Relaxed), ANSWERED.load(Ordering::Relaxed));
        if writeln!(std::io::stdout(), "{held} {answered}").is_err() {
            break;
        }
    }
    std::process::exit(0);
}

/// Runs until the process is killed.
#[allow(clippy::disallowed_methods, reason = "a thread that only waits to be asked is in nobody's way here")]
pub(crate) async fn run(address: SocketAddr, many: usize, calls: &[Request]) -> Result<()> {
    let first = join_all((0..many).map(|_| TcpStream::connect(address))).await;
    let first = first.into_iter().collect::<std::io::Result<Vec<_>>>()?;
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")?;
    out.flush()?;
    std::thread::spawn(count);
    let members = join_all(first.into_iter().enumerate().map(|(n, stream)| member(n, stream, address)));
    let callers = join_all((0..CALLS_PER_SECOND).map(|n| caller(n, address, calls)));
    tokio::join!(members, callers);
    Ok(())
}

/// Makes one slow call per second.
async fn caller(number: usize, address: SocketAddr, calls: &[Request]) {
    let mut beat = interval(Duration::from_secs(1));
    let mut connection = None;
    sleep(Duration::from_secs(1).mul_f64(number as f64 / CALLS_PER_SECOND as f64)).await;
    for call in calls.iter().cycle().skip(number) {
        beat.tick().await;
        if connection.is_none() {
            connection = Connection::open(address, Generation::V2025).await.ok();
        }
        let Some(open) = &mut connection else { continue };
        match open.call(call).await {
            Ok(_) => {
                ANSWERED.fetch_add(1, Ordering::Relaxed);
            }
            // The server may have closed the connection.
            Err(_) => connection = None,
        }
    }
}

async fn member(number: usize, first: TcpStream, address: SocketAddr) {
    // Staggers the clients.
    sleep(BEAT.mul_f64((number % 100) as f64 / 100.0)).await;
    let mut stream = Some(first);
    loop {
        if let Some(stream) = stream.take() {
            HELD.fetch_add(1, Ordering::Relaxed);
            // An error is expected: the server throws these clients out.
            let _ = act(number % 5, stream).await;
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
        sleep(BEAT).await;
        stream = TcpStream::connect(address).await.ok();
    }
}

async fn act(kind: usize, mut stream: TcpStream) -> std::io::Result<()> {
    let list = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/list\r\nContent-Length: {}\r\n\r\n{LIST}",
        LIST.len()
    );
    match kind {
        // A head and a body that arrive byte by byte.
        0 => drip(&mut stream, HEAD, b"a").await,
        1 => drip(&mut stream, BODY, b" ").await,
        // Garbage, which the server throws out at once.
        2 => {
            stream.write_all(GARBAGE).await?;
            let mut said = Vec::new();
            stream.read_to_end(&mut said).await.map(drop)
        }
        // A request that is refused, repeatedly on one connection.
        3 => loop {
            stream.write_all(REFUSED).await?;
            if stream.read(&mut [0; 4096]).await? == 0 {
                return Ok(());
            }
            sleep(BEAT).await;
        },
        // Requests whose responses are never read.
        _ => loop {
            stream.write_all(list.as_bytes()).await?;
            sleep(BEAT).await;
        },
    }
}

async fn drip(stream: &mut TcpStream, first: &[u8], byte: &[u8]) -> std::io::Result<()> {
    stream.write_all(first).await?;
    loop {
        sleep(BEAT).await;
        stream.write_all(byte).await?;
    }
}
