//! What clients are offered: the tools that they may call, and how a call becomes a row; resources to read, and
//! prompts. It must not know a protocol, a store or the config file: the config hands it [`Definition`]s.

pub mod address;
mod argument;
mod complexity;
mod confirm;
mod definition;
mod faults;
mod files;
mod inquiry;
mod mirrored;
mod prepare;
mod prompt;
mod resource;
mod schema;
mod sealed;
mod template;

pub use address::Pattern;
pub use argument::{Argument, Completion, Values};
pub use confirm::Confirm;
pub use definition::{COMPANIONS, ConfirmDefault, Definition, OnAbandon, TaskSupport, TermsRule};
pub use files::FileRule;
pub use inquiry::{Inquiry, Wants};
pub use mirrored::{KEYWORD as HEADER_KEYWORD, Mirrored, all as mirrored};
pub use prepare::{Consent, MAX_KEY, Refused, Request, is_somebody, on_behalf_of};
pub use prompt::{Filled, Message, Part, Prompt, Prompts, Says};
pub use resource::{Annotations, Body, Card, Readable, Resource, ResourceTemplate, Resources, Role};
pub use schema::Schema;
pub use template::Template;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use taskbridge_sdk::Output;

use crate::access::{Rule, Rules};
use crate::current::Current;
use crate::offload::offload;
use crate::seal::Seal;
use crate::tasks::slots::{OF_OWNER, OF_OWNER_BY_TOOL};
use crate::tasks::store::SlotLimit;
use crate::tasks::task::Spec;
use crate::tasks::tools::{Opened, Tools};

/// The most jobs that may hold a slot of a tool, a backend or a group that is not in the config any more.
const LIMIT_OF_WHAT_IS_GONE: u32 = 1;

/// All that is offered: tools in the order of their names, resources and prompts.
#[derive(Debug)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<Tool>>,
    resources: Arc<Resources>,
    prompts: Arc<Prompts>,
    limits: BTreeMap<String, Option<u32>>,
    access: Rules,
    /// The tools whose tasks are not for their owners alone.
    shared: Vec<(String, Rules)>,
    seal: Seal,
}

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// What it does, for models.
    pub description: Option<String>,
    /// Hints, as MCP has them (`ToolAnnotations`): an object, or null if there are none.
    pub annotations: Value,
    /// What it takes: a JSON Schema 2020-12 object schema.
    pub input_schema: Value,
    /// What it gives, where it is declared.
    pub output_schema: Option<Value>,
    /// Whether it can run as a task, and whether it must.
    pub task_support: TaskSupport,
    /// The most bytes of raw output that a result shows, if the config says.
    pub result_bytes: Option<usize>,
    /// True if a model may answer the job's questions.
    pub answer_by_model: bool,
    /// What becomes of the job of a plain call that goes away before it is answered.
    pub on_abandon: OnAbandon,
    /// The parameters that clients repeat in HTTP headers.
    pub mirrored: Vec<Mirrored>,
    /// Who may do what with it and its tasks.
    pub access: Rules,
    definition: Definition,
    seal: Seal,
}

impl Catalog {
    /// A catalog of these tools. `limits` are the most jobs that may hold each slot at once, with `None` for any number;
    /// the seal keeps what is sensitive in a call's arguments.
    pub fn new(definitions: Vec<Definition>, limits: BTreeMap<String, Option<u32>>, seal: Seal) -> Self {
        let tool = |definition: Definition| {
            let tool = Tool::new(definition, seal.clone());
            (tool.name.clone(), Arc::new(tool))
        };
        let tools = definitions.into_iter().map(tool).collect();
        let (resources, prompts) = Default::default();
        let (access, shared) = (Rules::default(), shared(&tools));
        Self { tools, resources, prompts, limits, access, shared, seal: seal.clone() }
    }

    /// The same, where these are the rules for tasks of tools that are not offered any more.
    #[must_use]
    pub fn ruled_by(self, access: Rules) -> Self {
        Self { access, ..self }
    }

    /// The same with resources and prompts. A tool that a resource belongs to says so in its description.
    pub fn with(mut self, resources: Resources, prompts: Prompts) -> Self {
        for tool in self.tools.values_mut() {
            let tool = Arc::get_mut(tool).expect("nobody else has the catalog yet");
            for resource in resources.beside(&tool.name) {
                let title = resource.card.title.as_ref().unwrap_or(&resource.card.name);
                let description = tool.description.get_or_insert_default();
                let gap = if description.is_empty() { "" } else { "\n\n" };
                description.push_str(&format!("{gap}See also the resource {}: {title}.", resource.uri));
            }
        }
        Self { resources: Arc::new(resources), prompts: Arc::new(prompts), ..self }
    }

    /// The same with these tools beside its own, none of which has the name of one, and with the limits of their slots.
    #[must_use]
    pub fn and(&self, more: Vec<Definition>, limits: BTreeMap<String, Option<u32>>) -> Self {
        let mut tools = self.tools.clone();
        for definition in more {
            let tool = Tool::new(definition, self.seal.clone());
            tools.entry(tool.name.clone()).or_insert_with(|| Arc::new(tool));
        }
        let mut all_limits = self.limits.clone();
        all_limits.extend(limits);
        Self {
            shared: shared(&tools),
            tools,
            resources: Arc::clone(&self.resources),
            prompts: Arc::clone(&self.prompts),
            limits: all_limits,
            access: self.access.clone(),
            seal: self.seal.clone(),
        }
    }

    /// What there is to read, beside what jobs leave.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// The prompts.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Up to `limit` of these tools in the order of their names, those after `after`.
    pub fn page(&self, after: Option<&str>, limit: usize, of: impl Fn(&Tool) -> bool) -> Vec<&Arc<Tool>> {
        resource::page(&self.tools, after, limit, of)
    }

    /// True if everybody may call all tools.
    pub fn is_open(&self) -> bool {
        self.tools.values().all(|tool| tool.access.call == Rule::everybody())
    }

    /// All tools, in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    /// The tools with tasks that somebody else than their owner may do something with, and the rules for that.
    pub fn shared(&self) -> &[(String, Rules)] {
        &self.shared
    }

    /// Who may do what with tasks of a tool of this name, whether it is offered still or not.
    pub fn rules_of(&self, tool: &str) -> &Rules {
        self.tools.get(tool).map_or(&self.access, |tool| &tool.access)
    }
}

/// What a slot in an owner's name is called up to that name.
fn of_owner(slot: &str) -> Option<&str> {
    if slot.starts_with(OF_OWNER) {
        return Some(OF_OWNER);
    }
    let at = slot.strip_prefix("tool:").and_then(|_| slot.find(OF_OWNER_BY_TOOL))?;
    slot.get(..at + OF_OWNER_BY_TOOL.len())
}

fn shared(tools: &BTreeMap<String, Arc<Tool>>) -> Vec<(String, Rules)> {
    let shared = tools.values().filter(|tool| tool.access.are_shared());
    shared.map(|tool| (tool.name.clone(), tool.access.clone())).collect()
}

impl Tool {
    /// The name of the backend that runs it.
    pub fn backend(&self) -> &str {
        &self.definition.backend
    }

    fn new(definition: Definition, seal: Seal) -> Self {
        Self {
            name: definition.name.clone(),
            title: definition.title.clone(),
            description: definition.description.clone(),
            annotations: definition.annotations.clone(),
            input_schema: definition.published.clone(),
            output_schema: definition.output.as_ref().map(|schema| schema.value().clone()),
            task_support: definition.task_support,
            result_bytes: definition.result_bytes,
            answer_by_model: definition.answer_by_model,
            on_abandon: definition.on_abandon,
            mirrored: definition.mirrored.clone(),
            access: definition.access.clone(),
            definition,
            seal,
        }
    }
}

#[async_trait]
impl Tools for Catalog {
    fn open(&self, spec: &Spec) -> taskbridge_sdk::Result<Opened> {
        sealed::open(spec, &self.seal)
    }

    async fn judge(&self, tool: &str, output: &Output) -> Result<(), String> {
        let Some(tool) = self.tools.get(tool) else { return Ok(()) };
        let Some(schema) = &tool.definition.output else { return Ok(()) };
        let Some(value) = &output.structured else {
            return Err(
                "the job gave no structured result, and the tool declares an output schema".to_owned()
            );
        };
        if schema.is_light_for(value) {
            return schema.check(value, "result", |_| false);
        }
        let (tool, value) = (tool.clone(), value.clone());
        let check = move || {
            tool.definition.output.as_ref().map_or(Ok(()), |schema| schema.check(&value, "result", |_| false))
        };
        offload(false, check).await
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        let limit = |slot: &String| {
            let limit = match of_owner(slot) {
                // Beside the limit for all, a tool that is still there may have none for each owner any more.
                Some(kind) => {
                    let of_tool = || self.limits.get(kind.strip_suffix(OF_OWNER_BY_TOOL)?);
                    self.limits.get(kind).or_else(of_tool)
                }
                None => self.limits.get(slot),
            };
            // What is gone from the config had a limit, and nobody has said that it may be exceeded.
            let limit = limit.copied().unwrap_or(Some(LIMIT_OF_WHAT_IS_GONE))?;
            Some(SlotLimit { slot: slot.clone(), limit })
        };
        slots.iter().filter_map(limit).collect()
    }
}

/// What the core asks is answered by the catalog in force.
#[async_trait]
impl Tools for Current<Catalog> {
    fn open(&self, spec: &Spec) -> taskbridge_sdk::Result<Opened> {
        self.get().open(spec)
    }

    async fn judge(&self, tool: &str, output: &Output) -> Result<(), String> {
        self.get().judge(tool, output).await
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        self.get().limits(slots)
    }
}

#[cfg(test)]
mod tests;
