//! Self-check for `taskbridge doctor`: the credential, the clock, the rate limit, repositories, the workflows
//! of tools, and the webhook. It must only read.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderMap;
use serde::Deserialize as _;
use taskbridge_sdk::{Checkup, Error, ErrorKind, Finding, Timestamp, ToolTarget, async_trait};

use crate::backend::Actions;
use crate::config::Target;
use crate::credential::{Credential, now};
use crate::failure::text;
use crate::wire::{Guarded, Listed, Repository, Webhook};
use crate::workflow::{self, MARKER, Workflow};

/// Tolerated difference of this machine's clock for an App: its requests are signed with the time, and GitHub
/// tolerates about a minute. For a token, five times as much is tolerated.
const BORNE: Duration = Duration::from_secs(60);

/// Maximum number of people's tokens that are tried.
const MOST_PERSONS: usize = 50;

#[async_trait]
impl Checkup for Actions {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let targets: Vec<(&str, Result<Target, String>)> = tools
            .iter()
            .map(|ToolTarget { tool, target }| {
                (tool.as_str(), Target::deserialize(target).map_err(|error| error.to_string()))
            })
            .collect();
        let named = targets.iter().filter_map(|(_, target)| target.as_ref().ok()?.repository.as_ref());
        let repositories: BTreeSet<&String> = self.repository.iter().chain(named).collect();
        let mut found = Vec::new();
        let mut seen = Vec::new();
        for repository in repositories {
            let path = format!("/repos/{repository}");
            match self
                .api
                .get_anew::<Repository>(&self.api.own, &format!("the repository {repository}"), &path)
                .await
            {
                Ok((headers, answer)) => {
                    if seen.is_empty() {
                        found.extend(self.of_credential(&headers, &answer));
                    }
                    found.push(self.of_repository(repository, &answer));
                    seen.push((repository, answer.default_branch));
                }
                Err(failure) => {
                    let needs_it = |target: &Target| {
                        target.repository.as_ref().or(self.repository.as_ref()) == Some(repository)
                    };
                    let tools = targets.iter().filter(|(_, target)| target.as_ref().is_ok_and(needs_it));
                    let tools: Vec<String> = tools.map(|(tool, _)| format!("`{tool}`")).collect();
                    found.push(unseen(repository, &failure.error, &tools));
                }
            }
        }
        if let Some((repository, _)) = seen.first() {
            found.extend(self.of_persons(repository).await);
        }
        for (tool, target) in &targets {
            let what = format!("tool `{tool}`");
            let target = match target {
                Ok(target) => target,
                Err(why) => {
                    found.push(Finding::fault(
                        what,
                        why,
                        "`taskbridge check` says what its target must hold",
                    ));
                    continue;
                }
            };
            let repository = target.repository.as_ref().or(self.repository.as_ref());
            match seen.iter().find(|(seen, _)| Some(*seen) == repository) {
                Some((repository, branch)) => {
                    found.extend(self.of_tool(&what, target, repository, branch).await)
                }
                // The fault of the repository names the tool.
                None if repository.is_some() => {}
                None => found.push(Finding::fault(
                    what,
                    "neither its target nor the backend names a repository",
                    "set `repository` in one of them",
                )),
            }
        }
        if self.webhook_secret.is_some() && self.repository.is_some() {
            found.push(self.of_webhook().await);
        }
        found
    }
}

impl Actions {
    fn of_credential(&self, headers: &HeaderMap, answer: &Repository) -> Vec<Finding> {
        let mut found = vec![self.credential.judge(headers, answer.private)];
        if let Some(theirs) = now(headers) {
            let ours = Timestamp::from_millis(jiff::Timestamp::now().as_millisecond());
            // Requests with a token are not signed, so a difference does no harm there.
            let borne = if self.credential == Credential::App { BORNE } else { 5 * BORNE };
            found.push(Finding::clock("GitHub", theirs, ours, borne));
        }
        let number = |name| text(headers, name)?.parse::<u64>().ok();
        if let (Some(left), Some(all)) = (number("x-ratelimit-remaining"), number("x-ratelimit-limit")) {
            let says = format!("{left} of {all} requests of this hour are left");
            found.push(match left > all / 10 {
                true => Finding::ok("allowance", says),
                false => Finding::warning(
                    "allowance",
                    says,
                    "see who else uses this credential, or give the server one of its own",
                ),
            });
        }
        found
    }

    /// Checks the tokens of up to `MOST_PERSONS` people against a repository.
    async fn of_persons(&self, repository: &str) -> Vec<Finding> {
        let Some(persons) = &self.persons else { return Vec::new() };
        let mut all: Vec<_> = persons.all().collect();
        all.sort_by_key(|(id, ..)| *id);
        let mut found = Vec::new();
        for (id, hand, kind) in all.iter().take(MOST_PERSONS) {
            let what = format!("token of `{id}`");
            let path = format!("/repos/{repository}");
            found.push(match self.api.get_anew::<Repository>(hand, &what, &path).await {
                Ok((_, answer)) if answer.permissions.as_ref().is_some_and(|may| !may.push) => {
                    Finding::fault(
                        what,
                        format!("its user may not write to {repository}, and so cannot start workflows"),
                        "give the user the role Write, or take another user's token",
                    )
                }
                Ok((headers, answer)) => Finding { what, ..kind.judge(&headers, answer.private) },
                Err(failure) => fault(what, &failure.error),
            });
        }
        if let Some(left) = all.len().checked_sub(MOST_PERSONS).filter(|left| *left > 0) {
            found.push(Finding::ok("per_caller", format!("{left} more tokens were not tried")));
        }
        found
    }

    fn of_repository(&self, name: &str, answer: &Repository) -> Finding {
        let what = format!("repository {name}");
        if !answer.full_name.is_empty() && !answer.full_name.eq_ignore_ascii_case(name) {
            let now = &answer.full_name;
            let says = format!(
                "it is called {now} now, and GitHub leads from the old name to it for as long as no other takes it"
            );
            return Finding::warning(what, says, format!("write {now} in `repository`"));
        }
        let may_write = answer.permissions.as_ref().is_none_or(|may| may.push);
        match self.credential.has_scopes() && !may_write {
            true => Finding::fault(
                what,
                "the token's user may not write to it, and so cannot start workflows",
                "give the user the role Write, or take another user's token",
            ),
            false => Finding::ok(what, format!("its default branch is {}", answer.default_branch)),
        }
    }

    async fn of_tool(&self, what: &str, target: &Target, repository: &str, branch: &str) -> Vec<Finding> {
        let file = &target.workflow;
        let path = format!("/repos/{repository}/actions/workflows/{file}");
        let listed = match self.api.get::<Listed>(&format!("the workflow {file}"), &path).await {
            Ok(listed) => listed,
            Err(failure) if failure.is(404) => {
                return vec![Finding::fault(
                    what,
                    format!("{repository} has no workflow {file} that this token may see"),
                    format!("put it into .github/workflows on {branch}, or mend `workflow`"),
                )];
            }
            Err(failure) => return vec![fault(what.to_owned(), &failure.error)],
        };
        if listed.state != "active" {
            let says = format!("{file} cannot be started: its state is {}", listed.state);
            return vec![Finding::fault(what, says, "enable it at GitHub, under Actions")];
        }
        if target.attach.is_some() || target.rerun.is_some() {
            let does = if target.rerun.is_some() { "runs again" } else { "follows" };
            return vec![Finding::ok(what, format!("it {does} runs of {file} in {repository}"))];
        }
        let chosen = target.git_ref.as_deref().filter(|git_ref| !git_ref.contains("{{"));
        let git_ref = chosen.unwrap_or(branch);
        let found = match workflow::at(&self.api, Duration::ZERO, repository, file, git_ref).await {
            Ok(found) => found,
            Err(error) => return vec![fault(what.to_owned(), &error)],
        };
        if let Some(finding) = of_inputs(what, target, &found) {
            return vec![finding];
        }
        let mut all = vec![Finding::ok(what, format!("it starts {file} in {repository} at {git_ref}"))];
        if !found.marked {
            all.push(Finding::warning(
                what,
                format!("runs of {file} carry no mark: if the answer to a start is lost, whether it began stays uncertain"),
                format!("declare the input `{MARKER}` in {file}, and show it in `run-name: ... ${{{{ inputs.{MARKER} }}}}`"),
            ));
        }
        for environment in &found.environments {
            all.extend(self.of_environment(what, repository, environment).await);
        }
        all
    }

    async fn of_environment(&self, what: &str, repository: &str, name: &str) -> Option<Finding> {
        let path = workflow::environment_path(repository, name);
        match self.api.get::<Guarded>("the environment", &path).await {
            Ok(found) if found.is_reviewed() && self.credential.is_no_user() && self.persons.is_none() => {
                Some(Finding::warning(
                    what,
                    format!("its runs wait for a review of the environment {name}, which an App cannot give"),
                    "have it given at GitHub, or take a user's token",
                ))
            }
            Ok(found) if found.is_reviewed() => {
                Some(Finding::ok(what, format!("its runs wait for a review of the environment {name}")))
            }
            Err(failure) if failure.is(404) => Some(Finding::warning(
                what,
                format!(
                    "{repository} has no environment {name}: GitHub makes it with the first run, and nothing guards it"
                ),
                "make it in the repository's settings, with who must review",
            )),
            // It has no reviewers, or the token may not see it. Neither prevents a run from starting.
            _ => None,
        }
    }

    async fn of_webhook(&self) -> Finding {
        let (what, place) = ("webhook", format!("/hooks/{}", self.name));
        let repository = self.repository.as_deref().unwrap_or_default();
        let path = format!("/repos/{repository}/hooks?per_page=100");
        let hooks = match self.api.get::<Vec<Webhook>>("the webhooks", &path).await {
            Ok(hooks) => hooks,
            Err(failure) if failure.is(403) || failure.is(404) => {
                let says = format!(
                    "deliveries to {place} are taken; this token may not see whether GitHub sends any"
                );
                return Finding::ok(what, says);
            }
            Err(failure) => return fault(what.to_owned(), &failure.error),
        };
        let here = |hook: &&Webhook| {
            hook.config.url.as_deref().is_some_and(|url| url.trim_end_matches('/').ends_with(&place))
        };
        let Some(hook) = hooks.iter().find(here) else {
            return Finding::warning(
                what,
                format!("no webhook of {repository} posts to {place}"),
                format!(
                    "add one there: the server's address with {place}, content type application/json, the same secret, the \
                         events Workflow runs, Workflow jobs and Deployment reviews"
                ),
            );
        };
        let wrong = match hook {
            hook if !hook.active => Some(("it is not active".to_owned(), "activate it")),
            hook if hook.config.content_type.as_deref() != Some("json") => {
                Some(("it does not post JSON".to_owned(), "set its content type to application/json"))
            }
            hook if !hook.events.iter().any(|event| event == "workflow_run" || event == "*") => {
                Some(("it does not tell of runs".to_owned(), "have it send Workflow runs"))
            }
            hook => hook.last_response.code.filter(|code| !(200..300).contains(code)).map(|code| {
                (
                    format!("its last delivery was answered with {code}"),
                    "look at its recent deliveries at GitHub",
                )
            }),
        };
        match wrong {
            Some((says, fix)) => {
                Finding::warning(what, format!("{repository} posts to {place}: {says}"), fix)
            }
            None => Finding::ok(what, format!("{repository} posts to {place}")),
        }
    }
}

/// Returns a fault if the `inputs` of a target do not match those of the workflow. A target without `inputs`
/// is not checked, because it passes on the tool's arguments.
fn of_inputs(what: &str, target: &Target, found: &Workflow) -> Option<Finding> {
    let given = target.inputs.as_ref()?;
    let unknown = given.keys().find(|name| !found.inputs.iter().any(|input| input.name == **name));
    let needed = found.inputs.iter().find(|input| {
        input.required && input.default.is_none() && input.name != MARKER && !given.contains_key(&input.name)
    });
    let file = &target.workflow;
    match (unknown, needed) {
        (Some(name), _) => Some(Finding::fault(
            what,
            format!("it gives the input `{name}`, which {file} does not have"),
            "mend `inputs` in its target",
        )),
        (None, Some(input)) => Some(Finding::fault(
            what,
            format!("it does not give the input `{}`, which {file} needs", input.name),
            "add it to `inputs` in its target",
        )),
        _ => None,
    }
}

/// Returns one fault for a repository that cannot be read, for all tools that need it.
fn unseen(repository: &str, error: &Error, tools: &[String]) -> Finding {
    let mut fault = fault(format!("repository {repository}"), error);
    match tools.len() {
        0 => {}
        1 => fault.says.push_str(&format!("; the tool {} was not checked", tools[0])),
        _ => fault.says.push_str(&format!("; the tools {} were not checked", tools.join(", "))),
    }
    fault
}

fn fault(what: String, error: &Error) -> Finding {
    let fix = match error.kind() {
        ErrorKind::Denied => "make a token with the permissions that README.md of this adapter lists",
        ErrorKind::Config => "mend the name, or let the token see it",
        ErrorKind::Limited { .. } => "wait until GitHub answers again",
        _ => "see whether the API can be reached from here (`api`), and https://www.githubstatus.com",
    };
    Finding::fault(what, error.to_string(), fix)
}
