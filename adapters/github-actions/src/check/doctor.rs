//! Self-check for `taskbridge doctor`: the credential, the clock, the rate limit, repositories, the workflows
//! of tools, and the webhook. It must only read.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderMap;
use taskbridge_sdk::{Checkup, Error, ErrorKind, Finding, Timestamp, ToolTarget, async_trait};

use crate::config::Target;
use crate::core::Actions;
use crate::driver::credentials::{CredentialKind, server_time};
use crate::driver::error::header_text;
use crate::driver::wire::{ListedWorkflow, ProtectedEnvironment, Repository, Webhook};
use crate::driver::workflow::{self, MARKER, Workflow};

/// Tolerated difference of this machine's clock for an App: its requests are signed with the time, and GitHub
/// tolerates about a minute. For a token, five times as much is tolerated.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// Maximum number of people's tokens that are tried.
const MAX_CALLER_TOKENS: usize = 50;

#[async_trait]
impl Checkup for Actions {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let targets: Vec<(&ToolTarget, Result<Target, Finding>)> =
            tools.iter().map(|tool| (tool, tool.parse())).collect();
        let target_repositories =
            targets.iter().filter_map(|(_, target)| target.as_ref().ok()?.repository.as_ref());
        let repositories: BTreeSet<&String> = self.repository.iter().chain(target_repositories).collect();
        let mut findings = Vec::new();
        let mut readable_repositories = Vec::new();
        for repository in repositories {
            let path = format!("/repos/{repository}");
            match self
                .api
                .get_uncached::<Repository>(
                    &self.api.own_client,
                    &format!("the repository {repository}"),
                    &path,
                )
                .await
            {
                Ok((headers, response)) => {
                    if readable_repositories.is_empty() {
                        findings.extend(self.check_credential(&headers, &response));
                    }
                    findings.push(self.check_repository(repository, &response));
                    readable_repositories.push((repository, response.default_branch));
                }
                Err(failure) => {
                    let needs_it = |target: &Target| {
                        target.repository.as_ref().or(self.repository.as_ref()) == Some(repository)
                    };
                    let tools = targets.iter().filter(|(_, target)| target.as_ref().is_ok_and(needs_it));
                    let tools: Vec<String> = tools.map(|(tool, _)| format!("`{}`", tool.tool)).collect();
                    findings.push(unreadable_repository(repository, &failure.error, &tools));
                }
            }
        }
        if let Some((repository, _)) = readable_repositories.first() {
            findings.extend(self.check_caller_tokens(repository).await);
        }
        for (tool, target) in &targets {
            let what = format!("tool `{}`", tool.tool);
            let target = match target {
                Ok(target) => target,
                Err(finding) => {
                    findings.push(finding.clone());
                    continue;
                }
            };
            let repository = target.repository.as_ref().or(self.repository.as_ref());
            match readable_repositories.iter().find(|(name, _)| Some(*name) == repository) {
                Some((repository, branch)) => {
                    let parameters = tool.parameters.as_deref();
                    findings.extend(self.check_tool(&what, target, parameters, repository, branch).await)
                }
                // The fault of the repository names the tool.
                None if repository.is_some() => {}
                None => findings.push(Finding::fault(
                    what,
                    "neither its target nor the backend names a repository",
                    "set `repository` in one of them",
                )),
            }
        }
        if self.webhook_secret.is_some() && self.repository.is_some() {
            findings.push(self.check_webhook().await);
        }
        findings
    }
}

impl Actions {
    fn check_credential(&self, headers: &HeaderMap, response: &Repository) -> Vec<Finding> {
        let mut findings = vec![self.credential_kind.evaluate(headers, response.private)];
        if let Some(github_time) = server_time(headers) {
            let local_time = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
            // Requests with a token are not signed, so a difference does no harm there.
            let max_skew =
                if self.credential_kind == CredentialKind::App { MAX_CLOCK_SKEW } else { 5 * MAX_CLOCK_SKEW };
            findings.push(Finding::clock("GitHub", github_time, local_time, max_skew));
        }
        let number = |name| header_text(headers, name)?.parse::<u64>().ok();
        if let (Some(remaining), Some(limit)) = (number("x-ratelimit-remaining"), number("x-ratelimit-limit"))
        {
            let message = format!("{remaining} of {limit} requests of this hour are left");
            findings.push(match remaining > limit / 10 {
                true => Finding::ok("allowance", message),
                false => Finding::warning(
                    "allowance",
                    message,
                    "check what else uses this credential, or give the server its own",
                ),
            });
        }
        findings
    }

    /// Checks the tokens of up to `MAX_CALLER_TOKENS` people against a repository.
    async fn check_caller_tokens(&self, repository: &str) -> Vec<Finding> {
        let Some(caller_clients) = &self.caller_clients else { return Vec::new() };
        let mut clients: Vec<_> = caller_clients.all().collect();
        clients.sort_by_key(|(id, ..)| *id);
        let mut findings = Vec::new();
        for (id, client, kind) in clients.iter().take(MAX_CALLER_TOKENS) {
            let what = format!("token of `{id}`");
            let path = format!("/repos/{repository}");
            findings.push(match self.api.get_uncached::<Repository>(client, &what, &path).await {
                Ok((_, response))
                    if response.permissions.as_ref().is_some_and(|permissions| !permissions.push) =>
                {
                    Finding::fault(
                        what,
                        format!(
                            "the token's user cannot write to {repository}, and so cannot start workflows"
                        ),
                        "give the user the role Write, or use another user's token",
                    )
                }
                Ok((headers, response)) => Finding { what, ..kind.evaluate(&headers, response.private) },
                Err(failure) => fault(what, &failure.error),
            });
        }
        if let Some(untried) = clients.len().checked_sub(MAX_CALLER_TOKENS).filter(|untried| *untried > 0) {
            findings.push(Finding::ok("per_caller", format!("{untried} more tokens were not tried")));
        }
        findings
    }

    fn check_repository(&self, name: &str, response: &Repository) -> Finding {
        let what = format!("repository {name}");
        if !response.full_name.is_empty() && !response.full_name.eq_ignore_ascii_case(name) {
            let current_name = &response.full_name;
            let message = format!(
                "the repository was renamed to {current_name}; GitHub redirects the old name until another repository takes it"
            );
            return Finding::warning(what, message, format!("write {current_name} in `repository`"));
        }
        let may_write = response.permissions.as_ref().is_none_or(|permissions| permissions.push);
        match self.credential_kind.has_scopes() && !may_write {
            true => Finding::fault(
                what,
                "the token's user cannot write to it, and so cannot start workflows",
                "give the user the role Write, or use another user's token",
            ),
            false => Finding::ok(what, format!("the default branch is {}", response.default_branch)),
        }
    }

    async fn check_tool(
        &self,
        what: &str,
        target: &Target,
        parameters: Option<&[String]>,
        repository: &str,
        branch: &str,
    ) -> Vec<Finding> {
        let file = &target.workflow;
        let path = format!("/repos/{repository}/actions/workflows/{file}");
        let entry = match self.api.get::<ListedWorkflow>(&format!("the workflow {file}"), &path).await {
            Ok(entry) => entry,
            Err(failure) if failure.has_status(404) => {
                return vec![Finding::fault(
                    what,
                    format!("{repository} has no workflow {file} that this token can read"),
                    format!("add it to .github/workflows on {branch}, or correct `workflow`"),
                )];
            }
            Err(failure) => return vec![fault(what.to_owned(), &failure.error)],
        };
        if entry.state != "active" {
            let message = format!("{file} cannot be started: its state is {}", entry.state);
            return vec![Finding::fault(what, message, "enable it at GitHub, under Actions")];
        }
        if target.attach.is_some() || target.rerun.is_some() {
            let action = if target.rerun.is_some() { "reruns" } else { "follows" };
            return vec![Finding::ok(what, format!("{action} runs of {file} in {repository}"))];
        }
        let fixed_ref = target.git_ref.as_deref().filter(|git_ref| !git_ref.contains("{{"));
        let git_ref = fixed_ref.unwrap_or(branch);
        let definition = match workflow::fetch(&self.api, Duration::ZERO, repository, file, git_ref).await {
            Ok(definition) => definition,
            Err(error) => return vec![fault(what.to_owned(), &error)],
        };
        if let Some(finding) = check_inputs(what, target, parameters, &definition) {
            return vec![finding];
        }
        let mut findings = vec![Finding::ok(what, format!("starts {file} in {repository} at {git_ref}"))];
        if !definition.marked {
            findings.push(Finding::warning(
                what,
                format!("runs of {file} carry no mark, so a start whose reply is lost ends as uncertain"),
                format!("declare the input `{MARKER}` in {file}, and show it in `run-name: ... ${{{{ inputs.{MARKER} }}}}`"),
            ));
        }
        for environment in &definition.environments {
            findings.extend(self.check_environment(what, repository, environment).await);
        }
        findings
    }

    async fn check_environment(&self, what: &str, repository: &str, name: &str) -> Option<Finding> {
        let path = workflow::environment_path(repository, name);
        match self.api.get::<ProtectedEnvironment>("the environment", &path).await {
            Ok(environment)
                if environment.requires_review()
                    && self.credential_kind.has_no_user()
                    && self.caller_clients.is_none() =>
            {
                Some(Finding::warning(
                    what,
                    format!("runs wait for a review of the environment {name}, and an App cannot review"),
                    "review at GitHub, or use a user's token",
                ))
            }
            Ok(environment) if environment.requires_review() => {
                Some(Finding::ok(what, format!("runs wait for a review of the environment {name}")))
            }
            Err(failure) if failure.has_status(404) => Some(Finding::warning(
                what,
                format!(
                    "{repository} has no environment {name}: GitHub creates it with the first run, without reviewers"
                ),
                "create it in the repository's settings, with its reviewers",
            )),
            // It has no reviewers, or the token may not see it. Neither prevents a run from starting.
            _ => None,
        }
    }

    async fn check_webhook(&self) -> Finding {
        let (what, hook_path) = ("webhook", format!("/hooks/{}", self.name));
        let repository = self.repository.as_deref().unwrap_or_default();
        let path = format!("/repos/{repository}/hooks?per_page=100");
        let hooks = match self.api.get::<Vec<Webhook>>("the webhooks", &path).await {
            Ok(hooks) => hooks,
            Err(failure) if failure.has_status(403) || failure.has_status(404) => {
                let message = format!(
                    "{hook_path} accepts deliveries; this token cannot read whether GitHub sends any"
                );
                return Finding::ok(what, message);
            }
            Err(failure) => return fault(what.to_owned(), &failure.error),
        };
        let posts_here = |hook: &&Webhook| {
            hook.config.url.as_deref().is_some_and(|url| url.trim_end_matches('/').ends_with(&hook_path))
        };
        let Some(hook) = hooks.iter().find(posts_here) else {
            return Finding::warning(
                what,
                format!("no webhook of {repository} posts to {hook_path}"),
                format!(
                    "add one at GitHub: the server's address with {hook_path}, content type application/json, the same \
                         secret, and the events Workflow runs, Workflow jobs and Deployment reviews"
                ),
            );
        };
        let problem = match hook {
            hook if !hook.active => Some(("the webhook is not active".to_owned(), "activate it")),
            hook if hook.config.content_type.as_deref() != Some("json") => Some((
                "the webhook does not post JSON".to_owned(),
                "set its content type to application/json",
            )),
            hook if !hook.events.iter().any(|event| event == "workflow_run" || event == "*") => {
                Some(("the webhook does not send workflow runs".to_owned(), "add the event Workflow runs"))
            }
            hook => hook.last_response.code.filter(|code| !(200..300).contains(code)).map(|code| {
                (
                    format!("the last delivery was answered with the status {code}"),
                    "check its recent deliveries at GitHub",
                )
            }),
        };
        match problem {
            Some((message, fix)) => {
                Finding::warning(what, format!("{repository} posts to {hook_path}: {message}"), fix)
            }
            None => Finding::ok(what, format!("{repository} posts to {hook_path}")),
        }
    }
}

/// Returns a fault if what a call sends does not match the inputs of the workflow: the target's `inputs`, or
/// else the tool's parameters, which it passes on. Without either, a call may send anything.
fn check_inputs(
    what: &str,
    target: &Target,
    parameters: Option<&[String]>,
    definition: &Workflow,
) -> Option<Finding> {
    let (sent, place): (Vec<&String>, _) = match (&target.inputs, parameters) {
        (Some(inputs), _) => (inputs.keys().collect(), "`inputs` in the tool's target"),
        (None, Some(names)) => (names.iter().collect(), "the tool's `parameters`"),
        (None, None) => return None,
    };
    let unknown_input = sent.iter().find(|name| !definition.inputs.iter().any(|input| input.name == ***name));
    let missing_input = definition.inputs.iter().find(|input| {
        input.required && input.default.is_none() && input.name != MARKER && !sent.contains(&&input.name)
    });
    let file = &target.workflow;
    match (unknown_input, missing_input) {
        (Some(name), _) => {
            Some(Finding::fault(what, format!("{file} has no input `{name}`"), format!("correct {place}")))
        }
        (None, Some(input)) => Some(Finding::fault(
            what,
            format!("{file} requires the input `{}`, which no call gives", input.name),
            format!("add it to {place}"),
        )),
        _ => None,
    }
}

/// Returns one fault for a repository that cannot be read, for all tools that need it.
fn unreadable_repository(repository: &str, error: &Error, tools: &[String]) -> Finding {
    let mut finding = fault(format!("repository {repository}"), error);
    match tools.len() {
        0 => {}
        1 => finding.says.push_str(&format!("; the tool {} was not checked", tools[0])),
        _ => finding.says.push_str(&format!("; the tools {} were not checked", tools.join(", "))),
    }
    finding
}

fn fault(what: String, error: &Error) -> Finding {
    let fix = match error.kind() {
        ErrorKind::Denied => "create a token with the permissions that the adapter's README.md lists",
        ErrorKind::Config => "correct the name, or give the token access",
        ErrorKind::Limited { .. } => "wait until the rate limit resets",
        _ => "check that this machine can reach the API (`api`), and see https://www.githubstatus.com",
    };
    Finding::fault(what, error.to_string(), fix)
}
