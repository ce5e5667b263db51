//! [`Resources`]: configured resources, separate from job outputs: fixed texts and files, and templates
//! with parameters in their address. All are kept in memory. It must not know how a generation writes a
//! resource.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use super::address::Pattern;
use super::{Argument, Template};

/// All resources, in the order of their names.
#[derive(Debug, Default)]
pub struct Resources {
    fixed: BTreeMap<String, Arc<Resource>>,
    templates: BTreeMap<String, Arc<ResourceTemplate>>,
    by_uri: HashMap<String, Arc<Resource>>,
}

/// The metadata of a resource, or of all resources of a template.
#[derive(Debug, Default)]
pub struct ResourceMetadata {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// Its description.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: String,
    /// Its audience and priority.
    pub annotations: Annotations,
}

/// Hints about a resource (MCP's `Annotations`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotations {
    /// The intended audience.
    pub audience: Vec<Role>,
    /// The importance, from 0 to 1.
    pub priority: Option<f64>,
    /// When its file was last changed.
    pub last_modified: Option<Timestamp>,
}

/// A participant of a conversation (MCP's `Role`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person.
    #[default]
    User,
    /// The model.
    Assistant,
}

/// A resource with a fixed address.
#[derive(Debug)]
pub struct Resource {
    /// Its metadata.
    pub metadata: ResourceMetadata,
    /// Its address.
    pub uri: String,
    /// Its content.
    pub body: Body,
    /// The tools that it belongs to.
    pub tools: Vec<String>,
}

/// A resource for every address of a pattern.
#[derive(Debug)]
pub struct ResourceTemplate {
    /// The metadata of all of them.
    pub metadata: ResourceMetadata,
    /// Their addresses.
    pub pattern: Pattern,
    /// The parameters of the address, in their order.
    pub parameters: Vec<Argument>,
    /// Their text.
    pub text: Template,
}

/// A resource or a template that serves an address.
#[derive(Clone, Copy, Debug)]
pub enum ReadableResource<'a> {
    /// A resource with a fixed address.
    Fixed(&'a Resource),
    /// A resource of a template.
    Template(&'a ResourceTemplate),
}

impl<'a> ReadableResource<'a> {
    /// Returns the tools that it belongs to, or takes values from.
    pub fn tools(self) -> impl Iterator<Item = &'a str> {
        let (tools, parameters) = match self {
            Self::Fixed(resource) => (&resource.tools[..], &[][..]),
            Self::Template(template) => (&[][..], &template.parameters[..]),
        };
        let parameter_tools = parameters.iter().filter_map(|parameter: &Argument| parameter.tool.as_deref());
        tools.iter().map(String::as_str).chain(parameter_tools)
    }
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Text.
    Text(String),
    /// Binary data.
    Bytes(Vec<u8>),
}

impl Body {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
        };
        size as u64
    }
}

impl Resources {
    /// Creates the collection. Each resource must have a unique name and address.
    pub fn new(fixed: Vec<Resource>, templates: Vec<ResourceTemplate>) -> Self {
        let fixed: BTreeMap<_, _> =
            fixed.into_iter().map(|resource| (resource.metadata.name.clone(), Arc::new(resource))).collect();
        let by_uri = fixed.values().map(|resource| (resource.uri.clone(), Arc::clone(resource))).collect();
        let templates = templates
            .into_iter()
            .map(|template| (template.metadata.name.clone(), Arc::new(template)))
            .collect();
        Self { fixed, templates, by_uri }
    }

    /// Returns the number of resources, including templates.
    pub fn count(&self) -> usize {
        self.fixed.len() + self.templates.len()
    }

    /// Returns up to `limit` resources with a fixed address that `filter` accepts, in the order of their
    /// names, starting after `after`.
    pub fn page(
        &self,
        after: Option<&str>,
        limit: usize,
        filter: impl Fn(&Resource) -> bool,
    ) -> Vec<&Arc<Resource>> {
        page(&self.fixed, after, limit, filter)
    }

    /// Returns the same kind of page for templates.
    pub fn templates_page(
        &self,
        after: Option<&str>,
        limit: usize,
        filter: impl Fn(&ResourceTemplate) -> bool,
    ) -> Vec<&Arc<ResourceTemplate>> {
        page(&self.templates, after, limit, filter)
    }

    /// Returns the resource at this exact address.
    pub fn get(&self, uri: &str) -> Option<&Arc<Resource>> {
        self.by_uri.get(uri)
    }

    /// Returns the template with this pattern.
    pub fn template(&self, pattern: &str) -> Option<&Arc<ResourceTemplate>> {
        self.templates.values().find(|template| template.pattern.text() == pattern)
    }

    /// Returns the resources that belong to a tool.
    pub fn for_tool<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.fixed.values().filter(move |resource| resource.tools.iter().any(|name| name == tool))
    }

    /// Returns the content at an address, with its media type: that of a fixed resource, else of the first
    /// template that matches. `is_allowed` decides which of them the caller may read. `None` if there is
    /// none.
    ///
    /// # Errors
    /// If a template cannot be rendered. That is a fault of the config, not of the caller.
    pub fn read(
        &self,
        uri: &str,
        is_allowed: impl Fn(ReadableResource<'_>) -> bool,
    ) -> Result<Option<(&str, Body)>, String> {
        if let Some(resource) = self.get(uri) {
            let content = || (resource.metadata.mime_type.as_str(), resource.body.clone());
            return Ok(is_allowed(ReadableResource::Fixed(resource)).then(content));
        }
        for template in
            self.templates.values().filter(|template| is_allowed(ReadableResource::Template(template)))
        {
            let Some(values) = template.pattern.read(uri) else { continue };
            if template.parameters.iter().any(|parameter| parameter.check(&values[&parameter.name]).is_err())
            {
                continue;
            }
            let text = template.text.render(&values);
            let text = text.map_err(|error| format!("resources.{}: {error}", template.metadata.name))?;
            return Ok(Some((&template.metadata.mime_type, Body::Text(text))));
        }
        Ok(None)
    }
}

/// Returns up to `limit` entries that `filter` accepts, in the order of their names, starting after `after`.
pub(in crate::catalog) fn page<'a, T>(
    all: &'a BTreeMap<String, Arc<T>>,
    after: Option<&str>,
    limit: usize,
    filter: impl Fn(&T) -> bool,
) -> Vec<&'a Arc<T>> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let all = all.range::<str, _>((start, Bound::Unbounded)).map(|(_, entry)| entry);
    all.filter(|entry| filter(entry)).take(limit).collect()
}
