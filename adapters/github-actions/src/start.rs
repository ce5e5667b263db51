//! How a run begins, and what is made of an answer that was lost or does not name the run. A dispatch has no key that GitHub
//! would know: the job's key is an input that the workflow shows in its title, and a run is found by that and by nothing else.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, ErrorKind, JobSpec, Observation, Result, Started};

use crate::api::parsed;
use crate::backend::Actions;
use crate::check::allows;
use crate::config::Target;
use crate::failure::{Failure, Repeat, one_line};
use crate::handle::{Place, runs_path};
use crate::inputs;
use crate::template::render;
use crate::wire::{Dispatched, Run, Runs};
use crate::workflow::{self, MARKER, Workflow};

/// The most pages of runs that are searched for a mark: GitHub lists a thousand.
const MOST_PAGES: usize = 10;

/// What is dispatched.
struct Order<'a> {
    repository: &'a str,
    workflow: &'a str,
    git_ref: &'a str,
    inputs: Map<String, Value>,
}

impl Actions {
    pub(crate) async fn begin(&self, job: &JobSpec) -> Result<Started> {
        let target = target(job)?;
        let repository = self.repository_of(&target)?;
        if let Some(template) = &target.attach {
            return self.attach(job, &target, repository, template).await;
        }
        if let Some(template) = &target.rerun {
            return self.run_again(job, &target, repository, template).await;
        }
        let git_ref = self.ref_of(job, &target, repository).await?;
        let found = self.workflow_of(&target, repository, &git_ref).await?;
        let inputs = inputs::of(job, &target, &found)?;
        if job.may_exist {
            return self
                .search(job, &target, repository, &found)
                .await?
                .ok_or_else(|| not_found(&target, &found));
        }
        let order = Order { repository, workflow: &target.workflow, git_ref: &git_ref, inputs };
        match self.dispatch(&order, &found).await? {
            Some(run) => {
                self.note_start(run);
                Ok(self.started(&order.place(run), None).await)
            }
            // It was taken, and GitHub does not say which run it made.
            None => self
                .search(job, &target, repository, &found)
                .await
                .ok()
                .flatten()
                .ok_or_else(|| Error::uncertain("GitHub took the dispatch and does not list the run yet")),
        }
    }

    /// Dispatches; the run, where GitHub names it.
    async fn dispatch(&self, order: &Order<'_>, found: &Workflow) -> Result<Option<u64>> {
        let what = format!("dispatch of {}", order.workflow);
        let path = format!("/repos/{}/actions/workflows/{}/dispatches", order.repository, order.workflow);
        if !self.keeps_run_details.load(Ordering::Relaxed) {
            match self.api.post(&what, Repeat::Unsafe, &path, Some(&order.body(true))).await {
                Ok((200, body)) => {
                    let made: Dispatched = parsed(&what, Repeat::Unsafe, &body)?;
                    return Ok(Some(made.workflow_run_id));
                }
                Ok(_) => return Ok(None),
                // An older GitHub Enterprise Server does not know the key, and has done nothing.
                Err(failure)
                    if failure.is(422) && failure.error.to_string().contains("return_run_details") =>
                {
                    self.keeps_run_details.store(true, Ordering::Relaxed);
                }
                Err(failure) => return Err(refused(order, failure)),
            }
        }
        if !found.marked {
            return Err(Error::config(format!(
                "this GitHub does not say which run a dispatch made, so {} must carry a mark: declare the input `{MARKER}` and \
                 show it in `run-name`",
                order.workflow
            )));
        }
        let sent = self.api.post(&what, Repeat::Unsafe, &path, Some(&order.body(false))).await;
        sent.map(|_| None).map_err(|failure| refused(order, failure))
    }

    /// Looks for the run of a job and starts none.
    pub(crate) async fn look_for(&self, job: &JobSpec) -> Result<Option<Started>> {
        let target = target(job)?;
        let repository = self.repository_of(&target)?;
        if let Some(template) = &target.attach {
            return match self.attach(job, &target, repository, template).await {
                Err(error) if error.kind() == ErrorKind::Rejected => Ok(None),
                found => found.map(Some),
            };
        }
        if let Some(template) = &target.rerun {
            return self.find_again(job, &target, repository, template).await;
        }
        let git_ref = self.ref_of(job, &target, repository).await?;
        let found = self.workflow_of(&target, repository, &git_ref).await?;
        self.search(job, &target, repository, &found).await
    }

    /// The run that carries the job's key, if one does.
    async fn search(
        &self,
        job: &JobSpec,
        target: &Target,
        repository: &str,
        found: &Workflow,
    ) -> Result<Option<Started>> {
        if !found.marked {
            return Ok(None);
        }
        for page in 1..=MOST_PAGES {
            let path = runs_path(repository, &target.workflow, page);
            let runs: Runs = self.api.get("the runs", &path).await?;
            let last = runs.workflow_runs.len() < 100;
            let carries = |run: &Run| {
                run.display_title.as_deref().is_some_and(|title| title.contains(job.key.as_str()))
            };
            let mut candidates = runs.workflow_runs.into_iter().filter(carries);
            if let Some(run) = candidates.next() {
                if let Some(other) = candidates.next() {
                    return Err(Error::uncertain(format!(
                        "two runs carry this job's key, {} and {}: look at GitHub which of them is meant",
                        run.id, other.id
                    )));
                }
                let place = Place {
                    repository: repository.to_owned(),
                    workflow: target.workflow.clone(),
                    run: run.id,
                    attempt: 1,
                    attached: false,
                };
                return Ok(Some(self.started(&place, Some(run)).await));
            }
            if last {
                break;
            }
        }
        Ok(None)
    }

    /// What is to be said of a run that was made or found: a look that fails is made up for later.
    pub(crate) async fn started(&self, place: &Place, run: Option<Run>) -> Started {
        let first: Option<Observation> = match run {
            Some(run) => self.judge(place, run).await.ok(),
            None => None,
        };
        Started { handle: place.handle(), first }
    }

    fn repository_of<'a>(&'a self, target: &'a Target) -> Result<&'a str> {
        let named = target.repository.as_deref().or(self.repository.as_deref());
        named.ok_or_else(|| Error::config("neither the target nor the backend names a `repository`"))
    }

    async fn ref_of(&self, job: &JobSpec, target: &Target, repository: &str) -> Result<String> {
        let rendered = match &target.git_ref {
            Some(template) => render(job, "ref", template)?,
            None => None,
        };
        let Some(git_ref) = rendered else { return workflow::default_branch(&self.api, repository).await };
        if !allows(target.allowed_refs.as_deref(), &git_ref) {
            let allowed = target.allowed_refs.as_deref().unwrap_or_default().join("`, `");
            return Err(Error::rejected(format!(
                "`{}` is not among the allowed refs: `{allowed}`",
                one_line(&git_ref)
            )));
        }
        Ok(git_ref)
    }

    /// The workflow's file. Where the caller chose the branch, it is the caller who is told that it is not there.
    async fn workflow_of(&self, target: &Target, repository: &str, git_ref: &str) -> Result<Workflow> {
        let found = workflow::at(&self.api, repository, &target.workflow, git_ref).await;
        let chosen = target.git_ref.as_deref().is_some_and(|template| template.contains("{{"));
        found.map_err(|error| match error.kind() {
            ErrorKind::Config if chosen => Error::rejected(error.to_string()),
            _ => error,
        })
    }
}

impl Order<'_> {
    fn body(&self, with_details: bool) -> Value {
        let mut body = json!({"ref": self.git_ref, "inputs": self.inputs});
        if with_details {
            body["return_run_details"] = true.into();
        }
        body
    }

    fn place(&self, run: u64) -> Place {
        Place {
            repository: self.repository.to_owned(),
            workflow: self.workflow.to_owned(),
            run,
            attempt: 1,
            attached: false,
        }
    }
}

/// GitHub's refusal of a dispatch. A workflow that is disabled is the deployment's fault and not the caller's.
fn refused(order: &Order<'_>, failure: Failure) -> Error {
    let words = failure.error.to_string();
    if failure.is(422) && words.contains("disabled workflow") {
        return Error::config(format!("{words}: enable {} at GitHub", order.workflow));
    }
    failure.into()
}

fn not_found(target: &Target, found: &Workflow) -> Error {
    let why = match found.marked {
        true => "no run carries this job's key".to_owned(),
        false => format!("the runs of {} carry no mark, so that none can be found", target.workflow),
    };
    Error::uncertain(format!("whether a run was started is not known: {why}"))
}

fn target(job: &JobSpec) -> Result<Target> {
    Target::deserialize(&job.target)
        .map_err(|e| Error::config(format!("the tool's target is not understood: {e}")))
}
