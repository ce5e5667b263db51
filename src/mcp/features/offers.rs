//! [`Offers`]: what clients are offered now, which is the catalog and the protocol settings. A config reload
//! replaces both, and discovery replaces the catalog. By the edition, a stream detects which lists have
//! changed since it reported them. It must not know a generation or a stream.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::authorization::Permit;
use super::companions::Companion;
use super::tools::list_cache::ListCache;
use crate::auth::Principal;
use crate::catalog::{
    Argument, Body, Catalog, Prompt, Prompts, ReadableResource, ResourceMetadata, Resources, TaskSupport,
    Tool,
};
use crate::current::Current;
use crate::mcp::Settings;
use crate::mcp::session::edition::Edition;

/// The current offers.
pub struct Offers {
    catalog: Arc<Current<Catalog>>,
    settings: Current<Settings>,
    edition: watch::Sender<Edition>,
    /// Editions for callers, by the tools that they may call. Used only if some tool is not open to all
    /// callers. Cleared with the catalog and the settings.
    editions_by_tools: Mutex<HashMap<Vec<bool>, Edition>>,
    /// The list of tools as text. Cleared with the catalog and the settings.
    pub(crate) tool_pages: ListCache,
    /// Address of the console, if this process has one that browsers reach at a known address.
    console_url: OnceLock<String>,
}

impl Offers {
    /// Creates the offers. The catalog is shared with the core, which looks up tools there.
    pub fn new(catalog: Arc<Current<Catalog>>, settings: Settings) -> Self {
        let edition = edition(&catalog.get(), &settings, None);
        let (settings, edition) = (Current::new(settings), watch::Sender::new(edition));
        Self {
            catalog,
            settings,
            edition,
            editions_by_tools: Mutex::default(),
            tool_pages: ListCache::default(),
            console_url: OnceLock::new(),
        }
    }

    /// Returns the catalog in force.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.get()
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.get()
    }

    /// Replaces the offers. Wakes the receivers of [`Self::editions`] if a list, the contents of a resource
    /// or an access rule differs. Requests in flight keep what they have.
    pub fn replace(&self, catalog: Catalog, settings: Settings) {
        let edition = edition(&catalog, &settings, None);
        self.catalog.replace(catalog);
        self.settings.replace(settings);
        self.editions_by_tools.lock().clear();
        self.tool_pages.clear();
        self.edition.send_if_modified(|previous| std::mem::replace(previous, edition) != edition);
    }

    /// Replaces the tools, resources and prompts. The settings stay in force.
    pub fn replace_catalog(&self, catalog: Catalog) {
        self.replace(catalog, Settings::clone(&self.settings()));
    }

    /// Sets the address of the console, without a `/` at its end. The first one stays.
    pub fn set_console_url(&self, url: String) {
        let _ = self.console_url.set(url);
    }

    /// Returns the address of the console, if it has a known one.
    pub fn console_url(&self) -> Option<&str> {
        self.console_url.get().map(String::as_str)
    }

    /// Returns the edition of the lists for this caller.
    pub fn edition_for(&self, caller: &Principal) -> Edition {
        // Locked before the catalog is read, so that an entry of an older catalog is cleared after the new
        // one is set.
        let mut editions_by_tools = self.editions_by_tools.lock();
        let (catalog, permit) = (self.catalog(), Permit::of(caller));
        if catalog.is_open() {
            return *self.edition.borrow();
        }
        let callable_tools = catalog.tools().map(|tool| permit.may_call(tool)).collect();
        let settings = self.settings();
        *editions_by_tools.entry(callable_tools).or_insert_with(|| edition(&catalog, &settings, Some(permit)))
    }

    /// Returns a receiver that changes after the lists may have changed for any caller. [`Self::edition_for`]
    /// returns the edition of one caller.
    pub fn editions(&self) -> watch::Receiver<Edition> {
        self.edition.subscribe()
    }
}

/// Returns the edition of what this caller may see, or of everything.
fn edition(catalog: &Catalog, settings: &Settings, permit: Option<Permit<'_>>) -> Edition {
    let may_call = |tool: &Tool| permit.is_none_or(|permit| permit.may_call(tool));
    let may_prompt = |prompt: &Prompt| permit.is_none_or(|permit| permit.may_prompt(catalog, prompt));
    let may_read =
        |readable: ReadableResource<'_>| permit.is_none_or(|permit| permit.may_read(catalog, readable));
    Edition {
        tools: tools(catalog, settings, may_call),
        prompts: prompts(catalog.prompts(), may_prompt),
        resources: resources(catalog.resources(), may_read),
        contents: contents(catalog.resources(), may_read),
        rules: rules(catalog),
    }
}

/// Returns half of a hash. That is enough to distinguish two editions, and it is part of the id of every
/// event of a stream.
fn short_hash(hasher: &DefaultHasher) -> u32 {
    (hasher.finish() >> 32) as u32
}

fn rules(catalog: &Catalog) -> u32 {
    let mut hasher = DefaultHasher::new();
    for tool in catalog.tools() {
        format!("{:?}", tool.access).hash(&mut hasher);
    }
    short_hash(&hasher)
}

fn tools(catalog: &Catalog, settings: &Settings, may_call: impl Fn(&Tool) -> bool) -> u32 {
    let mut hasher = DefaultHasher::new();
    for tool in catalog.page(None, usize::MAX, may_call) {
        let entry = json!([
            tool.name,
            tool.title,
            tool.description,
            tool.annotations,
            tool.input_schema,
            tool.output_schema,
            match tool.task_support {
                TaskSupport::Required => 0,
                TaskSupport::Optional => 1,
                TaskSupport::Forbidden => 2,
            }
        ]);
        entry.to_string().hash(&mut hasher);
    }
    settings.companion_tools.hash(&mut hasher);
    for companion in Companion::ALL {
        companion.definition(settings).description.hash(&mut hasher);
    }
    short_hash(&hasher)
}

fn prompts(prompts: &Prompts, may_prompt: impl Fn(&Prompt) -> bool) -> u32 {
    let mut hasher = DefaultHasher::new();
    let to_entry =
        |argument: &Argument| json!([argument.name, argument.title, argument.description, argument.required]);
    for prompt in prompts.page(None, usize::MAX, may_prompt) {
        let arguments: Vec<_> = prompt.arguments.iter().map(to_entry).collect();
        json!([prompt.name, prompt.title, prompt.description, arguments]).to_string().hash(&mut hasher);
    }
    short_hash(&hasher)
}

fn resources(resources: &Resources, may_read: impl Fn(ReadableResource<'_>) -> bool) -> u32 {
    let mut hasher = DefaultHasher::new();
    let to_entry = |uri: &str, card: &ResourceMetadata, size: Option<u64>| {
        let hints = &card.annotations;
        let modified = hints.last_modified.map(|at| at.as_millis());
        json!([
            uri,
            card.name,
            card.title,
            card.description,
            card.mime_type,
            hints.audience,
            hints.priority,
            modified,
            size
        ])
        .to_string()
    };
    for resource in resources.page(None, usize::MAX, |one| may_read(ReadableResource::Fixed(one))) {
        to_entry(&resource.uri, &resource.metadata, Some(resource.body.size())).hash(&mut hasher);
    }
    for template in
        resources.templates_page(None, usize::MAX, |each| may_read(ReadableResource::Template(each)))
    {
        to_entry(template.pattern.text(), &template.metadata, None).hash(&mut hasher);
    }
    short_hash(&hasher)
}

fn contents(resources: &Resources, may_read: impl Fn(ReadableResource<'_>) -> bool) -> u32 {
    let mut hasher = DefaultHasher::new();
    for resource in resources.page(None, usize::MAX, |one| may_read(ReadableResource::Fixed(one))) {
        match &resource.body {
            Body::Text(text) => text.as_bytes().hash(&mut hasher),
            Body::Bytes(bytes) => bytes.hash(&mut hasher),
        }
    }
    for template in
        resources.templates_page(None, usize::MAX, |each| may_read(ReadableResource::Template(each)))
    {
        template.text.text().hash(&mut hasher);
    }
    short_hash(&hasher)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::clock::System;
    use crate::mcp::CompanionTools;
    use crate::mcp::session::edition::List;
    use crate::seal::Seal;
    use crate::{adapters, config};

    fn catalog(description: &str) -> Catalog {
        let text = format!(
            "[backends.sim]\nkind = \"sim\"\n[tools.run]\ndescription = \"{description}\"\nbackend = \"sim\"\ntarget = {{}}"
        );
        let root = Path::new("/");
        let config =
            config::parse(Path::new("test.toml"), root, &text, &adapters::all(), Some(root)).unwrap();
        Catalog::new(config.tools, config.slot_limits, Seal::new(&[1; 32], System::entropy()))
    }

    fn settings(call_budget: u64) -> Settings {
        Settings {
            call_budget: Duration::from_secs(call_budget),
            quick_wait: Duration::from_millis(250),
            progress_every: Duration::from_secs(5),
            companion_tools: CompanionTools::Auto,
            page_size: 50,
            session_lifetime: Duration::from_secs(3600),
            max_log_bytes: 1024,
            max_artifact_bytes: 1024,
            max_body_bytes: 1024,
            max_polls_per_second: 100,
            limits: crate::mcp::wire::limits::Limits::default(),
            max_calls_per_minute: 100,
        }
    }

    /// A reload that changes no list keeps the edition, and open calls keep their tool.
    #[test]
    fn edition_changes_with_tool_list() {
        let offers = Offers::new(Arc::new(Current::new(catalog("runs"))), settings(25));
        let mut editions = offers.editions();
        let first = *editions.borrow_and_update();
        let old_catalog = offers.catalog();

        let larger_pages = Settings { page_size: 60, ..settings(25) };
        offers.replace(catalog("runs"), larger_pages);
        assert!(!editions.has_changed().unwrap(), "nothing in a list differs");
        assert_eq!(offers.settings().page_size, 60);

        offers.replace(catalog("runs faster"), settings(25));
        assert!(editions.has_changed().unwrap());
        let second = *editions.borrow_and_update();
        assert_eq!(second.differing(first).collect::<Vec<_>>(), [List::Tools]);
        assert_eq!(offers.catalog().get("run").unwrap().description.as_deref(), Some("runs faster"));
        assert_eq!(
            old_catalog.get("run").unwrap().description.as_deref(),
            Some("runs"),
            "a call in hand keeps its tool"
        );

        offers.replace(catalog("runs faster"), settings(30));
        assert!(editions.has_changed().unwrap(), "the companions say how long they wait");
    }
}
