//! [`Recorder`]: a proxy before a stand-in. It records the operation of each request and the access key that
//! signed it, and can leave requests of one operation unanswered. It must not change what it forwards.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The recorded fields of a request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The operation, such as `StartExecution`; for the Security Token Service its `Action`.
    pub(crate) operation: String,
    /// The access key that signed it.
    pub(crate) key: String,
}

#[derive(Default)]
struct State {
    asked: Mutex<Vec<Asked>>,
    /// The operation whose requests are not forwarded.
    held: Mutex<Option<&'static str>>,
}

/// The proxy. Dropping it closes its connections.
pub(crate) struct Recorder {
    pub(crate) url: String,
    state: Arc<State>,
    count: watch::Receiver<usize>,
    _serving: JoinSet<()>,
}

impl Recorder {
    /// Starts a proxy to `http://HOST:PORT`.
    pub(crate) async fn before(upstream: &str) -> Self {
        let upstream = upstream.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<State>::default();
        let (counting, count) = watch::channel(0);
        let mut serving = JoinSet::new();
        let shared = state.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (state, upstream, counting) = (shared.clone(), upstream.clone(), counting.clone());
                // A client that disconnects early is not an error.
                connections.spawn(async move { drop(serve(client, &upstream, &state, &counting).await) });
            }
        });
        Self { url, state, count, _serving: serving }
    }

    /// Stops forwarding requests of this operation; with `None`, forwards all.
    pub(crate) fn hold(&self, operation: Option<&'static str>) {
        *self.state.held.lock() = operation;
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().clone()
    }

    /// Waits until this operation was requested `times` times.
    pub(crate) async fn until(&self, operation: &str, times: usize) {
        let mut count = self.count.clone();
        let seen = || self.asked().iter().filter(|asked| asked.operation == operation).count() >= times;
        let waits = async {
            while !seen() {
                count.changed().await.unwrap();
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(120), waits).await;
        assert!(waited.is_ok(), "{operation} was not asked for {times} times: {:?}", self.asked());
    }
}

/// Serves one request. The client must close the connection afterwards, so that each request has its own.
async fn serve(
    mut client: TcpStream,
    upstream: &str,
    state: &State,
    counting: &watch::Sender<usize>,
) -> io::Result<()> {
    let Some((head, body)) = read(&mut client).await? else { return Ok(()) };
    let header = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let action = || {
        let body = String::from_utf8_lossy(&body).into_owned();
        body.split('&').find_map(|pair| pair.strip_prefix("Action=")).map(str::to_owned)
    };
    let target = header("x-amz-target").and_then(|target| target.rsplit('.').next().map(str::to_owned));
    let operation = target.or_else(action).unwrap_or_default();
    let authorization = header("authorization").unwrap_or_default();
    let credential = authorization.split_once("Credential=").map(|(_, rest)| rest).unwrap_or_default();
    let key = credential.split('/').next().unwrap_or_default().to_owned();
    let held = *state.held.lock() == Some(operation.as_str());
    state.asked.lock().push(Asked { operation, key });
    counting.send_modify(|count| *count += 1);
    if held {
        // Waits until the client disconnects.
        return client.read(&mut [0]).await.map(drop);
    }
    let mut server = TcpStream::connect(upstream).await?;
    let kept = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = kept.flat_map(|line| [line, "\r\n"]).collect();
    request.push_str("connection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    server.write_all(&body).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    client.write_all(&answer).await
}

/// Reads a request: its head without the empty line, and its body.
async fn read(client: &mut TcpStream) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            });
            let mut body = bytes.split_off(end + 4);
            let mut rest = vec![0; length.unwrap_or(0).saturating_sub(body.len())];
            client.read_exact(&mut rest).await?;
            body.extend(rest);
            return Ok(Some((head, body)));
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}
