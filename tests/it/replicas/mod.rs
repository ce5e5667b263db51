//! Tests for three servers on one PostgreSQL database, as any load balancer may use them: a client continues
//! on one replica what it began on another. Neither the client nor these tests know which replica acts on a
//! job.
//!
//! `tests/run`, section `replicas`, runs the tests of `v2025` and `v2026` again with
//! $TASKBRIDGE_TEST_REPLICAS=3, so that each request goes to another replica. This folder tests what several
//! replicas must ensure at the same time, and most kinds of state that a client keeps.

mod decisions;
mod hints;
mod open;
mod streams;
mod things;

use std::time::Duration;

use serde_json::Value;

use crate::support::{ModernClient, postgres};
use crate::v2025::bench::{Client, Server};

/// Timeout for anything in these tests.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Starts three replicas with `more` in addition to the common config.
async fn start_three(more: &str) -> Server {
    let more = format!("[auth]\nsingle_user = true\n{more}");
    Server::replicated(3, &postgres::shared().url(), &[], &more).await
}

/// Returns a 2025-11-25 client at each replica, all in one session, which the first opened.
async fn sessions(server: &Server) -> [Client; 3] {
    let client = server.client().await.at_url(&server.replicas[0]);
    [
        client.at_url(&server.replicas[0]),
        client.at_url(&server.replicas[1]),
        client.at_url(&server.replicas[2]),
    ]
}

/// Returns a 2026-07-28 client at each replica.
fn modern_clients(server: &Server) -> [ModernClient; 3] {
    std::array::from_fn(|n| ModernClient::with_tasks(&server.replicas[n]))
}

/// Returns the text of a tool's result.
fn result_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
