//! Tools, resources and prompts that clients are offered, and the conversion of a tool call into a task. It
//! must not know a protocol, a store or the config file: the config supplies [`Definition`]s.

mod confirm;
mod definition;
mod files;
mod inquiry;
mod mirrored;
mod offers;
mod prepare;
mod schema;
mod sealed;
mod variant;

pub use confirm::Confirm;
pub use definition::{ConfirmDefault, Definition, OnAbandon, TaskSupport, TermsRule};
pub use files::FileRule;
pub use inquiry::{Inquiry, InquiryInput};
pub use mirrored::{KEYWORD as HEADER_KEYWORD, MirroredParameter, all as mirrored};
pub use offers::{
    Annotations, Argument, Body, Completion, Message, MessageContent, MessageTemplate, Pattern, Prompt,
    Prompts, ReadableResource, RenderedMessage, Resource, ResourceMetadata, ResourceTemplate, Resources,
    Role, Template, Values, address,
};
pub use prepare::{CallRequest, Consent, MAX_KEY_BYTES, PrepareError, is_authenticated, on_behalf_of};
pub use schema::Schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use taskbridge_sdk::Output;

use crate::access::{Rule, Rules};
use crate::current::Current;
use crate::offload::offload;
use crate::seal::Seal;
use crate::tasks::store::SlotLimit;
use crate::tasks::task::Spec;
use crate::tasks::task::slots::{OWNER_PREFIX, TOOL_OWNER_SEPARATOR};
use crate::tasks::tools::{OpenedSpec, ToolCatalog};

/// Maximum number of jobs in a slot of a tool, a backend or a group that was removed from the config.
const REMOVED_SLOT_LIMIT: u32 = 1;

/// The catalog: tools in the order of their names, resources and prompts.
#[derive(Debug)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<Tool>>,
    resources: Arc<Resources>,
    prompts: Arc<Prompts>,
    limits: BTreeMap<String, Option<u32>>,
    removed_tool_rules: Rules,
    /// The tools whose tasks are accessible to other callers than their owners.
    shared_tools: Vec<(String, Rules)>,
    seal: Seal,
}

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its title, for people.
    pub title: Option<String>,
    /// Its description, for models.
    pub description: Option<String>,
    /// Hints (MCP's `ToolAnnotations`): an object, or null if there are none.
    pub annotations: Value,
    /// Its input: a JSON Schema 2020-12 object schema.
    pub input_schema: Value,
    /// The schema of its output, if declared.
    pub output_schema: Option<Value>,
    /// Whether it can or must run as a task.
    pub task_support: TaskSupport,
    /// Maximum number of bytes of raw output in a result, if configured.
    pub result_bytes: Option<usize>,
    /// True if a model may answer the job's questions.
    pub answer_by_model: bool,
    /// Policy for the job of a plain call that disconnects before it is answered.
    pub on_abandon: OnAbandon,
    /// The parameters that clients repeat in HTTP headers.
    pub mirrored: Vec<MirroredParameter>,
    /// The access rules of the tool and its tasks.
    pub access: Rules,
    definition: Definition,
    seal: Seal,
}

impl Catalog {
    /// Creates a catalog of these tools. `limits` are the maximum numbers of jobs per slot, `None` for
    /// unlimited; the seal protects sensitive arguments of calls.
    pub fn new(definitions: Vec<Definition>, limits: BTreeMap<String, Option<u32>>, seal: Seal) -> Self {
        let tool = |definition: Definition| {
            let tool = Tool::new(definition, seal.clone());
            (tool.name.clone(), Arc::new(tool))
        };
        let tools = definitions.into_iter().map(tool).collect();
        let (resources, prompts) = Default::default();
        let (removed_tool_rules, shared) = (Rules::default(), shared_tools(&tools));
        Self {
            tools,
            resources,
            prompts,
            limits,
            removed_tool_rules,
            shared_tools: shared,
            seal: seal.clone(),
        }
    }

    /// Sets the access rules for tasks of tools that are no longer offered.
    #[must_use]
    pub fn with_removed_tool_rules(self, rules: Rules) -> Self {
        Self { removed_tool_rules: rules, ..self }
    }

    /// Adds resources and prompts. The description of a tool names the resources that belong to it.
    pub fn with_content(mut self, resources: Resources, prompts: Prompts) -> Self {
        for tool in self.tools.values_mut() {
            let tool = Arc::get_mut(tool).expect("the catalog is not shared yet");
            for resource in resources.for_tool(&tool.name) {
                let title = resource.metadata.title.as_ref().unwrap_or(&resource.metadata.name);
                let description = tool.description.get_or_insert_default();
                let gap = if description.is_empty() { "" } else { "\n\n" };
                description.push_str(&format!("{gap}See also the resource {}: {title}.", resource.uri));
            }
        }
        Self { resources: Arc::new(resources), prompts: Arc::new(prompts), ..self }
    }

    /// Returns a copy with additional tools and the limits of their slots. An additional tool with the name
    /// of an existing one is ignored.
    #[must_use]
    pub fn with_tools(&self, definitions: Vec<Definition>, limits: BTreeMap<String, Option<u32>>) -> Self {
        let mut tools = self.tools.clone();
        for definition in definitions {
            let tool = Tool::new(definition, self.seal.clone());
            tools.entry(tool.name.clone()).or_insert_with(|| Arc::new(tool));
        }
        let mut all_limits = self.limits.clone();
        all_limits.extend(limits);
        Self {
            shared_tools: shared_tools(&tools),
            tools,
            resources: Arc::clone(&self.resources),
            prompts: Arc::clone(&self.prompts),
            limits: all_limits,
            removed_tool_rules: self.removed_tool_rules.clone(),
            seal: self.seal.clone(),
        }
    }

    /// Returns the configured resources; job outputs are not among them.
    pub fn resources(&self) -> &Resources {
        &self.resources
    }

    /// Returns the prompts.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Returns up to `limit` tools that `filter` accepts, in the order of their names, starting after
    /// `after`.
    pub fn page(&self, after: Option<&str>, limit: usize, filter: impl Fn(&Tool) -> bool) -> Vec<&Arc<Tool>> {
        offers::page(&self.tools, after, limit, filter)
    }

    /// Returns true if every caller that is admitted may call all tools.
    pub fn is_open(&self) -> bool {
        self.tools.values().all(|tool| tool.access.call == Rule::any_caller())
    }

    /// Returns all tools, in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    /// Returns the tools whose tasks other callers than the owner can access, and the rules for that.
    pub fn shared_tools(&self) -> &[(String, Rules)] {
        &self.shared_tools
    }

    /// Returns the access rules of the whole server.
    pub fn default_rules(&self) -> &Rules {
        &self.removed_tool_rules
    }

    /// Returns the access rules for tasks of a tool of this name, even if it is no longer offered.
    pub fn rules_of(&self, tool: &str) -> &Rules {
        self.tools.get(tool).map_or(&self.removed_tool_rules, |tool| &tool.access)
    }
}

/// Returns the name of a per-owner slot without the owner's name; `None` for other slots.
fn owner_slot_kind(slot: &str) -> Option<&str> {
    if slot.starts_with(OWNER_PREFIX) {
        return Some(OWNER_PREFIX);
    }
    let at = slot.strip_prefix("tool:").and_then(|_| slot.find(TOOL_OWNER_SEPARATOR))?;
    slot.get(..at + TOOL_OWNER_SEPARATOR.len())
}

fn shared_tools(tools: &BTreeMap<String, Arc<Tool>>) -> Vec<(String, Rules)> {
    let shared = tools.values().filter(|tool| tool.access.are_shared());
    shared.map(|tool| (tool.name.clone(), tool.access.clone())).collect()
}

impl Tool {
    /// Returns the name of the backend that runs it.
    pub fn backend(&self) -> &str {
        &self.definition.backend
    }

    /// Returns the target that it runs there.
    pub fn target(&self) -> &Value {
        &self.definition.target
    }

    fn new(definition: Definition, seal: Seal) -> Self {
        Self {
            name: definition.name.clone(),
            title: definition.title.clone(),
            description: definition.description.clone(),
            annotations: definition.annotations.clone(),
            input_schema: definition.client_schema.clone(),
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
impl ToolCatalog for Catalog {
    fn open(&self, spec: &Spec) -> taskbridge_sdk::Result<OpenedSpec> {
        sealed::open(spec, &self.seal)
    }

    async fn validate_output(&self, tool: &str, output: &Output) -> Result<(), String> {
        let Some(tool) = self.tools.get(tool) else { return Ok(()) };
        let Some(schema) = &tool.definition.output else { return Ok(()) };
        let Some(value) = &output.structured else {
            return Err(
                "the job returned no structured result, but the tool declares an output schema".to_owned()
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
            let limit = match owner_slot_kind(slot) {
                // A tool that still exists may have no per-owner limit any more: then the tool's own limit
                // applies.
                Some(kind) => {
                    let tool_limit = || self.limits.get(kind.strip_suffix(TOOL_OWNER_SEPARATOR)?);
                    self.limits.get(kind).or_else(tool_limit)
                }
                None => self.limits.get(slot),
            };
            // A slot that was removed from the config had a limit, so it does not become unlimited.
            let limit = limit.copied().unwrap_or(Some(REMOVED_SLOT_LIMIT))?;
            Some(SlotLimit { slot: slot.clone(), limit })
        };
        slots.iter().filter_map(limit).collect()
    }
}

/// The current catalog answers the requests of the core.
#[async_trait]
impl ToolCatalog for Current<Catalog> {
    fn open(&self, spec: &Spec) -> taskbridge_sdk::Result<OpenedSpec> {
        self.get().open(spec)
    }

    async fn validate_output(&self, tool: &str, output: &Output) -> Result<(), String> {
        self.get().validate_output(tool, output).await
    }

    fn limits(&self, slots: &[String]) -> Vec<SlotLimit> {
        self.get().limits(slots)
    }
}

#[cfg(test)]
mod tests;
