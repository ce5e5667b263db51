//! [`Prompt`]: messages with arguments that a user fills in. It must not know which resource is at an
//! address that a message names: that depends on the caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use taskbridge_sdk::Content;

use super::resource::page;
use super::{Argument, Role, Template, address};
use crate::catalog::Inquiry;

/// All prompts, in the order of their names.
#[derive(Debug, Default)]
pub struct Prompts(BTreeMap<String, Arc<Prompt>>);

/// One prompt.
#[derive(Debug)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// Its purpose.
    pub description: Option<String>,
    /// Its arguments, in the order of the config.
    pub arguments: Vec<Argument>,
    /// The questions for omitted arguments, if the client can be asked.
    pub inquiries: Vec<Inquiry>,
    /// Its messages.
    pub messages: Vec<Message>,
}

/// A message of a prompt.
#[derive(Debug)]
pub struct Message {
    /// The role of the speaker.
    pub role: Role,
    /// The content.
    pub content: MessageTemplate,
}

/// The content of a message.
#[derive(Debug)]
pub enum MessageTemplate {
    /// A text.
    Text(Template),
    /// A picture or a sound.
    Block(Content),
    /// The embedded resource at this address.
    Embed(Template),
    /// A link to the resource at this address.
    Link(Template),
}

/// A message with its arguments filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedMessage {
    /// The role of the speaker.
    pub role: Role,
    /// The content.
    pub content: MessageContent,
}

/// The content of a filled message.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageContent {
    /// A content block.
    Block(Content),
    /// The embedded resource at this address.
    Embed(String),
    /// A link to the resource at this address.
    Link(String),
}

impl Prompts {
    /// Creates the collection. Each prompt must have a unique name.
    pub fn new(prompts: Vec<Prompt>) -> Self {
        Self(prompts.into_iter().map(|prompt| (prompt.name.clone(), Arc::new(prompt))).collect())
    }

    /// Returns the number of prompts.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the prompt of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.0.get(name)
    }

    /// Returns up to `limit` prompts that `filter` accepts, in the order of their names, starting after
    /// `after`.
    pub fn page(
        &self,
        after: Option<&str>,
        limit: usize,
        filter: impl Fn(&Prompt) -> bool,
    ) -> Vec<&Arc<Prompt>> {
        page(&self.0, after, limit, filter)
    }
}

impl Prompt {
    /// Returns the argument of this name.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    /// Renders the messages with these arguments. An empty value counts as absent, because forms send empty
    /// fields that way.
    ///
    /// # Errors
    /// If arguments are invalid; the text lists each fault with the argument's name.
    pub fn render(&self, mut values: BTreeMap<String, String>) -> Result<Vec<RenderedMessage>, String> {
        values.retain(|_, value| !value.is_empty());
        let mut faults = Vec::new();
        if let Some(name) = values.keys().find(|name| self.argument(name).is_none()) {
            let names: Vec<_> =
                self.arguments.iter().map(|argument| format!("`{}`", argument.name)).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            faults.push(format!("`{name}` is unknown (known: {names})"));
        }
        for argument in &self.arguments {
            match (values.get(&argument.name), &argument.default) {
                (Some(value), _) => faults.extend(argument.check(value).err()),
                (None, Some(default)) => {
                    values.insert(argument.name.clone(), default.clone());
                }
                (None, None) if argument.required => faults.push(format!("`{}` is missing", argument.name)),
                (None, None) => {}
            }
        }
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        self.messages.iter().map(|message| message.render(&values)).collect()
    }
}

impl Message {
    fn render(&self, values: &BTreeMap<String, String>) -> Result<RenderedMessage, String> {
        let render_uri = |template: &Template| {
            let uri = template.render(values)?;
            address::check(&uri).map(|()| uri)
        };
        let content = match &self.content {
            MessageTemplate::Text(template) => MessageContent::Block(Content::text(template.render(values)?)),
            MessageTemplate::Block(block) => MessageContent::Block(block.clone()),
            MessageTemplate::Embed(template) => MessageContent::Embed(render_uri(template)?),
            MessageTemplate::Link(template) => MessageContent::Link(render_uri(template)?),
        };
        Ok(RenderedMessage { role: self.role, content })
    }
}
