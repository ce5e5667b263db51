//! What the bridge is held against: a bare axum server that parses the same JSON-RPC messages and answers each method
//! with a constant of the same size. It is what HTTP, tokio and JSON cost on this machine in this minute. It can write a
//! row before it answers a call, flushed to the disk as the bridge's are: what durability costs that does nothing else.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::Value;
use tokio::net::TcpListener;

use super::Result;

/// How many bytes the bridge's answers have.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// To a call as a task.
    pub(crate) create: usize,
    /// To `tasks/get`.
    pub(crate) get: usize,
    /// To `tasks/result`.
    pub(crate) result: usize,
}

#[derive(Clone)]
struct Answers {
    create: Bytes,
    get: Bytes,
    result: Bytes,
    rows: Option<Arc<Mutex<Connection>>>,
}

/// Serves until the process is stopped. The arguments are the numbers of [`Sizes`] in their order, and a file for rows if
/// any are to be written.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [create, get, result, file @ ..] = arguments else { return Err("the echo needs three sizes".into()) };
    let rows = file.first().map(|file| rows(file)).transpose()?;
    let answer = |size: &String| -> Result<Bytes> { Ok(constant(size.parse()?)) };
    let answers = Answers { create: answer(create)?, get: answer(get)?, result: answer(result)?, rows };
    // As the bridge has it.
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(answers))
}

async fn serve(answers: Answers) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let app = Router::new().route("/mcp", post(respond)).with_state(answers);
    let listener = listener.tap_io(|stream| {
        // A connection without it would still work.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app).await?;
    Ok(())
}

async fn respond(State(answers): State<Answers>, Json(message): Json<Value>) -> Response {
    let json = (header::CONTENT_TYPE, "application/json");
    let body = match message["method"].as_str() {
        Some("tools/call") => {
            if let Some(rows) = &answers.rows
                && keep(&rows.lock(), &answers.create).is_err()
            {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            answers.create
        }
        Some("tasks/get") => answers.get,
        Some("tasks/result") => answers.result,
        Some("initialize") => {
            return ([json, (header::HeaderName::from_static("mcp-session-id"), "none")], "{}")
                .into_response();
        }
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    ([json], body).into_response()
}

/// A file as the bridge has its own.
fn rows(file: &str) -> Result<Arc<Mutex<Connection>>> {
    let db = Connection::open(file)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", 4000, |_| Ok(()))?;
    db.execute_batch("CREATE TABLE rows (n INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    Ok(Arc::new(Mutex::new(db)))
}

/// One row, one commit, one flush: on the thread that answers, since nothing costs less.
fn keep(db: &Connection, body: &[u8]) -> rusqlite::Result<usize> {
    db.prepare_cached("INSERT INTO rows (body) VALUES (?1)")?.execute([body])
}

/// A result of so many bytes.
fn constant(size: usize) -> Bytes {
    let frame = |filler: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"taskId":"{}","status":"completed","filler":"{filler}"}}}}"#,
            "a".repeat(32)
        )
    };
    let missing = size.saturating_sub(frame("").len());
    frame(&"x".repeat(missing)).into()
}
