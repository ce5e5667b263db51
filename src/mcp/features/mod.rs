//! What clients can do, written once for all generations: tools, tasks, resources, prompts, completion and
//! the companion tools, with the authorization of callers. [`serve`] handles the methods that all generations
//! have. A feature must not know how a generation writes a result, or which transport carries it.

pub mod apps;
pub mod authorization;
pub mod companions;
pub mod completion;
pub mod context;
pub mod dialect;
pub mod instructions;
pub mod offers;
pub mod prompts;
pub mod request;
pub mod resources;
pub mod results;
pub mod tasks;
pub mod tools;

use std::sync::Arc;

use serde_json::Value;
use tracing::Instrument as _;

use self::context::FeatureContext;
use self::dialect::Dialect;
use crate::audit::RequestContext;
use crate::mcp::session::message_sink::MessageSink;
use crate::mcp::wire::jsonrpc::{Id, Outcome, Payload, Request};
use crate::metrics::Metrics;

/// Handles a request, with its span, its metric and its audit context. With `on_failure = "refuse"`, the
/// answer waits until the audit log is written.
pub async fn observe<F: Future<Output = Outcome<Payload>>>(
    (features, metrics): (&FeatureContext, &Metrics),
    context: Arc<RequestContext>,
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Outcome<Payload> {
    let span = request::spans::request_span(&request.method, &request.params);
    let metric = metrics.request(&request.method);
    let outcome = context.scope(answer(request).instrument(span)).await;
    let outcome = features.wait_for_audit(&context).await.and(outcome);
    metric.finish(outcome.is_ok());
    outcome
}

/// Answers a request whose method all generations have. Returns `None` for any other method.
pub async fn serve(
    request: &dyn Dialect,
    (id, method): (&Id, &str),
    params: Value,
    sink: &dyn MessageSink,
) -> Option<Outcome<Payload>> {
    let outcome = match method {
        "tools/list" => return Some(tools::list::serve(request, &params).map(Payload::Shared)),
        "tools/call" => tools::call::call(request, id, params, sink).await,
        "resources/list" => resources::serve::list(request, &params).await,
        "resources/templates/list" => resources::serve::templates(request, &params),
        "resources/read" => match apps::read(request, &params) {
            Some(view) => view,
            None => resources::serve::read(request, &params).await,
        },
        "prompts/list" => prompts::list(request, &params),
        "prompts/get" => prompts::get(request, &params).await,
        "completion/complete" => completion::serve(request, &params).await,
        _ => return None,
    };
    Some(outcome.map(Payload::Value))
}
