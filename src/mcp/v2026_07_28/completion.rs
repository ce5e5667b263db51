//! `completion/complete`.

use serde_json::Value;

use super::{StatelessCall, from_wire, to_wire, wire};
use crate::mcp::completion::{self, CompletionError};
use crate::mcp::jsonrpc::Outcome;

/// `completion/complete`.
pub(super) async fn complete(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let from_wire::Completing { of, argument, typed, others } = from_wire::completing(params)?;
    let caller = &call.asker.principal;
    let found = completion::complete(call.bridge, caller, of, argument, typed, &others).await;
    let found = found.map_err(|error| match error {
        CompletionError::Unknown(words) => from_wire::invalid(words),
        CompletionError::Store(error) => call.fault(&error),
    })?;
    let (total, has_more) = (found.total, found.has_more());
    let completion = wire::Completion { values: found.values, total, has_more };
    Ok(to_wire::complete(wire::CompleteResult { completion }))
}
