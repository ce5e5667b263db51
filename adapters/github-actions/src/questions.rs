//! What a run waits for: environments that somebody must approve, and timers. An answer is a review at GitHub, given as the
//! configured user. Where that user may not review, the message says who may, and the run goes on when they did.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{
    Answer, JobHandle, JobState, Observation, OnBehalfOf, Question, Questions, Result, Taken, async_trait,
    one_line,
};
use tokio::time::Instant;

use crate::backend::Actions;
use crate::failure::Repeat;
use crate::handle::Place;
use crate::wire::{Pending, Review, Run};

/// The longest comment that is handed over, in characters.
const LONGEST: usize = 1000;

/// How long GitHub may go on listing an environment that was just reviewed.
const REVIEW_LAG: Duration = Duration::from_secs(10);

/// Longer than GitHub lets a job wait for a review (30 days). A gate whose question was dismissed is listed for that long; another
/// gate has another id.
const LONGEST_WAIT: Duration = Duration::from_hours(35 * 24);

impl Actions {
    /// A look at a run that waits.
    pub(crate) async fn waiting(&self, place: &Place, run: &Run) -> Result<Observation> {
        // In this order, an id never counts a review that was given after the list of gates was read.
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

    /// Who rejected a run, and with which comment.
    pub(crate) async fn rejection(&self, place: &Place) -> Result<Option<String>> {
        let reviews = self.reviews(Duration::ZERO, place).await?;
        Ok(reviews.iter().rfind(|review| review.state == "rejected").map(|review| {
            let by = review.user.as_ref().and_then(|user| user.login.as_deref()).unwrap_or("a reviewer");
            let names: Vec<&str> = review.environments.iter().map(|one| one.name.as_str()).collect();
            let comment = review.comment.as_deref().map(one_line).filter(|words| !words.is_empty());
            let comment = comment.map(|words| format!(" with the comment {words:?}")).unwrap_or_default();
            format!("because {} rejected {}{comment}", one_line(by), one_line(&names.join(", ")))
        }))
    }

    /// The reviews that a run has had.
    async fn reviews(&self, age: Duration, place: &Place) -> Result<Vec<Review>> {
        let path = format!("{}/approvals", place.path());
        match self.api.get_within(age, "the reviews", &path).await {
            Ok(reviews) => Ok(reviews),
            Err(failure) if failure.is(404) => Ok(Vec::new()),
            Err(failure) => Err(failure.into()),
        }
    }

    /// What was said of it lately is believed for as long as what a list says of the run.
    async fn pending(&self, place: &Place) -> Result<Vec<Pending>> {
        let path = format!("{}/pending_deployments", place.path());
        let age = self.lists.belief(&place.group(), place.run, Instant::now());
        Ok(self.api.get_within(age, "the pending deployments", &path).await?)
    }
}

/// What the environments that a run waits for make of it. Where each person reviews as themselves, whether they may is seen when
/// they do.
fn seen(place: &Place, pending: &[Pending], reviews: &[Review], link: &str, per_caller: bool) -> Observation {
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

/// The reviews of an environment.
fn of(reviews: &[Review], environment: u64) -> impl Iterator<Item = &Review> {
    reviews.iter().filter(move |review| review.environments.iter().any(|one| one.id == environment))
}

/// What one question is about. GitHub names environments and not gates, and several jobs of a run may wait for one environment one
/// after the other: a gate is told from the next by the number of reviews of its environment before it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gate {
    environment: u64,
    /// `None` in ids of earlier versions.
    before: Option<usize>,
}

impl Gate {
    fn id(self, place: &Place) -> String {
        let Self { environment, before } = self;
        match before {
            Some(before) => format!("{}.{environment}.{before}", place.attempt),
            None => format!("{}.{environment}", place.attempt),
        }
    }

    fn parse(place: &Place, id: &str) -> Option<Self> {
        let rest = id.strip_prefix(&format!("{}.", place.attempt))?;
        let (environment, before) = match rest.split_once('.') {
            Some((environment, before)) => (environment, Some(before.parse().ok()?)),
            None => (rest, None),
        };
        Some(Self { environment: environment.parse().ok()?, before })
    }

    /// The review that this gate has had.
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

fn who(pending: &Pending) -> String {
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
        let Some(place) = Place::parse(handle) else { return Ok(Taken::TooLate) };
        let Some(gate) = Gate::parse(&place, question) else { return Ok(Taken::TooLate) };
        let environment = gate.environment;
        let (state, comment) = match answer {
            Answer::Accept(content) => {
                ("approved", content.get("comment").and_then(Value::as_str).unwrap_or_default())
            }
            Answer::Decline => ("rejected", ""),
            // GitHub knows no such review: the run goes on waiting, for a review that somebody gives there.
            Answer::Cancel => return Ok(Taken::Accepted),
        };
        let path = format!("{}/pending_deployments", place.path());
        let by = self.hand(whom)?;
        // What waits now may be the next gate of the environment, for which this answer was not given.
        if gate.before.is_some()
            && let Some(review) = gate.review(&self.reviews(Duration::ZERO, &place).await?)
        {
            return Ok(taken(review, state));
        }
        let seen = self.api.get_anew::<Vec<Pending>>(by, "the pending deployments", &path).await;
        let pending = match seen {
            Ok((_, pending)) => pending,
            Err(failure) if failure.is(404) => return Ok(Taken::TooLate),
            Err(failure) => return Err(failure.into()),
        };
        let waits = pending.iter().find(|one| one.environment.id == environment);
        if self.persons.is_some() && waits.is_some_and(|one| !one.current_user_can_approve) {
            // The run goes on waiting for somebody who may, and its message says who that is.
            return Ok(Taken::NotAllowed);
        }
        if waits.is_some() {
            let comment: String = comment.chars().take(LONGEST).collect();
            let comment =
                if comment.trim().is_empty() { "Reviewed through taskbridge.".to_owned() } else { comment };
            let review = json!({"environment_ids": [environment], "state": state, "comment": comment});
            self.lists.stir(place.run, Instant::now());
            match self.api.post(by, "review", Repeat::Safe, &path, Some(&review)).await {
                Ok(_) => {
                    self.reviewed.lock().insert((place.run, environment), Instant::now());
                    return Ok(Taken::Accepted);
                }
                // Somebody was quicker.
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

/// Whether the review that GitHub has is the one that was to be given.
fn taken(review: &Review, state: &str) -> Taken {
    if review.state == state { Taken::Accepted } else { Taken::TooLate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(value: Value) -> Observation {
        let place = Place::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        seen(
            &place,
            &serde_json::from_value::<Vec<Pending>>(value).unwrap(),
            &[],
            "https://github.com/o/r/actions/runs/7",
            false,
        )
    }

    #[test]
    fn who_may_review_is_asked_and_others_are_told_who_may() {
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

    #[test]
    fn a_timer_is_told_as_one() {
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
        let place = Place::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
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
        // Another process knows nothing of that.
        let other = standin.connect("two").await;
        let second = format!("2.{ENVIRONMENT}.1");
        assert_eq!(asked(&other).await, std::slice::from_ref(&second));
        // The first answer, given once more, does not open the second gate.
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
