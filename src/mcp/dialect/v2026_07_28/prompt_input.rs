//! Asks the user for missing arguments of a prompt, if the config requires it and the client can be asked.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::rounds::{self, CallTarget, NextStep};
use super::{StatelessCall, from_wire};
use crate::mcp::features::authorization::Permit;
use crate::mcp::features::dialect::{Dialect as _, PromptInput};
use crate::mcp::wire::jsonrpc::Error;

/// Returns the arguments, or the result that asks for missing ones.
///
/// # Errors
/// If the user declined, or the state of an earlier round is invalid.
pub(super) async fn collect(
    call: &StatelessCall<'_>,
    name: &str,
    mut arguments: BTreeMap<String, String>,
    params: &Value,
) -> Result<PromptInput, Error> {
    let catalog = call.bridge.context.catalog();
    let prompt = Permit::of(call.principal()).prompt(&catalog, name);
    let inquiries = prompt.map_or(&[][..], |prompt| &prompt.inquiries);
    // A client that cannot be asked gets an error that names the missing arguments.
    if inquiries.is_empty() || !call.client().elicitation_form {
        return Ok(PromptInput::Complete(arguments));
    }
    // Forms send empty fields as empty strings.
    arguments.retain(|_, value| !value.is_empty());
    let provided: Map<String, Value> =
        arguments.into_iter().map(|(name, value)| (name, value.into())).collect();
    let fingerprint = call.bridge.context.seal.digest(&["prompts/get", name, &json!(provided).to_string()]);
    let target = CallTarget { name, fingerprint, inquiries };
    match rounds::next_step(call, &target, None, &provided, &from_wire::retry(params)?).await? {
        NextStep::Ask(result) => Ok(PromptInput::InputRequired(result)),
        NextStep::Refused(reason) => Err(from_wire::invalid(reason)),
        NextStep::Proceed(input) => {
            let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
            Ok(PromptInput::Complete(input.arguments.into_iter().filter_map(text).collect()))
        }
    }
}
