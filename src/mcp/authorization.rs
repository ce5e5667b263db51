//! Authorization of a caller by the rules of the catalog in force: [`Permit`] for tools, and the prompts and
//! resources tied to them, [`CallerContext`] for tasks. Every generation checks them before it calls, lists
//! or reads. [`crate::access::may`] makes the decisions. This module must not depend on a generation.

use std::collections::BTreeSet;
use std::sync::Arc;

use taskbridge_sdk::OnBehalfOf;

use super::Bridge;
use super::jsonrpc::{Error, Request};
use super::params;
use super::session::ClientCapabilities;
use crate::access::{Rules, Verb, Verdict, may};
use crate::auth::Principal;
use crate::catalog::{Argument, Catalog, Prompt, Readable, Tool, on_behalf_of};
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
    bridge: &'a Bridge,
    caller: &'a Principal,
}

impl<'a> CallerContext<'a> {
    /// Creates the actor for this caller.
    pub fn new(bridge: &'a Bridge, caller: &'a Principal) -> Self {
        Self { bridge, caller }
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
        let catalog = self.bridge.catalog();
        // Checked for a task of another owner: callers see their own tasks without this.
        let somebody = Owner::new("");
        let sees = |(_, rules): &&(String, Rules)| {
            may(rules, Verb::See, self.caller, Some(&somebody)) == Verdict::May
        };
        catalog.shared().iter().filter(sees).map(|(tool, _)| tool.clone()).collect()
    }

    fn person(&self) -> Result<Option<OnBehalfOf>, String> {
        on_behalf_of(self.caller)
    }

    fn may(&self, deed: TaskOperation, task: &Task) -> Result<(), String> {
        let (verb, what) = match deed {
            TaskOperation::Cancel => (Verb::Cancel, "cancel this task"),
            TaskOperation::Answer => (Verb::Answer, "answer what this task asks"),
        };
        let verdict = may(self.bridge.catalog().rules_of(&task.tool), verb, self.caller, Some(&task.owner));
        match verdict {
            // `four_eyes` is in the row, so it applies even if the tool and its rules no longer exist.
            Verdict::May
                if deed == TaskOperation::Answer
                    && task.terms.four_eyes
                    && task.owner == self.caller.owner =>
            {
                Err(four_eyes())
            }
            Verdict::May => Ok(()),
            Verdict::Own => Err(four_eyes()),
            Verdict::Lacks(scopes) => {
                Err(format!("you may not {what} without the scope {:?}", listed(&scopes)))
            }
            Verdict::MayNot => Err(format!("you may look at this task, and not {what}: others may")),
        }
    }
}

fn four_eyes() -> String {
    "the task is your own, and what it asks must be answered by somebody else".to_owned()
}

/// Returns true if this caller may give the consent that their own call needs. Otherwise another person is
/// asked, in a task.
pub fn may_consent(caller: &Principal, tool: &Tool) -> bool {
    may(&tool.access, Verb::Answer, caller, Some(&caller.owner)) == Verdict::May
}

/// Authorization of a call.
pub enum Callable<'a> {
    /// The tool to call.
    Yes(&'a Arc<Tool>),
    /// The caller lacks these scopes.
    Lacks(BTreeSet<String>),
    /// The tool does not exist, or this caller may not call it. The caller must not learn which.
    Unknown,
}

impl<'a> Permit<'a> {
    /// Creates the permissions of this caller.
    pub fn of(caller: &'a Principal) -> Self {
        Self { caller }
    }

    /// Looks up the tool that this caller wants to call.
    pub fn callable<'c>(&self, catalog: &'c Catalog, name: &str) -> Callable<'c> {
        let Some(tool) = catalog.get(name) else { return Callable::Unknown };
        match may(&tool.access, Verb::Call, self.caller, None) {
            Verdict::May => Callable::Yes(tool),
            Verdict::Lacks(scopes) => Callable::Lacks(scopes),
            Verdict::Own | Verdict::MayNot => Callable::Unknown,
        }
    }

    /// Returns true if this caller may call the tool.
    pub fn may_call(&self, tool: &Tool) -> bool {
        may(&tool.access, Verb::Call, self.caller, None) == Verdict::May
    }

    /// Returns true if this caller may read a resource. A fixed resource must belong to no tool, or to at
    /// least one tool that they may call. For a template, they must be able to call each tool that supplies
    /// the values of a parameter.
    pub fn may_read(&self, catalog: &Catalog, readable: Readable<'_>) -> bool {
        match readable {
            Readable::One(resource) => {
                resource.tools.is_empty() || resource.tools.iter().any(|name| self.knows(catalog, name))
            }
            Readable::Any(template) => self.may_fill(catalog, &template.parameters),
        }
    }

    /// Returns the prompt of this name, if this caller may see it.
    pub fn prompt<'c>(&self, catalog: &'c Catalog, name: &str) -> Option<&'c Arc<Prompt>> {
        catalog.prompts().get(name).filter(|prompt| self.may_prompt(catalog, prompt))
    }

    /// Returns true if this caller may see a prompt: they may call each tool that supplies the values of one
    /// of its arguments.
    pub fn may_prompt(&self, catalog: &Catalog, prompt: &Prompt) -> bool {
        self.may_fill(catalog, &prompt.arguments)
    }

    /// Returns true if the caller may call each tool whose parameter supplies the values of an argument.
    fn may_fill(&self, catalog: &Catalog, arguments: &[Argument]) -> bool {
        arguments.iter().filter_map(|argument| argument.tool.as_deref()).all(|name| self.knows(catalog, name))
    }

    fn knows(&self, catalog: &Catalog, tool: &str) -> bool {
        matches!(self.callable(catalog, tool), Callable::Yes(_))
    }
}

/// Returns the scopes that a tool call requires, if missing scopes are the only obstacle. They include those
/// that the caller already has: a new token must not lose any.
pub fn lacking(bridge: &Bridge, caller: &Principal, request: &Request) -> Option<Vec<String>> {
    if request.method != "tools/call" {
        return None;
    }
    let name = request.params["name"].as_str()?;
    match Permit::of(caller).callable(&bridge.catalog(), name) {
        Callable::Lacks(lacking) => {
            let catalog = bridge.catalog();
            let who = catalog.get(name).and_then(|tool| tool.access.call.who.as_ref());
            Some(who.map_or(lacking, |who| who.scopes.clone()).into_iter().collect())
        }
        Callable::Yes(_) | Callable::Unknown => None,
    }
}

/// Returns the tool that is called. The audit log records the refusal of a call of an existing tool.
///
/// # Errors
/// The error to answer with, if the tool does not exist for this caller or needs more scopes.
pub fn called<'c>(
    bridge: &Bridge,
    caller: &Principal,
    catalog: &'c Catalog,
    name: &str,
) -> Result<&'c Arc<Tool>, Error> {
    let callable = Permit::of(caller).callable(catalog, name);
    // A call of a tool that does not exist is only a mistake, and is not recorded.
    if !matches!(callable, Callable::Yes(_)) && catalog.get(name).is_some() {
        bridge.audit.denied(Some(name), "no rule lets them call it");
    }
    match callable {
        Callable::Yes(tool) => Ok(tool),
        Callable::Lacks(scopes) => {
            let words = format!("{name:?} needs what you were not granted: the scope {:?}", listed(&scopes));
            Err(Error::new(FORBIDDEN, words))
        }
        Callable::Unknown => {
            Err(params::invalid(format!("Unknown tool: {name:?}. tools/list has the tools there are.")))
        }
    }
}

/// Returns scopes separated by spaces, as in a header (RFC 6750, section 3).
fn listed(scopes: &BTreeSet<String>) -> String {
    scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}
