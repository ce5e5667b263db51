//! Gates of a run: environments that need an approval, and timers. An answer is a review at GitHub, given
//! with the configured credential or, with `per_caller`, with the token of the person who answers. If that
//! user may not review, the message names the reviewers, and the run continues after their review.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{
    Answer, JobHandle, JobState, Observation, OnBehalfOf, Question, Questions, Result, Taken, async_trait,
    one_line,
};
use tokio::time::Instant;

use crate::backend::Actions;
use crate::failure::Repeat;
use crate::handle::RunHandle;
use crate::wire::{PendingDeployment, Review, Run};

/// Maximum length of a comment, in characters.
const LONGEST: usize = 1000;

/// How long GitHub may list an environment after its review.
const REVIEW_LAG: Duration = Duration::from_secs(10);

/// Longer than GitHub lets a job wait for a review (30 days). A gate whose question was dismissed is listed
/// that long. Another gate has another id.
const LONGEST_WAIT: Duration = Duration::from_hours(35 * 24);

impl Actions {
    /// Returns the observation of a waiting run.
    pub(crate) async fn waiting(&self, place: &RunHandle, run: &Run) -> Result<Observation> {
        // Because reviews are read first, an id never counts a review that was given after the list of gates
        // was read.
        let age = self.lists.belief(&place.group(), place.run, Instant::now());
        let reviews = self.reviews(age, place).await?;
        let pending = self.pending(place).await?;
        let link = run.html_url.as_deref().unwrap_or_default();
        let mut seen = seen(place, &pending, &reviews, link, self.persons.is_some());
        let mut reviewed = self.reviewed.lock();
        reviewed.retain(|_, at| at.elapsed() < REVIEW_LAG);
        seen.questions.retain(|question| {
            let gate = Gate::parse(place, &question.id);
            gate.is_none_or(|gate| !reviewed.contains_key(&(place.run, gate.environment)))
        });
        Ok(seen)
    }

    /// Returns who last rejected a run, with their comment. `None` if no review rejected it.
    pub(crate) async fn rejection(&self, place: &RunHandle) -> Result<Option<String>> {
        let reviews = self.reviews(Duration::ZERO, place).await?;
        Ok(reviews.iter().rfind(|review| review.state == "rejected").map(|review| {
            let by = review.user.as_ref().and_then(|user| user.login.as_deref()).unwrap_or("a reviewer");
            let names: Vec<&str> = review.environments.iter().map(|one| one.name.as_str()).collect();
            let comment = review.comment.as_deref().map(one_line).filter(|words| !words.is_empty());
            let comment = comment.map(|words| format!(" with the comment {words:?}")).unwrap_or_default();
            format!("because {} rejected {}{comment}", one_line(by), one_line(&names.join(", ")))
        }))
    }

    /// Returns the reviews of a run, oldest first. `age` is the maximum age of the cached response.
    async fn reviews(&self, age: Duration, place: &RunHandle) -> Result<Vec<Review>> {
        let path = format!("{}/approvals", place.path());
        match self.api.get_within(age, "the reviews", &path).await {
            Ok(reviews) => Ok(reviews),
            Err(failure) if failure.is(404) => Ok(Vec::new()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the gates of a run. The cached response is used for as long as listed data about the run.
    async fn pending(&self, place: &RunHandle) -> Result<Vec<PendingDeployment>> {
        let path = format!("{}/pending_deployments", place.path());
        let age = self.lists.belief(&place.group(), place.run, Instant::now());
        Ok(self.api.get_within(age, "the pending deployments", &path).await?)
    }
}

/// Converts the gates of a run to an observation. With `per_caller`, whether a person may review is only
/// known when they answer.
fn seen(
    place: &RunHandle,
    pending: &[PendingDeployment],
    reviews: &[Review],
    link: &str,
    per_caller: bool,
) -> Observation {
    let mut seen = Observation::new(JobState::Running);
    let mut waits = Vec::new();
    for one in pending {
        let name = one_line(&one.environment.name);
        if one.reviewers.is_empty() && one.wait_timer > 0 {
            let since =
                one.wait_timer_started_at.as_deref().map(|at| format!(" from {at} on")).unwrap_or_default();
            waits.push(format!("`{name}` opens by itself after {} min{since}", one.wait_timer));
        } else if one.current_user_can_approve || per_caller {
            let by = if per_caller { format!(" by {}", who(one)) } else { String::new() };
            waits.push(format!("`{name}` waits for a review{by}"));
            let message = format!("May the run go on to the environment `{name}`? {link}");
            let environment = one.environment.id;
            let gate = Gate { environment, before: Some(of(reviews, environment).count()) };
            seen.questions.push(Question::form(gate.id(place), message, form()));
        } else {
            waits.push(format!("`{name}` waits for a review by {} at {link}", who(one)));
        }
    }
    seen.message = Some(match waits.is_empty() {
        true => "waits for GitHub to let it go on".to_owned(),
        false => one_line(&waits.join("; ")),
    });
    seen
}

/// Returns the reviews of an environment.
fn of(reviews: &[Review], environment: u64) -> impl Iterator<Item = &Review> {
    reviews.iter().filter(move |review| review.environments.iter().any(|one| one.id == environment))
}

/// Gate that a question is about. GitHub names environments and not gates, and several jobs of a run may wait
/// for one environment one after the other. The number of earlier reviews of the environment distinguishes
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gate {
    environment: u64,
    /// Number of earlier reviews of the environment. `None` in ids of earlier versions.
    before: Option<usize>,
}

impl Gate {
    fn id(self, place: &RunHandle) -> String {
        let Self { environment, before } = self;
        match before {
            Some(before) => format!("{}.{environment}.{before}", place.attempt),
            None => format!("{}.{environment}", place.attempt),
        }
    }

    fn parse(place: &RunHandle, id: &str) -> Option<Self> {
        let rest = id.strip_prefix(&format!("{}.", place.attempt))?;
        let (environment, before) = match rest.split_once('.') {
            Some((environment, before)) => (environment, Some(before.parse().ok()?)),
            None => (rest, None),
        };
        Some(Self { environment: environment.parse().ok()?, before })
    }

    /// Returns the review of this gate, if it was given: the first one of the environment after the earlier
    /// ones.
    fn review(self, reviews: &[Review]) -> Option<&Review> {
        of(reviews, self.environment).nth(self.before.unwrap_or(0))
    }
}

fn form() -> Value {
    json!({
        "type": "object",
        "properties": {"comment": {
            "type": "string", "title": "Comment", "description": "Kept with the review at GitHub.", "maxLength": LONGEST,
        }},
    })
}

fn who(pending: &PendingDeployment) -> String {
    let name = |named: &crate::wire::Named| named.login.clone().or_else(|| named.name.clone());
    let names: Vec<String> = pending.reviewers.iter().filter_map(|one| name(&one.reviewer)).collect();
    if names.is_empty() { "somebody who may".to_owned() } else { names.join(" or ") }
}

#[async_trait]
impl Questions for Actions {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<Taken> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        whom: Option<&OnBehalfOf>,
    ) -> Result<Taken> {
        let Some(place) = RunHandle::parse(handle) else { return Ok(Taken::TooLate) };
        let Some(gate) = Gate::parse(&place, question) else { return Ok(Taken::TooLate) };
        let environment = gate.environment;
        let (state, comment) = match answer {
            Answer::Accept(content) => {
                ("approved", content.get("comment").and_then(Value::as_str).unwrap_or_default())
            }
            Answer::Decline => ("rejected", ""),
            // GitHub has no such review: the run waits until a reviewer decides there.
            Answer::Cancel => return Ok(Taken::Accepted),
        };
        let path = format!("{}/pending_deployments", place.path());
        let by = self.client_for(whom)?;
        // The gate that waits now may be the next one of the environment, which this answer is not for.
        if gate.before.is_some()
            && let Some(review) = gate.review(&self.reviews(Duration::ZERO, &place).await?)
        {
            return Ok(taken(review, state));
        }
        let seen = self.api.get_anew::<Vec<PendingDeployment>>(by, "the pending deployments", &path).await;
        let pending = match seen {
            Ok((_, pending)) => pending,
            Err(failure) if failure.is(404) => return Ok(Taken::TooLate),
            Err(failure) => return Err(failure.into()),
        };
        let waits = pending.iter().find(|one| one.environment.id == environment);
        if self.persons.is_some() && waits.is_some_and(|one| !one.current_user_can_approve) {
            // The run waits for a permitted reviewer, and its message names them.
            return Ok(Taken::NotAllowed);
        }
        if waits.is_some() {
            let comment: String = comment.chars().take(LONGEST).collect();
            let comment =
                if comment.trim().is_empty() { "Reviewed through taskbridge.".to_owned() } else { comment };
            let review = json!({"environment_ids": [environment], "state": state, "comment": comment});
            self.lists.mark_changed(place.run, Instant::now());
            match self.api.post(by, "review", Repeat::Safe, &path, Some(&review)).await {
                Ok(_) => {
                    self.reviewed.lock().insert((place.run, environment), Instant::now());
                    return Ok(Taken::Accepted);
                }
                // Another review came first.
                Err(failure) if failure.is(422) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        let reviews = self.reviews(Duration::ZERO, &place).await?;
        Ok(gate.review(&reviews).map_or(Taken::TooLate, |review| taken(review, state)))
    }

    fn list_lag(&self) -> Duration {
        LONGEST_WAIT
    }
}

/// Returns whether the review at GitHub equals this answer.
fn taken(review: &Review, state: &str) -> Taken {
    if review.state == state { Taken::Accepted } else { Taken::TooLate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(value: Value) -> Observation {
        let place = RunHandle::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        seen(
            &place,
            &serde_json::from_value::<Vec<PendingDeployment>>(value).unwrap(),
            &[],
            "https://github.com/o/r/actions/runs/7",
            false,
        )
    }

    /// A token that may review gets a question. Otherwise the message names the reviewers.
    #[test]
    fn only_permitted_reviewer_is_asked() {
        let user = json!([{"type": "User", "reviewer": {"login": "octocat"}}, {"type": "Team", "reviewer": {"name": "ops"}}]);
        let one = |may: bool| json!([{"environment": {"id": 5, "name": "production"}, "current_user_can_approve": may, "reviewers": user}]);
        let asked = pending(one(true));
        assert_eq!((asked.state, asked.questions.len()), (JobState::Running, 1));
        assert_eq!(asked.questions[0].id, "2.5.0");
        assert!(asked.questions[0].message.contains("`production`"));
        let told = pending(one(false));
        assert_eq!(told.questions, []);
        assert_eq!(
            told.message.as_deref(),
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
        let told = pending(timer);
        assert_eq!(told.questions, []);
        assert_eq!(
            told.message.as_deref(),
            Some("`production` opens by itself after 30 min from 2026-11-22T02:00:00Z on")
        );
        assert!(pending(json!([])).message.is_some());
    }

    use crate::standin::{ENVIRONMENT, Repository, Standin};

    async fn asked(backend: &Actions) -> Vec<String> {
        let place = RunHandle::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        let seen = backend.waiting(&place, &Run::default()).await.unwrap();
        seen.questions.into_iter().map(|question| question.id).collect()
    }

    /// Two jobs of one run wait for the same environment, one after the other.
    #[tokio::test]
    async fn second_gate_is_asked() {
        let standin = Standin::new(Repository { gates: 2, ..Repository::default() });
        let backend = standin.connect("one").await;
        let run = JobHandle::new("o/r/w.yml/7/2");
        let first = format!("2.{ENVIRONMENT}.0");
        assert_eq!(asked(&backend).await, std::slice::from_ref(&first));
        let yes = Answer::Accept(serde_json::Map::new());
        assert_eq!(backend.answer(&run, &first, &yes).await.unwrap(), Taken::Accepted);
        assert!(asked(&backend).await.is_empty(), "it may still be the gate that was just reviewed");
        // Another process does not know of that review.
        let other = standin.connect("two").await;
        let second = format!("2.{ENVIRONMENT}.1");
        assert_eq!(asked(&other).await, std::slice::from_ref(&second));
        // The first answer, sent again, does not open the second gate.
        assert_eq!(other.answer(&run, &first, &yes).await.unwrap(), Taken::Accepted);
        assert_eq!(other.answer(&run, &first, &Answer::Decline).await.unwrap(), Taken::TooLate);
        assert_eq!(standin.repository.lock().reviews, ["approved"]);
        assert_eq!(other.answer(&run, &second, &Answer::Decline).await.unwrap(), Taken::Accepted);
        assert_eq!(standin.repository.lock().reviews, ["approved", "rejected"]);
    }

    /// Rows of earlier versions have ids without a count.
    #[tokio::test]
    async fn older_question_id_is_answered() {
        let standin = Standin::new(Repository { gates: 1, ..Repository::default() });
        let backend = standin.connect("one").await;
        let run = JobHandle::new("o/r/w.yml/7/2");
        let yes = Answer::Accept(serde_json::Map::new());
        for _ in 0..2 {
            let taken = backend.answer(&run, &format!("2.{ENVIRONMENT}"), &yes).await.unwrap();
            assert_eq!(taken, Taken::Accepted);
        }
        assert_eq!(standin.repository.lock().reviews, ["approved"]);
    }
}
