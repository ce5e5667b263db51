//! Three servers on one PostgreSQL database, as any load balancer may use them: what a client began at one it goes on
//! with at another. Which of them acts on its job is not known to it, nor to these tests.
//!
//! The tests of `v2025` and `v2026` are run once more with $TASKBRIDGE_TEST_REPLICAS=3 (`tests/run`, section `replicas`), so that
//! each request meets another replica. Here stands what is to be held at several replicas at once, and most kinds of things
//! that a client holds.

mod decisions;
mod hints;
mod open;
mod streams;
mod things;

use std::time::Duration;

use serde_json::Value;

use crate::support::{Modern, postgres};
use crate::v2025::bench::{Client, Server};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Three replicas with this beside the common config.
async fn three(more: &str) -> Server {
    let more = format!("[auth]\nsingle_user = true\n{more}");
    Server::replicated(3, &postgres::shared().url(), &[], &more).await
}

/// A client of 2025-11-25 at each replica, all in one session, which the first began.
async fn sessions(server: &Server) -> [Client; 3] {
    let client = server.client().await.at_url(&server.replicas[0]);
    [
        client.at_url(&server.replicas[0]),
        client.at_url(&server.replicas[1]),
        client.at_url(&server.replicas[2]),
    ]
}

/// A client of 2026-07-28 at each replica.
fn moderns(server: &Server) -> [Modern; 3] {
    std::array::from_fn(|n| Modern::with_tasks(&server.replicas[n]))
}

/// The text of a tool's result.
fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
