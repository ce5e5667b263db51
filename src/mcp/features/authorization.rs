//! Authorization of a caller by the rules of the catalog in force: [`Permit`] for tools, and the prompts and
//! resources tied to them, [`CallerContext`] for tasks. Every generation checks them before it calls, lists
//! or reads. [`evaluate`] makes the decisions. This module must not depend on a generation.

use std::collections::BTreeSet;
use std::sync::Arc;

use taskbridge_sdk::OnBehalfOf;

use crate::access::{Rules, Verb, Verdict, evaluate};
use crate::auth::Principal;
use crate::catalog::{Argument, Catalog, Prompt, ReadableResource, Tool, on_behalf_of};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::{Error, Request};
use crate::mcp::wire::params;
use crate::tasks::service::{Actor, TaskOperation};
use crate::tasks::task::{Owner, Task};

/// Error code for missing scopes. It is that of HTTP, since JSON-RPC has none.
const FORBIDDEN: i32 = 403;

/// Permissions of a caller.
#[derive(Clone, Copy)]
pub struct Permit<'a> {
    caller: &'a Principal,
}

/// A caller of task operations, under the rules in force.
#[derive(Clone, Copy)]
pub struct CallerContext<'a> {
    context: &'a FeatureContext,
    caller: &'a Principal,
    /// True if operators can read the tasks of all owners.
    is_operating: bool,
}

impl<'a> CallerContext<'a> {
    /// Creates the actor for this caller.
    pub fn new(context: &'a FeatureContext, caller: &'a Principal) -> Self {
        Self { context, caller, is_operating: false }
    }

    /// Creates the actor for a person who looks at a page. An operator can read the tasks of all owners then.
    pub fn looking(context: &'a FeatureContext, caller: &'a Principal) -> Self {
        Self { context, caller, is_operating: true }
    }

    /// Returns the client's capabilities for this task. They are barred if the caller may not answer its
    /// questions.
    pub fn answers(&self, task: &Task, client: ClientCapabilities) -> ClientCapabilities {
        match self.may(TaskOperation::Answer, task) {
            Ok(()) => client,
            Err(_) => client.barred(),
        }
    }
}

impl Actor for CallerContext<'_> {
    fn owner(&self) -> &Owner {
        &self.caller.owner
    }

    fn tools(&self) -> Vec<String> {
        let catalog = self.context.catalog();
        // Checked for a task of another owner: callers see their own tasks without this.
        let other_owner = Owner::new("");
        let may_see = |(_, rules): &&(String, Rules)| {
            let may = |verb| evaluate(rules, verb, self.caller, Some(&other_owner)) == Verdict::Allowed;
            may(Verb::See) || (self.is_operating && may(Verb::Operate))
        };
        catalog.shared_tools().iter().filter(may_see).map(|(tool, _)| tool.clone()).collect()
    }

    fn person(&self) -> Result<Option<OnBehalfOf>, String> {
        on_behalf_of(self.caller)
    }

    fn may(&self, operation: TaskOperation, task: &Task) -> Result<(), String> {
        let (verb, action) = match operation {
            TaskOperation::Cancel => (Verb::Cancel, "cancel this task"),
            TaskOperation::Answer => (Verb::Answer, "answer what this task asks"),
        };
        let verdict =
            evaluate(self.context.catalog().rules_of(&task.tool), verb, self.caller, Some(&task.owner));
        match verdict {
            // `four_eyes` is in the row, so it applies even if the tool and its rules no longer exist.
            Verdict::Allowed
                if operation == TaskOperation::Answer
                    && task.terms.four_eyes
                    && task.owner == self.caller.owner =>
            {
                Err(four_eyes())
            }
            Verdict::Allowed => Ok(()),
            Verdict::OwnerExcluded => Err(four_eyes()),
            Verdict::MissingScopes(scopes) => {
                Err(format!("you may not {action} without the scope {:?}", join_scopes(&scopes)))
            }
            Verdict::Denied => Err(format!("you may look at this task, and not {action}: others may")),
        }
    }
}

fn four_eyes() -> String {
    "the task is your own, and what it asks must be answered by somebody else".to_owned()
}

/// Returns true if this caller may give the consent that their own call needs. Otherwise another person is
/// asked, in a task.
pub fn may_consent(caller: &Principal, tool: &Tool) -> bool {
    evaluate(&tool.access, Verb::Answer, caller, Some(&caller.owner)) == Verdict::Allowed
}

/// Authorization of a call.
pub enum CallAuthorization<'a> {
    /// The tool to call.
    Allowed(&'a Arc<Tool>),
    /// The caller lacks these scopes.
    MissingScopes(BTreeSet<String>),
    /// The tool does not exist, or this caller may not call it. The caller must not learn which.
    Unknown,
}

impl<'a> Permit<'a> {
    /// Creates the permissions of this caller.
    pub fn of(caller: &'a Principal) -> Self {
        Self { caller }
    }

    /// Looks up the tool that this caller wants to call.
    pub fn authorize_call<'c>(&self, catalog: &'c Catalog, name: &str) -> CallAuthorization<'c> {
        let Some(tool) = catalog.get(name) else { return CallAuthorization::Unknown };
        match evaluate(&tool.access, Verb::Call, self.caller, None) {
            Verdict::Allowed => CallAuthorization::Allowed(tool),
            Verdict::MissingScopes(scopes) => CallAuthorization::MissingScopes(scopes),
            Verdict::OwnerExcluded | Verdict::Denied => CallAuthorization::Unknown,
        }
    }

    /// Returns true if this caller may call the tool.
    pub fn may_call(&self, tool: &Tool) -> bool {
        evaluate(&tool.access, Verb::Call, self.caller, None) == Verdict::Allowed
    }

    /// Returns true if this caller may read the tasks of all owners of a tool in the console. Without a tool:
    /// if they operate the whole server.
    pub fn operates(&self, catalog: &Catalog, tool: Option<&str>) -> bool {
        let rules = tool.map_or_else(|| catalog.default_rules(), |tool| catalog.rules_of(tool));
        evaluate(rules, Verb::Operate, self.caller, None) == Verdict::Allowed
    }

    /// Returns true if this caller may read a resource. A fixed resource must belong to no tool, or to at
    /// least one tool that they may call. For a template, they must be able to call each tool that supplies
    /// the values of a parameter.
    pub fn may_read(&self, catalog: &Catalog, readable: ReadableResource<'_>) -> bool {
        match readable {
            ReadableResource::Fixed(resource) => {
                resource.tools.is_empty()
                    || resource.tools.iter().any(|name| self.may_call_named(catalog, name))
            }
            ReadableResource::Template(template) => self.may_complete(catalog, &template.parameters),
        }
    }

    /// Returns the prompt of this name, if this caller may see it.
    pub fn prompt<'c>(&self, catalog: &'c Catalog, name: &str) -> Option<&'c Arc<Prompt>> {
        catalog.prompts().get(name).filter(|prompt| self.may_prompt(catalog, prompt))
    }

    /// Returns true if this caller may see a prompt: they may call each tool that supplies the values of one
    /// of its arguments.
    pub fn may_prompt(&self, catalog: &Catalog, prompt: &Prompt) -> bool {
        self.may_complete(catalog, &prompt.arguments)
    }

    /// Returns true if the caller may call each tool whose parameter supplies the values of an argument.
    fn may_complete(&self, catalog: &Catalog, arguments: &[Argument]) -> bool {
        arguments
            .iter()
            .filter_map(|argument| argument.tool.as_deref())
            .all(|name| self.may_call_named(catalog, name))
    }

    fn may_call_named(&self, catalog: &Catalog, tool: &str) -> bool {
        matches!(self.authorize_call(catalog, tool), CallAuthorization::Allowed(_))
    }
}

/// Returns the scopes that a tool call requires, if missing scopes are the only obstacle. They include those
/// that the caller already has: a new token must not lose any.
pub fn missing_scopes(
    context: &FeatureContext,
    caller: &Principal,
    request: &Request,
) -> Option<Vec<String>> {
    if request.method != "tools/call" {
        return None;
    }
    let name = request.params["name"].as_str()?;
    match Permit::of(caller).authorize_call(&context.catalog(), name) {
        CallAuthorization::MissingScopes(missing) => {
            let catalog = context.catalog();
            let required = catalog.get(name).and_then(|tool| tool.access.call.conditions.as_ref());
            Some(required.map_or(missing, |required| required.scopes.clone()).into_iter().collect())
        }
        CallAuthorization::Allowed(_) | CallAuthorization::Unknown => None,
    }
}

/// Returns the tool that is called. The audit log records the refusal of a call of an existing tool.
///
/// # Errors
/// The error to answer with, if the tool does not exist for this caller or needs more scopes.
pub fn authorized_tool<'c>(
    context: &FeatureContext,
    caller: &Principal,
    catalog: &'c Catalog,
    name: &str,
) -> Result<&'c Arc<Tool>, Error> {
    let authorization = Permit::of(caller).authorize_call(catalog, name);
    // A call of a tool that does not exist is only a mistake, and is not recorded.
    if !matches!(authorization, CallAuthorization::Allowed(_)) && catalog.get(name).is_some() {
        context.audit.call_denied(Some(name), "no rule lets them call it");
    }
    match authorization {
        CallAuthorization::Allowed(tool) => Ok(tool),
        CallAuthorization::MissingScopes(scopes) => {
            let message =
                format!("{name:?} needs what you were not granted: the scope {:?}", join_scopes(&scopes));
            Err(Error::new(FORBIDDEN, message))
        }
        CallAuthorization::Unknown => {
            Err(params::invalid(format!("Unknown tool: {name:?}. tools/list has the tools there are.")))
        }
    }
}

/// Returns scopes separated by spaces, as in a header (RFC 6750, section 3).
fn join_scopes(scopes: &BTreeSet<String>) -> String {
    scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
