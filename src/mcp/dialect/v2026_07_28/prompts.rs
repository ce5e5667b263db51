//! `prompts/list` and `prompts/get`. The user is asked for missing arguments, if the config requires it and
//! the client can be asked.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::lifecycle::LIST_CACHE_TTL;
use super::rounds::{self, CallTarget, NextStep};
use super::{StatelessCall, from_wire, to_wire, wire};
use crate::catalog::{Argument, Prompt};
use crate::mcp::features::authorization::Permit;
use crate::mcp::features::prompts;
use crate::mcp::features::prompts::{PromptError, RenderedPrompt};
use crate::mcp::features::resources::read::ReadError;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};

/// `prompts/list`: the prompts that the caller may see.
pub(super) fn list(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = prompts::page(call.bridge, &call.caller.principal, cursor);
    let page = page.ok_or_else(from_wire::invalid_cursor)?;
    let prompts = page.entries.iter().map(|prompt| wire_prompt(prompt)).collect();
    let result = wire::ListPromptsResult { prompts, next_cursor: page.next_cursor };
    Ok(to_wire::cacheable(result, LIST_CACHE_TTL, call.scope()))
}

fn wire_prompt(prompt: &Prompt) -> wire::Prompt<'_> {
    fn argument(argument: &Argument) -> wire::PromptArgument<'_> {
        let Argument { name, title, description, required, .. } = argument;
        let (title, description) = (title.as_deref(), description.as_deref());
        wire::PromptArgument { name, title, description, required: *required }
    }
    wire::Prompt {
        name: &prompt.name,
        title: prompt.title.as_deref(),
        description: prompt.description.as_deref(),
        arguments: prompt.arguments.iter().map(argument).collect(),
    }
}

/// `prompts/get`.
pub(super) async fn get(call: &StatelessCall<'_>, params: &Value) -> Outcome {
    let (name, arguments) = from_wire::prompt(params)?;
    let arguments = match collect_arguments(call, name, arguments, params).await? {
        PromptInput::Complete(arguments) => arguments,
        PromptInput::InputRequired(result) => return Ok(result),
    };
    match prompts::fill(call.bridge, &call.caller.principal, name, arguments).await {
        Ok(RenderedPrompt { description, messages }) => {
            let messages = messages.into_iter().map(|(role, content)| wire::PromptMessage { role, content });
            Ok(to_wire::complete(wire::GetPromptResult { description, messages: messages.collect() }))
        }
        Err(problem) => Err(prompt_error(call, &problem)),
    }
}

/// The arguments of a request, or the result that asks for the missing ones.
enum PromptInput {
    Complete(BTreeMap<String, String>),
    InputRequired(Value),
}

/// Returns the arguments, or the result that asks for missing ones.
async fn collect_arguments(
    call: &StatelessCall<'_>,
    name: &str,
    mut arguments: BTreeMap<String, String>,
    params: &Value,
) -> Result<PromptInput, Error> {
    let catalog = call.bridge.catalog();
    let inquiries =
        Permit::of(&call.caller.principal).prompt(&catalog, name).map_or(&[][..], |prompt| &prompt.inquiries);
    // A client that cannot be asked gets an error that names the missing arguments.
    if inquiries.is_empty() || !call.client().elicitation_form {
        return Ok(PromptInput::Complete(arguments));
    }
    // Forms send empty fields as empty strings.
    arguments.retain(|_, value| !value.is_empty());
    let provided: Map<String, Value> =
        arguments.into_iter().map(|(name, value)| (name, value.into())).collect();
    let fingerprint = call.bridge.seal.digest(&["prompts/get", name, &json!(provided).to_string()]);
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

fn prompt_error(call: &StatelessCall<'_>, problem: &PromptError) -> Error {
    let (code, data) = match problem {
        PromptError::Unknown(_) | PromptError::Arguments(_) => (INVALID_PARAMS, None),
        PromptError::Resource { uri, source } => match source {
            ReadError::NotFound | ReadError::Refused(_) => (INVALID_PARAMS, Some(json!({ "uri": uri }))),
            ReadError::Unavailable(_) => (INTERNAL_ERROR, Some(json!({ "uri": uri }))),
            ReadError::Denied(cause) => return call.fault(cause),
            ReadError::Template(cause) => return call.fault(cause),
            ReadError::Store(cause) => return call.fault(cause),
        },
    };
    Error { code, message: problem.to_string(), data }
}
