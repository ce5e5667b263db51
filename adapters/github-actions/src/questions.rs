//! What a run waits for: environments that somebody must approve, and timers. An answer is a review at GitHub, given as the
//! configured user. Where that user may not review, the message says who may, and the run goes on when they did.

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

impl Actions {
    /// A look at a run that waits.
    pub(crate) async fn waiting(&self, place: &Place, run: &Run) -> Result<Observation> {
        let pending = self.pending(place).await?;
        let link = run.html_url.as_deref().unwrap_or_default();
        Ok(seen(place, &pending, link, self.persons.is_some()))
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
fn seen(place: &Place, pending: &[Pending], link: &str, per_caller: bool) -> Observation {
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
            seen.questions.push(Question::form(id(place, one.environment.id), message, form()));
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

/// A question is about one environment and one attempt.
fn id(place: &Place, environment: u64) -> String {
    format!("{}.{environment}", place.attempt)
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
        let environment =
            question.strip_prefix(&format!("{}.", place.attempt)).and_then(|id| id.parse::<u64>().ok());
        let Some(environment) = environment else { return Ok(Taken::TooLate) };
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
                Ok(_) => return Ok(Taken::Accepted),
                // Somebody was quicker.
                Err(failure) if failure.is(422) => {}
                Err(failure) => return Err(failure.into()),
            }
        }
        self.was_reviewed(&place, environment, state).await
    }
}

impl Actions {
    /// Whether the review that GitHub has of this environment is the one that was to be given.
    async fn was_reviewed(&self, place: &Place, environment: u64, state: &str) -> Result<Taken> {
        let reviews: Vec<Review> =
            match self.api.get("the reviews", &format!("{}/approvals", place.path())).await {
                Ok(reviews) => reviews,
                Err(failure) if failure.is(404) => return Ok(Taken::TooLate),
                Err(failure) => return Err(failure.into()),
            };
        let of_this = |review: &&Review| review.environments.iter().any(|one| one.id == environment);
        let same = reviews.iter().find(of_this).is_some_and(|review| review.state == state);
        Ok(if same { Taken::Accepted } else { Taken::TooLate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(value: Value) -> Observation {
        let place = Place::parse(&JobHandle::new("o/r/w.yml/7/2")).unwrap();
        seen(
            &place,
            &serde_json::from_value::<Vec<Pending>>(value).unwrap(),
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
        assert_eq!(asked.questions[0].id, "2.5");
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
}
