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
pub(crate) struct RecordedRequest {
    /// The operation, such as `StartExecution`; for the Security Token Service its `Action`.
    pub(crate) operation: String,
    /// The access key that signed it.
    pub(crate) key: String,
}

#[derive(Default)]
struct State {
    requests: Mutex<Vec<RecordedRequest>>,
    /// The operation whose requests are not forwarded.
    blocked_operation: Mutex<Option<&'static str>>,
}

/// The proxy. Dropping it closes its connections.
pub(crate) struct Recorder {
    pub(crate) url: String,
    state: Arc<State>,
    count: watch::Receiver<usize>,
    _server_tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts a proxy to `http://HOST:PORT`.
    pub(crate) async fn start(upstream: &str) -> Self {
        let upstream = upstream.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<State>::default();
        let (count_sender, count) = watch::channel(0);
        let mut server_tasks = JoinSet::new();
        let shared = state.clone();
        server_tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let (state, upstream, count_sender) =
                    (shared.clone(), upstream.clone(), count_sender.clone());
                // A client that disconnects early is not an error.
                connections.spawn(async move { drop(serve(client, &upstream, &state, &count_sender).await) });
            }
        });
        Self { url, state, count, _server_tasks: server_tasks }
    }

    /// Stops forwarding requests of this operation; with `None`, forwards all.
    pub(crate) fn block(&self, operation: Option<&'static str>) {
        *self.state.blocked_operation.lock() = operation;
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.state.requests.lock().clone()
    }

    /// Waits until this operation was requested `times` times.
    pub(crate) async fn wait_for(&self, operation: &str, times: usize) {
        let mut count = self.count.clone();
        let reached =
            || self.requests().iter().filter(|request| request.operation == operation).count() >= times;
        let wait = async {
            while !reached() {
                count.changed().await.unwrap();
            }
        };
        let result = tokio::time::timeout(std::time::Duration::from_secs(120), wait).await;
        assert!(result.is_ok(), "{operation} was not asked for {times} times: {:?}", self.requests());
    }
}

/// Serves one request. The client must close the connection afterwards, so that each request has its own.
async fn serve(
    mut client: TcpStream,
    upstream: &str,
    state: &State,
    count_sender: &watch::Sender<usize>,
) -> io::Result<()> {
    let Some((head, body)) = read(&mut client).await? else { return Ok(()) };
    let header = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (header_name, value) = line.split_once(':')?;
            header_name.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
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
    let blocked = *state.blocked_operation.lock() == Some(operation.as_str());
    state.requests.lock().push(RecordedRequest { operation, key });
    count_sender.send_modify(|count| *count += 1);
    if blocked {
        // Waits until the client disconnects.
        return client.read(&mut [0]).await.map(drop);
    }
    let mut server = TcpStream::connect(upstream).await?;
    let headers = head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let mut request: String = headers.flat_map(|line| [line, "\r\n"]).collect();
    request.push_str("connection: close\r\n\r\n");
    server.write_all(request.as_bytes()).await?;
    server.write_all(&body).await?;
    let mut response = Vec::new();
    server.read_to_end(&mut response).await?;
    client.write_all(&response).await
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
