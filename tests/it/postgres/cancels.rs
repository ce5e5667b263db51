//! Tests with a server that is killed during a cancellation: after the cancellation was committed and before
//! the engine received it, or after the engine received it and before that was written. The next server
//! continues, and the client only sees that its task is cancelled.

use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::program::{Setup, assert_stops, setup, wait_for};
use crate::support::Client;
use crate::support::postgres::shared;

/// The point at which a cancellation is cut off.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The engine never receives it.
    Request,
    /// The engine executes it, and its reply is lost.
    Reply,
}

/// Forwards requests to the engine, except that it cuts off cancellations; counts the cancellations so far.
async fn serve(listener: TcpListener, engine: String, cut: Cut, cancel_sender: watch::Sender<usize>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(forward(client, engine.clone(), cut, cancel_sender.clone()));
    }
}

async fn forward(client: TcpStream, engine: String, cut: Cut, cancel_sender: watch::Sender<usize>) {
    let (mut client, mut engine) =
        (BufReader::new(client), BufReader::new(TcpStream::connect(engine).await.unwrap()));
    loop {
        let (mut request, mut reply) = (String::new(), String::new());
        if client.read_line(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
        let is_cancel = request.contains("\"do\":\"cancel\"");
        if !is_cancel || cut == Cut::Reply {
            engine.write_all(request.as_bytes()).await.unwrap();
            engine.read_line(&mut reply).await.unwrap();
        }
        if is_cancel {
            cancel_sender.send_modify(|count| *count += 1);
            // The server waits for the reply until it is killed.
            std::future::pending::<()>().await;
        }
        if client.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn kill_during_cancel(cut: Cut) {
    let Setup { dir, engine, schema } = setup(shared());
    let direct = std::fs::read_to_string(dir.config()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxied_config = direct.replace(&engine.address, &listener.local_addr().unwrap().to_string());
    let (cancel_sender, mut cancel_receiver) = watch::channel(0);
    let mut proxy = JoinSet::new();
    proxy.spawn(serve(listener, engine.address.clone(), cut, cancel_sender));

    std::fs::write(dir.config(), proxied_config).unwrap();
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("job", json!({"text": "never", "delay_ms": 600_000})).await.unwrap();
    let database = shared().client(&schema).await;
    let count = async |condition: &str| {
        let sql = format!("SELECT count(*) FROM tasks WHERE {condition}");
        database.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    wait_for("the job runs", async || count("opened_at IS NOT NULL").await == 1).await;
    assert_eq!(client.cancel(&task).await.unwrap()["status"], "cancelled");
    cancel_receiver.wait_for(|count| *count > 0).await.unwrap();
    server.kill();
    assert_eq!(count("NOT closed AND due_at IS NOT NULL").await, 1, "the wish is in the row");

    std::fs::write(dir.config(), direct).unwrap();
    let server = dir.serve();
    let client = client.at(server.url());
    assert_eq!(client.get(&task).await.unwrap()["status"], "cancelled");
    // The job would run for ten minutes: it ends because it is cancelled.
    wait_for("the end of the job is seen", async || count("closed").await == 1).await;
    assert_eq!(client.get(&task).await.unwrap()["status"], "cancelled");
    assert_eq!(engine.started().len(), 1);
    assert_stops(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_survives_kill_before_request() {
    kill_during_cancel(Cut::Request).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_survives_kill_after_request() {
    kill_during_cancel(Cut::Reply).await;
}
