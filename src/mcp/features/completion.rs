//! Completions for an argument that a user is typing, for every generation: an argument of a prompt, of the
//! address of a resource, or of the address of a log or an artifact. For a task id in the address of a log or
//! an artifact, it suggests the caller's own tasks. It must not know how a generation writes a completion.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::authorization::{CallerContext, Permit};
use super::dialect::Dialect;
use super::resources::{ARTIFACT_TEMPLATE, LOG_TEMPLATE};
use super::results::internal_error::store_error;
use crate::auth::Principal;
use crate::catalog::{Argument, Catalog, Completion, ReadableResource};
use crate::mcp::features::context::FeatureContext;
use crate::mcp::wire::jsonrpc::Outcome;
use crate::mcp::wire::params::{self, Reference};
use crate::tasks::store::StoreError;
use crate::tasks::task::TaskId;

/// How many of the caller's newest tasks are searched.
const MAX_TASKS: usize = 500;

/// Why nothing can be suggested.
#[derive(Debug, thiserror::Error)]
enum CompletionError {
    /// The object or the argument does not exist; the text names it.
    #[error("{0}")]
    Unknown(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// `completion/complete`.
///
/// # Errors
/// If the object or the argument does not exist, or the store fails.
pub async fn serve(request: &dyn Dialect, params: &Value) -> Outcome {
    let params::CompleteParams { reference, argument, prefix, context_arguments } =
        params::complete_params(params)?;
    let (context, caller) = (request.context(), request.principal());
    let completion = complete(context, caller, reference, argument, prefix, &context_arguments).await;
    let completion = completion.map_err(|error| match error {
        CompletionError::Unknown(message) => params::invalid(message),
        CompletionError::Store(error) => store_error(error),
    })?;
    let (total, has_more) = (completion.total, completion.has_more());
    let completion = json!({ "values": completion.values, "total": total, "hasMore": has_more });
    Ok(request.result(json!({ "completion": completion }), None))
}

/// Suggests values. `context_arguments` are the arguments that already have a value.
///
/// # Errors
/// See [`CompletionError`].
async fn complete(
    context: &FeatureContext,
    caller: &Principal,
    reference: Reference<'_>,
    argument: &str,
    prefix: &str,
    context_arguments: &BTreeMap<String, String>,
) -> Result<Completion, CompletionError> {
    let (catalog, permit) = (context.catalog(), Permit::of(caller));
    match reference {
        Reference::Prompt(name) => match permit.prompt(&catalog, name) {
            Some(prompt) => complete_argument(&prompt.arguments, argument, prefix),
            None => Err(unknown(format!("Unknown prompt: {name:?}"))),
        },
        Reference::Resource(LOG_TEMPLATE | ARTIFACT_TEMPLATE) if argument == "task_id" => {
            tasks(context, caller, prefix).await
        }
        Reference::Resource(ARTIFACT_TEMPLATE) if argument == "name" => {
            artifacts(context, caller, prefix, context_arguments).await
        }
        Reference::Resource(LOG_TEMPLATE | ARTIFACT_TEMPLATE) => {
            Err(unknown(format!("the address has no place {argument:?}")))
        }
        Reference::Resource(uri) => match catalog.resources().template(uri) {
            Some(template) if permit.may_read(&catalog, ReadableResource::Template(template)) => {
                complete_argument(&template.parameters, argument, prefix)
            }
            _ if is_fixed_resource(&catalog, permit, uri) => Err(unknown(format!("{uri} has no places"))),
            _ => Err(unknown(format!("Unknown resource template: {uri:?}"))),
        },
    }
}

/// Returns true if there is a resource at exactly this address, and the caller may see it.
fn is_fixed_resource(catalog: &Catalog, permit: Permit<'_>, uri: &str) -> bool {
    let fixed_resource = catalog.resources().get(uri);
    fixed_resource.is_some_and(|resource| permit.may_read(catalog, ReadableResource::Fixed(resource)))
}

fn unknown(text: String) -> CompletionError {
    CompletionError::Unknown(text)
}

fn complete_argument(
    arguments: &[Argument],
    name: &str,
    prefix: &str,
) -> Result<Completion, CompletionError> {
    match arguments.iter().find(|argument| argument.name == name) {
        Some(argument) => Ok(argument.complete(prefix)),
        None => {
            let names: Vec<_> = arguments.iter().map(|argument| argument.name.as_str()).collect();
            Err(unknown(format!("Unknown argument: {name:?} (known: {})", names.join(", "))))
        }
    }
}

/// Suggests the caller's own tasks, newest first. Suggests none where callers are not identified: a task id
/// then acts as a password.
async fn tasks(
    context: &FeatureContext,
    caller: &Principal,
    prefix: &str,
) -> Result<Completion, CompletionError> {
    if !caller.identified {
        return Ok(Completion::default());
    }
    let views = context.service.list(&caller.owner, None, MAX_TASKS).await?;
    Ok(Completion::find(views.iter().map(|view| view.task.id.as_str()), prefix))
}

/// Suggests the artifacts of the task whose id is already filled in, or none if no id is.
async fn artifacts(
    context: &FeatureContext,
    caller: &Principal,
    prefix: &str,
    context_arguments: &BTreeMap<String, String>,
) -> Result<Completion, CompletionError> {
    let Some(id) = context_arguments.get("task_id") else { return Ok(Completion::default()) };
    let id = TaskId::from_wire(id);
    let Some(view) = context.service.get(&CallerContext::new(context, caller), &id).await? else {
        context.not_found(&caller.owner, &id);
        return Ok(Completion::default());
    };
    let output = context.service.output(&view.task).await?.unwrap_or_default();
    Ok(Completion::find(output.artifacts.iter().map(|artifact| artifact.name.as_str()), prefix))
}
