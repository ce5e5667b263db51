//! Tests for replicas without hints: every connection that executes LISTEN is cut off. Changes are noticed
//! later, and nothing is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use taskbridge_sdk::{JobState, Observation};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::{modern_clients, result_text, sessions};
use crate::support::postgres::shared;
use crate::v2025::bench::Server;

/// Forwards connections to the database until one of them executes LISTEN.
async fn serve(listener: TcpListener, listen_attempts: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(shared().address()).await.unwrap();
        let listen_attempts = Arc::clone(&listen_attempts);
        connections.spawn(async move {
            let (mut from_client, mut to_client) = client.split();
            let (mut from_server, mut to_server) = server.split();
            let up = async {
                let mut piece = [0; 16_384];
                while let Ok(length @ 1..) = from_client.read(&mut piece).await {
                    if piece[..length].windows(7).any(|word| word == b"LISTEN ") {
                        listen_attempts.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    if to_server.write_all(&piece[..length]).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = up => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        });
    }
}

/// Starts three replicas that cannot send each other hints. Returns them with the number of attempts to
/// LISTEN, and with the proxy, which must be kept.
async fn start_without_listen() -> (Server, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = shared().url().replace(&shared().address(), &listener.local_addr().unwrap().to_string());
    let listen_attempts = Arc::new(AtomicUsize::new(0));
    let mut proxy = JoinSet::new();
    proxy.spawn(serve(listener, Arc::clone(&listen_attempts)));
    (Server::replicated(3, &url, &[], "[auth]\nsingle_user = true\n").await, listen_attempts, proxy)
}

/// Without LISTEN, status, newer streams and cancelled requests at other replicas are found by polling.
#[tokio::test]
async fn stream_changes_arrive_without_listen() {
    let (server, _, _proxy) = start_without_listen().await;
    let [a, b, c] = sessions(&server).await;
    let mut listening = a.listen().await;
    // A task that ends before the stream polls again.
    let short = b.start("work", json!({"end": {"succeeded": {}}})).await;
    let notification = listening.next("notifications/tasks/status").await;
    assert_eq!(
        (&notification["params"]["taskId"], &notification["params"]["status"]),
        (&json!(short), &json!("completed"))
    );

    let id = b.start("work", json!({})).await;
    let job = server.engine.job(2).await;
    let mut newer = c.listen().await;
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    while newer.next("notifications/tasks/status").await["params"]["statusMessage"] != "it runs" {}
    job.show(Observation::new(JobState::Running).with_message("still"));
    while newer.next("notifications/tasks/status").await["params"]["statusMessage"] != "still" {}
    // The older stream has had the time to send it too. It checks for a newer stream before it sends.
    let last = listening.any_within(Duration::from_secs(2)).await;
    assert_eq!(last, None, "one stream speaks");

    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    b.notify("notifications/cancelled", json!({"requestId": waiting.request["id"]})).await;
    assert_eq!(
        waiting.stream.as_mut().unwrap().any().await,
        None,
        "with the next sign of life at the latest"
    );
}

/// Without LISTEN, requests and subscriptions at all replicas receive the end of the task.
#[tokio::test]
async fn waiting_requests_end_without_listen() {
    let (server, listen_attempts, _proxy) = start_without_listen().await;
    let (clients, [modern, ..]) = (sessions(&server).await, modern_clients(&server));
    let id = clients[0].start("work", json!({})).await;
    let mut subscription = modern.subscribe_to_tasks(std::slice::from_ref(&id)).await.unwrap();
    let waiting = clients.iter().map(|client| client.open("tasks/result", json!({ "taskId": id })));
    let waiting = join_all(waiting).await;
    server.engine.job(1).await.succeed("over");
    for waiting in waiting {
        assert_eq!(result_text(&waiting.end().await.unwrap()), "over");
    }
    while subscription.next().await.unwrap().unwrap()["params"]["status"] != "completed" {}
    assert!(listen_attempts.load(Ordering::Relaxed) >= 3, "each of them has tried to listen");
}
