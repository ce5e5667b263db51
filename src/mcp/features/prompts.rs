//! Prompts, for every generation: their list page by page, and filling in one of them. A resource that a
//! prompt embeds is read with the caller's permissions. It must not know how a generation writes a prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use taskbridge_sdk::{Content, Embedded};

use super::authorization::Permit;
use super::dialect::{Cache, Dialect, PromptInput};
use super::resources;
use super::resources::list::Page;
use super::resources::{Body, EngineReads, ReadError};
use super::results::internal_error::internal_error;
use super::tools::list::LIST_CACHE_TTL;
use crate::auth::Principal;
use crate::catalog::{Argument, Catalog, MessageContent, Prompt, ReadableResource, Resource, Role};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::wire::jsonrpc::{Error, INTERNAL_ERROR, INVALID_PARAMS, Outcome};
use crate::mcp::wire::{cursor, params, types};

/// Name of this list in the cursors of `prompts/list`.
const LIST: &str = "prompts/list";

/// A prompt, filled in.
#[derive(Clone, Debug, PartialEq)]
struct RenderedPrompt {
    /// Description of the prompt.
    description: Option<String>,
    /// Its messages, with their roles.
    messages: Vec<(Role, Content)>,
}

/// Why a prompt cannot be filled in.
#[derive(Debug, thiserror::Error)]
enum PromptError {
    /// There is no prompt of this name, or the caller may not see it.
    #[error("Unknown prompt: {0:?}. prompts/list has the prompts there are.")]
    Unknown(String),
    /// The arguments are invalid; the text names them and the reason.
    #[error("the arguments do not fit: {0}")]
    Arguments(String),
    /// A resource that the prompt embeds cannot be read.
    #[error("the prompt carries {uri} along: {source}")]
    Resource {
        /// Address of the resource.
        uri: String,
        /// The reason.
        source: ReadError,
    },
}

/// `prompts/list`: the prompts that the caller may see.
///
/// # Errors
/// If the cursor is invalid.
pub fn list(request: &dyn Dialect, params: &Value) -> Outcome {
    let cursor = params::cursor(params)?;
    let page = page(request.context(), request.principal(), cursor);
    let page = page.ok_or_else(params::invalid_cursor)?;
    let titles = request.has_titles();
    let prompts = page.entries.iter().map(|prompt| write_prompt(titles, prompt)).collect();
    let body = types::page("prompts", prompts, page.next_cursor);
    let is_public = request.context().catalog().is_open();
    Ok(request.result(body, Some(Cache { ttl: LIST_CACHE_TTL, is_public })))
}

/// `Prompt`.
fn write_prompt(titles: bool, prompt: &Prompt) -> Value {
    let argument = |argument: &Argument| {
        types::without_nulls(json!({
            "name": argument.name,
            "title": argument.title.as_ref().filter(|_| titles),
            "description": argument.description,
            "required": argument.required,
        }))
    };
    let arguments: Vec<Value> = prompt.arguments.iter().map(argument).collect();
    types::without_nulls(json!({
        "name": prompt.name,
        "title": prompt.title.as_ref().filter(|_| titles),
        "description": prompt.description,
        "arguments": types::non_empty(&arguments),
    }))
}

/// `prompts/get`. The client may first be asked for missing arguments ([`Dialect::prompt_input`]).
///
/// # Errors
/// If the prompt cannot be rendered.
pub async fn get(request: &dyn Dialect, params: &Value) -> Outcome {
    let (name, arguments) = params::prompt(params)?;
    let arguments = match request.prompt_input(name, arguments, params).await? {
        PromptInput::Complete(arguments) => arguments,
        PromptInput::InputRequired(result) => return Ok(result),
    };
    let rendered = render(request.context(), request.reads(), request.principal(), name, arguments).await;
    let RenderedPrompt { description, messages } = rendered.map_err(|problem| prompt_error(&problem))?;
    let messages = messages
        .into_iter()
        .map(|(role, content)| json!({ "role": role, "content": request.content(content) }));
    let messages: Vec<Value> = messages.collect();
    let mut body = types::without_nulls(json!({ "description": description }));
    body["messages"] = Value::Array(messages);
    Ok(request.result(body, None))
}

fn prompt_error(problem: &PromptError) -> Error {
    let (code, data) = match problem {
        PromptError::Unknown(_) | PromptError::Arguments(_) => (INVALID_PARAMS, None),
        PromptError::Resource { uri, source } => match source {
            ReadError::NotFound | ReadError::Refused(_) => (INVALID_PARAMS, Some(json!({ "uri": uri }))),
            ReadError::Unavailable(_) => (INTERNAL_ERROR, Some(json!({ "uri": uri }))),
            ReadError::Denied(cause) => return internal_error(cause),
            ReadError::Template(cause) => return internal_error(cause),
            ReadError::Store(cause) => return internal_error(cause),
        },
    };
    Error { code, message: problem.to_string(), data }
}

/// Returns the page at a cursor, or the first, of the prompts that this caller may see. Returns `None` if the
/// cursor does not belong to this list.
fn page(context: &FeatureContext, caller: &Principal, cursor: Option<&str>) -> Option<Page<Arc<Prompt>>> {
    let after: Option<String> = match cursor {
        None => None,
        Some(text) => Some(cursor::open_for_all(&context.seal, LIST, text)?),
    };
    let size = context.settings().page_size;
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    let is_visible = |prompt: &Prompt| permit.may_prompt(&catalog, prompt);
    let mut prompts = catalog.prompts().page(after.as_deref(), size + 1, is_visible);
    let has_more = prompts.len() > size;
    prompts.truncate(size);
    let last = prompts.last().filter(|_| has_more).map(|prompt| &prompt.name);
    let next_cursor = last.map(|name| cursor::seal_for_all(&context.seal, LIST, name));
    Some(Page { entries: prompts.into_iter().map(Arc::clone).collect(), next_cursor })
}

/// Fills in a prompt.
///
/// # Errors
/// See [`PromptError`].
async fn render(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    name: &str,
    arguments: BTreeMap<String, String>,
) -> Result<RenderedPrompt, PromptError> {
    let catalog = context.catalog();
    let unknown = || PromptError::Unknown(name.to_owned());
    let prompt = Permit::of(caller).prompt(&catalog, name).ok_or_else(unknown)?;
    let mut messages = Vec::new();
    for message in prompt.render(arguments).map_err(PromptError::Arguments)? {
        let block = match message.content {
            MessageContent::Block(block) => block,
            MessageContent::Link(uri) => link(&catalog, caller, uri),
            MessageContent::Embed(uri) => match read_embedded(context, reads, caller, &uri).await {
                Ok(resource) => Content::Resource { resource },
                Err(source) => return Err(PromptError::Resource { uri, source }),
            },
        };
        messages.push((message.role, block));
    }
    Ok(RenderedPrompt { description: prompt.description.clone(), messages })
}

async fn read_embedded(
    context: &FeatureContext,
    reads: &EngineReads,
    caller: &Principal,
    uri: &str,
) -> Result<Embedded, ReadError> {
    let contents = resources::read(context, reads, caller, uri).await?;
    let (text, blob) = match contents.body {
        Body::Text(text) => (Some(text), None),
        Body::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
    };
    Ok(Embedded { uri: uri.to_owned(), mime_type: contents.mime_type, text, blob })
}

fn link(catalog: &Catalog, caller: &Principal, uri: String) -> Content {
    let may_read =
        |resource: &&Arc<Resource>| Permit::of(caller).may_read(catalog, ReadableResource::Fixed(resource));
    match catalog.resources().get(&uri).filter(may_read) {
        Some(resource) => resources::link_to(resource),
        None => {
            Content::ResourceLink { name: uri.clone(), uri, description: None, mime_type: None, size: None }
        }
    }
}
