//! What the config offers beside tools: prompts, and resources with fixed and with patterned addresses. It must not
//! read the config, and must not know which callers may use what.

pub mod address;
mod argument;
mod prompt;
mod resource;
mod template;

pub use address::Pattern;
pub use argument::{Argument, Completion, Values};
pub use prompt::{Message, MessageContent, MessageTemplate, Prompt, Prompts, RenderedMessage};
pub(super) use resource::page;
pub use resource::{
    Annotations, Body, ReadableResource, Resource, ResourceMetadata, ResourceTemplate, Resources, Role,
};
pub use template::Template;
pub(super) use template::environment;
