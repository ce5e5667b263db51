//! Prompts, for every generation: their list page by page, and filling in one of them. A resource that a
//! prompt embeds is read with the caller's permissions. It must not know how a generation writes a prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use taskbridge_sdk::{Content, Embedded};

use super::authorization::Permit;
use super::resources;
use super::resources::list::Page;
use super::resources::{Body, ReadError};
use crate::auth::Principal;
use crate::catalog::{Catalog, MessageContent, Prompt, ReadableResource, Resource, Role};
use crate::mcp::Bridge;
use crate::mcp::wire::cursor;

/// Name of this list in the cursors of `prompts/list`.
const LIST: &str = "prompts/list";

/// A prompt, filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedPrompt {
    /// Description of the prompt.
    pub description: Option<String>,
    /// Its messages, with their roles.
    pub messages: Vec<(Role, Content)>,
}

/// Why a prompt cannot be filled in.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
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

/// Returns the page at a cursor, or the first, of the prompts that this caller may see. Returns `None` if the
/// cursor does not belong to this list.
pub fn page(bridge: &Bridge, caller: &Principal, cursor: Option<&str>) -> Option<Page<Arc<Prompt>>> {
    let after: Option<String> = match cursor {
        None => None,
        Some(text) => Some(cursor::open_for_all(&bridge.seal, LIST, text)?),
    };
    let size = bridge.settings().page_size;
    let (catalog, permit) = (bridge.catalog(), Permit::of(caller));
    let is_visible = |prompt: &Prompt| permit.may_prompt(&catalog, prompt);
    let mut prompts = catalog.prompts().page(after.as_deref(), size + 1, is_visible);
    let has_more = prompts.len() > size;
    prompts.truncate(size);
    let last = prompts.last().filter(|_| has_more).map(|prompt| &prompt.name);
    let next_cursor = last.map(|name| cursor::seal_for_all(&bridge.seal, LIST, name));
    Some(Page { entries: prompts.into_iter().map(Arc::clone).collect(), next_cursor })
}

/// Fills in a prompt.
///
/// # Errors
/// See [`PromptError`].
pub async fn fill(
    bridge: &Bridge,
    caller: &Principal,
    name: &str,
    arguments: BTreeMap<String, String>,
) -> Result<RenderedPrompt, PromptError> {
    let catalog = bridge.catalog();
    let unknown = || PromptError::Unknown(name.to_owned());
    let prompt = Permit::of(caller).prompt(&catalog, name).ok_or_else(unknown)?;
    let mut messages = Vec::new();
    for message in prompt.render(arguments).map_err(PromptError::Arguments)? {
        let block = match message.content {
            MessageContent::Block(block) => block,
            MessageContent::Link(uri) => link(&catalog, caller, uri),
            MessageContent::Embed(uri) => match read_embedded(bridge, caller, &uri).await {
                Ok(resource) => Content::Resource { resource },
                Err(source) => return Err(PromptError::Resource { uri, source }),
            },
        };
        messages.push((message.role, block));
    }
    Ok(RenderedPrompt { description: prompt.description.clone(), messages })
}

async fn read_embedded(bridge: &Bridge, caller: &Principal, uri: &str) -> Result<Embedded, ReadError> {
    let contents = resources::read(bridge, caller, uri).await?;
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
