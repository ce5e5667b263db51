//! [`Prompt`]: messages with places for what a user fills in. Which resource lies at an address that a message names
//! is not known here: it is left to whoever knows the caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use taskbridge_sdk::Content;

use super::resource::page;
use super::{Argument, Inquiry, Role, Template, address};

/// All of them, in the order of their names.
#[derive(Debug, Default)]
pub struct Prompts(BTreeMap<String, Arc<Prompt>>);

/// One prompt.
#[derive(Debug)]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it takes, in the order of the config.
    pub arguments: Vec<Argument>,
    /// What is asked of a user who left an argument out, where the client can be asked.
    pub inquiries: Vec<Inquiry>,
    /// What it says.
    pub messages: Vec<Message>,
}

/// A message of a prompt.
#[derive(Debug)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub says: Says,
}

/// What a message says.
#[derive(Debug)]
pub enum Says {
    /// A text.
    Text(Template),
    /// A picture or a sound.
    Block(Content),
    /// The resource at this address, carried along.
    Embed(Template),
    /// A link to the resource at this address.
    Link(Template),
}

/// A message, filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Filled {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub part: Part,
}

/// What a filled message says.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// This.
    Block(Content),
    /// The resource at this address.
    Embed(String),
    /// A link to the resource at this address.
    Link(String),
}

impl Prompts {
    /// These, each of which has a name of its own.
    pub fn new(prompts: Vec<Prompt>) -> Self {
        Self(prompts.into_iter().map(|prompt| (prompt.name.clone(), Arc::new(prompt))).collect())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The prompt of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Prompt>> {
        self.0.get(name)
    }

    /// Up to `limit` of these in the order of their names, after this name.
    pub fn page(&self, after: Option<&str>, limit: usize, of: impl Fn(&Prompt) -> bool) -> Vec<&Arc<Prompt>> {
        page(&self.0, after, limit, of)
    }
}

impl Prompt {
    /// The argument of this name.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|argument| argument.name == name)
    }

    /// The messages with these arguments. An argument that is given as an empty text counts as not given: forms send
    /// their empty fields so.
    ///
    /// # Errors
    /// What does not fit: each fault, with the argument's name.
    pub fn fill(&self, mut given: BTreeMap<String, String>) -> Result<Vec<Filled>, String> {
        given.retain(|_, value| !value.is_empty());
        let mut faults = Vec::new();
        if let Some(name) = given.keys().find(|name| self.argument(name).is_none()) {
            let known: Vec<_> = self.arguments.iter().map(|known| format!("`{}`", known.name)).collect();
            let known = if known.is_empty() { "it takes none".to_owned() } else { known.join(", ") };
            faults.push(format!("`{name}` is unknown (known: {known})"));
        }
        for argument in &self.arguments {
            match (given.get(&argument.name), &argument.default) {
                (Some(value), _) => faults.extend(argument.check(value).err()),
                (None, Some(default)) => {
                    given.insert(argument.name.clone(), default.clone());
                }
                (None, None) if argument.required => faults.push(format!("`{}` is missing", argument.name)),
                (None, None) => {}
            }
        }
        if !faults.is_empty() {
            return Err(faults.join("; "));
        }
        self.messages.iter().map(|message| message.fill(&given)).collect()
    }
}

impl Message {
    fn fill(&self, given: &BTreeMap<String, String>) -> Result<Filled, String> {
        let at = |template: &Template| {
            let uri = template.render(given)?;
            address::check(&uri).map(|()| uri)
        };
        let part = match &self.says {
            Says::Text(template) => Part::Block(Content::text(template.render(given)?)),
            Says::Block(block) => Part::Block(block.clone()),
            Says::Embed(template) => Part::Embed(at(template)?),
            Says::Link(template) => Part::Link(at(template)?),
        };
        Ok(Filled { role: self.role, part })
    }
}
