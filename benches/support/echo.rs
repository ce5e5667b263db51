//! The baseline of the benchmark: a bare axum server that parses the same JSON-RPC messages and answers each
//! method with a constant of the same size. It measures the cost of HTTP, tokio and JSON on this machine at
//! this time. It can write a row before it answers a call, flushed to the disk like the bridge's, which
//! measures the cost of durability alone.

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

/// The lengths of the bridge's responses, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// The response to a call as a task.
    pub(crate) create: usize,
    /// The response to `tasks/get`.
    pub(crate) get: usize,
    /// The response to `tasks/result`.
    pub(crate) result: usize,
}

#[derive(Clone)]
struct Answers {
    create: Bytes,
    get: Bytes,
    result: Bytes,
    rows: Option<Arc<Mutex<Connection>>>,
}

/// Serves until the process is stopped. The arguments are the numbers of [`Sizes`] in their order, and
/// optionally a file for rows.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let [create, get, result, file @ ..] = arguments else { return Err("the echo needs three sizes".into()) };
    let rows = file.first().map(|file| rows(file)).transpose()?;
    let answer = |size: &String| -> Result<Bytes> { Ok(constant(size.parse()?)) };
    let answers = Answers { create: answer(create)?, get: answer(get)?, result: answer(result)?, rows };
    // The same runtime as the bridge's.
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(answers))
}

async fn serve(answers: Answers) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let app = Router::new().route("/mcp", post(respond)).with_state(answers);
    let listener = listener.tap_io(|stream| {
        // A connection without this option would still work.
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

/// Opens a file with the same settings as the bridge's.
fn rows(file: &str) -> Result<Arc<Mutex<Connection>>> {
    let db = Connection::open(file)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", 4000, |_| Ok(()))?;
    db.execute_batch("CREATE TABLE rows (n INTEGER PRIMARY KEY, body BLOB NOT NULL)")?;
    Ok(Arc::new(Mutex::new(db)))
}

/// Writes one row with one commit and one flush, on the thread that answers, which is the cheapest way.
fn keep(db: &Connection, body: &[u8]) -> rusqlite::Result<usize> {
    db.prepare_cached("INSERT INTO rows (body) VALUES (?1)")?.execute([body])
}

/// Returns a result of this number of bytes.
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
