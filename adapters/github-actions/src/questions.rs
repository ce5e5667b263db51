//! Gates of a run: environments that need an approval, and timers. An answer is a review at GitHub, given
//! with the configured credential or, with `per_caller`, with the token of the person who answers. If that
//! user may not review, the message names the reviewers, and the run continues after their review.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{
    Answer, AnswerOutcome, JobHandle, JobState, Observation, OnBehalfOf, Question, Questions, Result,
    async_trait, one_line,
};
use tokio::time::Instant;

use crate::core::Actions;
use crate::driver::error::RetrySafety;
use crate::driver::wire::{PendingDeployment, Review, Run};
use crate::identity::handle::RunHandle;

/// Maximum length of a comment, in characters.
const MAX_COMMENT_CHARS: usize = 1000;

/// How long GitHub may list an environment after its review.
const REVIEW_LAG: Duration = Duration::from_secs(10);

/// Longer than GitHub lets a job wait for a review (30 days). A gate whose question was dismissed is listed
/// that long. Another gate has another id.
const MAX_REVIEW_WAIT: Duration = Duration::from_hours(35 * 24);

impl Actions {
    /// Returns the observation of a waiting run.
    pub(crate) async fn observe_waiting(&self, run_handle: &RunHandle, run: &Run) -> Result<Observation> {
        // Because reviews are read first, an id never counts a review that was given after the list of gates
        // was read.
        let max_age = self.list_cache.max_age(&run_handle.group(), run_handle.run, Instant::now());
        let reviews = self.reviews(max_age, run_handle).await?;
        let deployments = self.pending_deployments(run_handle).await?;
        let url = run.html_url.as_deref().unwrap_or_default();
        let mut observation =
            observe_gates(run_handle, &deployments, &reviews, url, self.caller_clients.is_some());
        let mut recent_reviews = self.recent_reviews.lock();
        recent_reviews.retain(|_, at| at.elapsed() < REVIEW_LAG);
        observation.questions.retain(|question| {
            let gate = Gate::parse(run_handle, &question.id);
            gate.is_none_or(|gate| !recent_reviews.contains_key(&(run_handle.run, gate.environment)))
        });
        Ok(observation)
    }

    /// Returns who last rejected a run, with their comment. `None` if no review rejected it.
    pub(crate) async fn rejection_reason(&self, run_handle: &RunHandle) -> Result<Option<String>> {
        let reviews = self.reviews(Duration::ZERO, run_handle).await?;
        Ok(reviews.iter().rfind(|review| review.state == "rejected").map(|review| {
            let by = review.user.as_ref().and_then(|user| user.login.as_deref()).unwrap_or("a reviewer");
            let names: Vec<&str> =
                review.environments.iter().map(|environment| environment.name.as_str()).collect();
            let comment = review.comment.as_deref().map(one_line).filter(|text| !text.is_empty());
            let comment = comment.map(|text| format!(" with the comment {text:?}")).unwrap_or_default();
            format!("because {} rejected {}{comment}", one_line(by), one_line(&names.join(", ")))
        }))
    }

    /// Returns the reviews of a run, oldest first. `max_age` is the maximum age of the cached response.
    async fn reviews(&self, max_age: Duration, run_handle: &RunHandle) -> Result<Vec<Review>> {
        let path = format!("{}/approvals", run_handle.path());
        match self.api.get_cached(max_age, "the reviews", &path).await {
            Ok(reviews) => Ok(reviews),
            Err(failure) if failure.has_status(404) => Ok(Vec::new()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the gates of a run. The cached response is used for as long as listed data about the run.
    async fn pending_deployments(&self, run_handle: &RunHandle) -> Result<Vec<PendingDeployment>> {
        let path = format!("{}/pending_deployments", run_handle.path());
        let max_age = self.list_cache.max_age(&run_handle.group(), run_handle.run, Instant::now());
        Ok(self.api.get_cached(max_age, "the pending deployments", &path).await?)
    }
}

/// Converts the gates of a run to an observation. With `per_caller`, whether a person may review is only
/// known when they answer.
fn observe_gates(
    run_handle: &RunHandle,
    deployments: &[PendingDeployment],
    reviews: &[Review],
    url: &str,
    per_caller: bool,
) -> Observation {
    let mut observation = Observation::new(JobState::Running);
    let mut messages = Vec::new();
    for deployment in deployments {
        let name = one_line(&deployment.environment.name);
        if deployment.reviewers.is_empty() && deployment.wait_timer > 0 {
            let start_text = deployment
                .wait_timer_started_at
                .as_deref()
                .map(|at| format!(" from {at}"))
                .unwrap_or_default();
            messages.push(format!("`{name}` waits for its timer: {} min{start_text}", deployment.wait_timer));
        } else if deployment.current_user_can_approve || per_caller {
            let by = if per_caller { format!(" by {}", reviewer_names(deployment)) } else { String::new() };
            messages.push(format!("`{name}` waits for a review{by}"));
            let message = format!("May the run deploy to the environment `{name}`? {url}");
            let environment = deployment.environment.id;
            let gate = Gate { environment, earlier_reviews: Some(reviews_of(reviews, environment).count()) };
            observation.questions.push(Question::form(gate.id(run_handle), message, form()));
        } else {
            messages.push(format!("`{name}` waits for a review by {} at {url}", reviewer_names(deployment)));
        }
    }
    observation.message = Some(match messages.is_empty() {
        true => "waits for GitHub to continue the run".to_owned(),
        false => one_line(&messages.join("; ")),
    });
    observation
}

/// Returns the reviews of an environment.
fn reviews_of(reviews: &[Review], environment: u64) -> impl Iterator<Item = &Review> {
    reviews.iter().filter(move |review| review.environments.iter().any(|reviewed| reviewed.id == environment))
}

/// Gate that a question is about. GitHub names environments and not gates, and several jobs of a run may wait
/// for one environment one after the other. The number of earlier reviews of the environment distinguishes
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gate {
    environment: u64,
    /// Number of earlier reviews of the environment. `None` in ids of earlier versions.
    earlier_reviews: Option<usize>,
}

impl Gate {
    fn id(self, run_handle: &RunHandle) -> String {
        let Self { environment, earlier_reviews } = self;
        match earlier_reviews {
            Some(earlier_reviews) => format!("{}.{environment}.{earlier_reviews}", run_handle.attempt),
            None => format!("{}.{environment}", run_handle.attempt),
        }
    }

    fn parse(run_handle: &RunHandle, id: &str) -> Option<Self> {
        let rest = id.strip_prefix(&format!("{}.", run_handle.attempt))?;
        let (environment, earlier_reviews) = match rest.split_once('.') {
            Some((environment, earlier_reviews)) => (environment, Some(earlier_reviews.parse().ok()?)),
            None => (rest, None),
        };
        Some(Self { environment: environment.parse().ok()?, earlier_reviews })
    }

    /// Returns the review of this gate, if it was given: the first one of the environment after the earlier
    /// ones.
    fn review(self, reviews: &[Review]) -> Option<&Review> {
        reviews_of(reviews, self.environment).nth(self.earlier_reviews.unwrap_or(0))
    }
}

fn form() -> Value {
    json!({
        "type": "object",
        "properties": {"comment": {
            "type": "string", "title": "Comment", "description": "Kept with the review at GitHub.", "maxLength": MAX_COMMENT_CHARS,
        }},
    })
}

fn reviewer_names(deployment: &PendingDeployment) -> String {
    let name =
        |reviewer: &crate::driver::wire::UserOrTeam| reviewer.login.clone().or_else(|| reviewer.name.clone());
    let names: Vec<String> =
        deployment.reviewers.iter().filter_map(|reviewer| name(&reviewer.reviewer)).collect();
    if names.is_empty() { "a permitted reviewer".to_owned() } else { names.join(" or ") }
}

#[async_trait]
impl Questions for Actions {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        on_behalf_of: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        let Some(run_handle) = RunHandle::parse(handle) else { return Ok(AnswerOutcome::TooLate) };
        let Some(gate) = Gate::parse(&run_handle, question) else { return Ok(AnswerOutcome::TooLate) };
        let environment = gate.environment;
        let (state, comment) = match answer {
            Answer::Accept(content) => {
                ("approved", content.get("comment").and_then(Value::as_str).unwrap_or_default())
            }
            Answer::Decline => ("rejected", ""),
            // GitHub has no such review: the run waits until a reviewer decides there.
            Answer::Cancel => return Ok(AnswerOutcome::Accepted),
        };
        let path = format!("{}/pending_deployments", run_handle.path());
        let by = self.client_for(on_behalf_of)?;
        // The gate that waits now may be the next one of the environment, which this answer is not for.
        if gate.earlier_reviews.is_some()
            && let Some(review) = gate.review(&self.reviews(Duration::ZERO, &run_handle).await?)
        {
            return Ok(answer_outcome(review, state));
        }
        let result =
            self.api.get_uncached::<Vec<PendingDeployment>>(by, "the pending deployments", &path).await;
        let deployments = match result {
            Ok((_, deployments)) => deployments,
            Err(failure) if failure.has_status(404) => return Ok(AnswerOutcome::TooLate),
            Err(failure) => return Err(failure.into()),
        };
        let deployment = deployments.iter().find(|candidate| candidate.environment.id == environment);
        if self.caller_clients.is_some()
            && deployment.is_some_and(|candidate| !candidate.current_user_can_approve)
        {
            // The run waits for a permitted reviewer, and its message names them.
            return Ok(AnswerOutcome::NotAllowed);
        }
        if deployment.is_some() {
            let comment: String = comment.chars().take(MAX_COMMENT_CHARS).collect();
            let comment =
                if comment.trim().is_empty() { "Reviewed through taskbridge.".to_owned() } else { comment };
            let review = json!({"environment_ids": [environment], "state": state, "comment": comment});
            self.list_cache.mark_changed(run_handle.run, Instant::now());
            match self.api.post(by, "review", RetrySafety::Safe, &path, Some(&review)).await {
                Ok(_) => {
                    self.recent_reviews.lock().insert((run_handle.run, environment), Instant::now());
                    return Ok(AnswerOutcome::Accepted);
                }
                // Another review came first.
                Err(failure) if failure.has_status(422) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        let reviews = self.reviews(Duration::ZERO, &run_handle).await?;
        Ok(gate.review(&reviews).map_or(AnswerOutcome::TooLate, |review| answer_outcome(review, state)))
    }

    fn list_lag(&self) -> Duration {
        MAX_REVIEW_WAIT
    }
}

/// Returns whether the review at GitHub equals this answer.
fn answer_outcome(review: &Review, state: &str) -> AnswerOutcome {
    if review.state == state { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe_pending(value: Value) -> Observation {
        let run_handle = RunHandle::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        observe_gates(
            &run_handle,
            &serde_json::from_value::<Vec<PendingDeployment>>(value).unwrap(),
            &[],
            "https://github.com/o/r/actions/runs/7",
            false,
        )
    }

    /// A token that may review gets a question. Otherwise the message names the reviewers.
    #[test]
    fn only_permitted_reviewer_is_asked() {
        let reviewers = json!([{"type": "User", "reviewer": {"login": "octocat"}}, {"type": "Team", "reviewer": {"name": "ops"}}]);
        let deployments = |can_approve: bool| json!([{"environment": {"id": 5, "name": "production"}, "current_user_can_approve": can_approve, "reviewers": reviewers}]);
        let with_question = observe_pending(deployments(true));
        assert_eq!((with_question.state, with_question.questions.len()), (JobState::Running, 1));
        assert_eq!(with_question.questions[0].id, "2.5.0");
        assert!(with_question.questions[0].message.contains("`production`"));
        let without_question = observe_pending(deployments(false));
        assert_eq!(without_question.questions, []);
        assert_eq!(
            without_question.message.as_deref(),
            Some(
                "`production` waits for a review by octocat or ops at https://github.com/o/r/actions/runs/7"
            )
        );
    }

    /// An environment that waits for its timer is reported in the message.
    #[test]
    fn wait_timer_is_message_not_question() {
        let timer = json!([{"environment": {"id": 5, "name": "production"}, "current_user_can_approve": true, "wait_timer": 30,
            "wait_timer_started_at": "2026-11-22T02:00:00Z", "reviewers": []}]);
        let observation = observe_pending(timer);
        assert_eq!(observation.questions, []);
        assert_eq!(
            observation.message.as_deref(),
            Some("`production` waits for its timer: 30 min from 2026-11-22T02:00:00Z")
        );
        assert!(observe_pending(json!([])).message.is_some());
    }

    use crate::driver::tests::standin::{ENVIRONMENT, Repository, Standin};

    async fn question_ids(backend: &Actions) -> Vec<String> {
        let run_handle = RunHandle::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        let observation = backend.observe_waiting(&run_handle, &Run::default()).await.unwrap();
        observation.questions.into_iter().map(|question| question.id).collect()
    }

    /// Two jobs of one run wait for the same environment, one after the other.
    #[tokio::test]
    async fn second_gate_is_asked() {
        let standin = Standin::new(Repository { gates: 2, ..Repository::default() });
        let backend = standin.connect("one").await;
        let run = JobHandle::new("o/r/w.yml/7/2");
        let first = format!("2.{ENVIRONMENT}.0");
        assert_eq!(question_ids(&backend).await, std::slice::from_ref(&first));
        let approval = Answer::Accept(serde_json::Map::new());
        assert_eq!(backend.answer(&run, &first, &approval).await.unwrap(), AnswerOutcome::Accepted);
        assert!(question_ids(&backend).await.is_empty(), "GitHub may still list the reviewed gate");
        // Another process does not know of that review.
        let other = standin.connect("two").await;
        let second = format!("2.{ENVIRONMENT}.1");
        assert_eq!(question_ids(&other).await, std::slice::from_ref(&second));
        // The first answer, sent again, does not open the second gate.
        assert_eq!(other.answer(&run, &first, &approval).await.unwrap(), AnswerOutcome::Accepted);
        assert_eq!(other.answer(&run, &first, &Answer::Decline).await.unwrap(), AnswerOutcome::TooLate);
        assert_eq!(standin.repository.lock().reviews, ["approved"]);
        assert_eq!(other.answer(&run, &second, &Answer::Decline).await.unwrap(), AnswerOutcome::Accepted);
        assert_eq!(standin.repository.lock().reviews, ["approved", "rejected"]);
    }

    /// Rows of earlier versions have ids without a count.
    #[tokio::test]
    async fn older_question_id_is_answered() {
        let standin = Standin::new(Repository { gates: 1, ..Repository::default() });
        let backend = standin.connect("one").await;
        let run = JobHandle::new("o/r/w.yml/7/2");
        let approval = Answer::Accept(serde_json::Map::new());
        for _ in 0..2 {
            let outcome = backend.answer(&run, &format!("2.{ENVIRONMENT}"), &approval).await.unwrap();
            assert_eq!(outcome, AnswerOutcome::Accepted);
        }
        assert_eq!(standin.repository.lock().reviews, ["approved"]);
    }
}
