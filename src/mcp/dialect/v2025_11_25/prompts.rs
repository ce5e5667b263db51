//! `prompts/list` and `prompts/get`.

use serde_json::{Value, json};

use super::resources::has_titles;
use super::{SessionCall, from_wire, to_wire, wire};
use crate::catalog::{Argument, Prompt};
use crate::mcp::features::prompts;
use crate::mcp::features::prompts::{PromptError, RenderedPrompt};
use crate::mcp::features::resources::read::ReadError;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};

/// `prompts/list`.
pub(super) fn list(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let cursor = from_wire::cursor(params)?;
    let page = prompts::page(call.bridge, &call.caller.principal, cursor);
    let page = page.ok_or_else(from_wire::invalid_cursor)?;
    let prompts = page.entries.iter().map(|prompt| wire_prompt(call, prompt)).collect();
    Ok(to_wire::value(&wire::ListPromptsResult { prompts, next_cursor: page.next_cursor }))
}

fn wire_prompt<'a>(call: &SessionCall<'_>, prompt: &'a Prompt) -> wire::Prompt<'a> {
    let titles = has_titles(call.revision());
    let argument = |argument: &'a Argument| wire::PromptArgument {
        name: &argument.name,
        title: argument.title.as_deref().filter(|_| titles),
        description: argument.description.as_deref(),
        required: argument.required,
    };
    wire::Prompt {
        name: &prompt.name,
        title: prompt.title.as_deref().filter(|_| titles),
        description: prompt.description.as_deref(),
        arguments: prompt.arguments.iter().map(argument).collect(),
    }
}

/// `prompts/get`.
pub(super) async fn get(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let (name, arguments) = from_wire::prompt(params)?;
    match prompts::fill(call.bridge, &call.caller.principal, name, arguments).await {
        Ok(RenderedPrompt { description, messages }) => {
            let messages = messages.into_iter().map(|(role, content)| wire::PromptMessage {
                role,
                content: to_wire::block(call.revision(), content),
            });
            Ok(to_wire::value(&wire::GetPromptResult { description, messages: messages.collect() }))
        }
        Err(problem) => Err(prompt_error(call, &problem)),
    }
}

fn prompt_error(call: &SessionCall<'_>, problem: &PromptError) -> Error {
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
