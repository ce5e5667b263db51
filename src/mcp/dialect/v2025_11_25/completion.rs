//! `completion/complete`.

use serde_json::Value;

use super::{SessionCall, from_wire, to_wire, wire};
use crate::mcp::features::completion;
use crate::mcp::features::completion::CompletionError;
use crate::mcp::wire::jsonrpc::Outcome;

/// `completion/complete`.
pub(super) async fn complete(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let from_wire::CompleteParams { reference, argument, prefix, context_arguments } =
        from_wire::complete_params(params)?;
    let caller = &call.caller.principal;
    let result =
        completion::complete(call.bridge, caller, reference, argument, prefix, &context_arguments).await;
    let result = result.map_err(|error| match error {
        CompletionError::Unknown(message) => from_wire::invalid(message),
        CompletionError::Store(error) => call.fault(&error),
    })?;
    let (total, has_more) = (result.total, result.has_more());
    let completion = wire::Completion { values: result.values, total, has_more };
    Ok(to_wire::value(&wire::CompleteResult { completion }))
}
