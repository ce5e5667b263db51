//! One simulated job. Its state depends only on its target, the actions on it, and the current time, which
//! the caller passes in. It must not read a clock.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{Outcome, Target, log};
use crate::{
    Answer, AnswerOutcome, Artifact, JobKey, JobState, Level, LogRequest, LogText, Note, Observation, Output,
    Question,
};

/// Id of a job's only question.
const QUESTION: &str = "q1";

pub(super) struct Job {
    pub(super) key: JobKey,
    target: Target,
    pub(super) accepted_at: Instant,
    /// Time from which polls and searches find the job.
    listed_at: Instant,
    phase: Phase,
    answers: Vec<Answer>,
}

enum Phase {
    /// Working since this time, with some work done before.
    Working { since: Instant, prior_work: Duration, will_ask: bool },
    /// Waiting for the answer.
    Asking,
    /// Ended, after this amount of work.
    Ended { work_done: Duration, end: End },
}

enum End {
    AsSpecified,
    Declined,
    Cancelled,
    Forced(Box<JobState>),
    Forgotten,
}

impl Job {
    /// Creates a job that starts now and is listed after `start_lag`. It may be due to end immediately: see
    /// [`Job::advance`].
    pub(super) fn new(key: JobKey, target: Target, now: Instant, start_lag: Duration) -> Self {
        let will_ask = target.question.is_some();
        let phase = Phase::Working { since: now, prior_work: Duration::ZERO, will_ask };
        let listed_at = now + start_lag;
        Self { key, target, accepted_at: now, listed_at, phase, answers: Vec::new() }
    }

    /// Returns true if polls and searches find the job.
    pub(super) fn is_listed(&self, now: Instant) -> bool {
        now >= self.listed_at
    }

    /// Returns true if a poll of this job makes the adapter panic.
    pub(super) fn panics_on_poll(&self) -> bool {
        self.target.panic_on_poll
    }

    /// Returns true if the engine cannot stop this job.
    pub(super) fn cannot_be_cancelled(&self) -> bool {
        self.target.cannot_cancel
    }

    /// Returns true if the job gets a second name.
    pub(super) fn renames(&self) -> bool {
        self.target.renames
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(self.target.delay_ms)
    }

    /// Returns how much work is done before the question.
    fn work_before_question(&self) -> Duration {
        match &self.target.question {
            Some(ask) if !ask.at_once => self.delay() / 2,
            _ => Duration::ZERO,
        }
    }

    fn work_until_next(&self, will_ask: bool) -> Duration {
        if will_ask { self.work_before_question() } else { self.delay() }
    }

    /// Returns the time of the next automatic change. Returns `None` if there is none, or if it exceeds the
    /// clock's range.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.phase {
            Phase::Working { since, prior_work, will_ask } => {
                since.checked_add(self.work_until_next(will_ask).saturating_sub(prior_work))
            }
            Phase::Asking | Phase::Ended { .. } => None,
        }
    }

    /// Applies a change that is due by now. Returns true if there was one.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        if self.due().is_none_or(|due| due > now) {
            return false;
        }
        self.phase = match self.phase {
            Phase::Working { will_ask: true, .. } => Phase::Asking,
            _ if self.target.outcome == Outcome::Gone => {
                Phase::Ended { work_done: self.delay(), end: End::Forgotten }
            }
            _ => Phase::Ended { work_done: self.delay(), end: End::AsSpecified },
        };
        true
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended { .. })
    }

    pub(super) fn is_forgotten(&self) -> bool {
        matches!(self.phase, Phase::Ended { end: End::Forgotten, .. })
    }

    fn work_done(&self, now: Instant) -> Duration {
        match self.phase {
            Phase::Working { since, prior_work, will_ask } => {
                (prior_work + now.saturating_duration_since(since)).min(self.work_until_next(will_ask))
            }
            Phase::Asking => self.work_before_question(),
            Phase::Ended { work_done, .. } => work_done,
        }
    }

    /// Returns the share of `units` that the work so far has completed.
    fn completed_units(&self, units: usize, now: Instant) -> usize {
        let delay = self.delay().as_nanos();
        if delay == 0 {
            return if self.has_ended() { units } else { 0 };
        }
        usize::try_from(units as u128 * self.work_done(now).as_nanos() / delay).unwrap_or(units)
    }

    pub(super) fn observe(&self, now: Instant) -> Observation {
        let mut observation = match &self.phase {
            Phase::Working { .. } => Observation::new(JobState::Running),
            Phase::Asking => {
                let mut observation =
                    Observation::new(JobState::Running).with_message("waiting for an answer");
                observation.questions = self
                    .target
                    .question
                    .iter()
                    .map(|ask| Question {
                        id: QUESTION.to_owned(),
                        message: ask.message.clone(),
                        ask: ask.answer_kind(),
                    })
                    .collect();
                observation
            }
            Phase::Ended { end, .. } => self.final_observation(end),
        };
        if let Some(steps) = self.target.steps
            && observation.state != JobState::Gone
        {
            let done = self.completed_units(steps as usize, now);
            if matches!(self.phase, Phase::Working { .. }) {
                observation.message = Some(format!("step {done} of {steps}"));
            }
            observation = observation.with_progress(done as f64, Some(f64::from(steps)));
        }
        if observation.state != JobState::Gone {
            observation.link = self.target.link.clone();
            let notes = &self.target.notes[..self.completed_units(self.target.notes.len(), now)];
            observation.notes = (1..).zip(notes).map(|(n, text)| Note::text(n, Level::Info, text)).collect();
        }
        let wait = self.target.retry_after_ms.filter(|_| !self.has_ended());
        observation.retry_after = wait.map(Duration::from_millis);
        observation
    }

    fn final_observation(&self, end: &End) -> Observation {
        let text = self.target.text.as_deref();
        match end {
            End::AsSpecified if self.target.outcome == Outcome::Fail => {
                let reason = text.unwrap_or("the job failed");
                Observation::new(JobState::Failed(self.output(reason))).with_message(reason)
            }
            End::AsSpecified => Observation::new(JobState::Succeeded(self.output(text.unwrap_or("done")))),
            End::Declined => {
                let reason = "the question was not answered";
                Observation::new(JobState::Failed(Output::text(reason))).with_message(reason)
            }
            End::Cancelled => {
                Observation::new(JobState::Cancelled(Output::default())).with_message("cancelled on request")
            }
            End::Forced(state) => Observation::new(JobState::clone(state)),
            End::Forgotten => Observation::new(JobState::Gone),
        }
    }

    fn output(&self, text: &str) -> Output {
        let mut output = Output { structured: self.target.structured.clone(), ..Output::text(text) };
        for answer in &self.answers {
            let Answer::Accept(content) = answer else { continue };
            let answer = json!({"answer": content});
            output.content.push(crate::Content::text(answer.to_string()));
            output.structured.get_or_insert(answer);
        }
        output.artifacts = self
            .target
            .files
            .iter()
            .map(|(name, content)| Artifact {
                name: name.clone(),
                mime_type: Some("text/plain".to_owned()),
                size: Some(content.len() as u64),
            })
            .collect();
        output
    }

    fn end(&mut self, end: End, now: Instant) {
        self.phase = Phase::Ended { work_done: self.work_done(now), end };
    }

    pub(super) fn cancel(&mut self, now: Instant) {
        if !self.has_ended() && !self.target.ignore_cancel {
            self.end(End::Cancelled, now);
        }
    }

    pub(super) fn answer(&mut self, question: &str, answer: Answer, now: Instant) -> AnswerOutcome {
        if question != QUESTION || self.is_forgotten() {
            return AnswerOutcome::TooLate;
        }
        if self.answers.last() == Some(&answer) {
            return AnswerOutcome::Accepted;
        }
        if !matches!(self.phase, Phase::Asking) {
            return AnswerOutcome::TooLate;
        }
        let times = self.target.question.as_ref().map_or(0, |ask| ask.times as usize);
        match &answer {
            Answer::Accept(_) => {
                let prior_work = self.work_before_question();
                let will_ask = self.answers.len() + 1 < times;
                self.phase = Phase::Working { since: now, prior_work, will_ask };
            }
            Answer::Decline | Answer::Cancel => self.end(End::Declined, now),
        }
        self.answers.push(answer);
        AnswerOutcome::Accepted
    }

    /// Completes the work up to the question or the end, if the job works.
    pub(super) fn hasten(&mut self, now: Instant) {
        if let Phase::Working { will_ask, .. } = self.phase {
            self.phase = Phase::Working { since: now, prior_work: self.work_until_next(will_ask), will_ask };
        }
    }

    /// Ends the job in this state, unless it has already ended.
    pub(super) fn finish(&mut self, state: JobState, now: Instant) {
        if !self.has_ended() {
            let end = match state {
                JobState::Gone => End::Forgotten,
                state => End::Forced(Box::new(state)),
            };
            self.end(end, now);
        }
    }

    pub(super) fn forget(&mut self, now: Instant) {
        self.end(End::Forgotten, now);
    }

    pub(super) fn log(&self, request: &LogRequest, now: Instant) -> LogText {
        let total = self.target.lines.len();
        let printed = if self.has_ended() {
            self.completed_units(total, now)
        } else {
            self.completed_units(total, now) + 1
        };
        log::end(&self.target.lines[..printed.min(total)], request)
    }

    /// Returns a file that the job left. Returns `None` if the job has not ended by itself, or left no file
    /// with that name.
    pub(super) fn file(&self, name: &str) -> Option<&str> {
        match self.phase {
            Phase::Ended { end: End::AsSpecified, .. } => self.target.files.get(name).map(String::as_str),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_steps_follow_the_work() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let key = JobKey::from_bytes([0; 16]);
        let target = Target {
            delay_ms: 100,
            steps: Some(4),
            lines: ["a", "b"].map(str::to_owned).to_vec(),
            ..Target::default()
        };
        let mut job = Job::new(key, target, start, Duration::ZERO);
        let all = LogRequest { max_bytes: 100, search: None };
        assert_eq!(job.log(&all, at(0)).text, "a\n");
        assert_eq!(job.log(&all, at(50)).text, "a\nb\n");
        assert_eq!(job.observe(at(75)).message.as_deref(), Some("step 3 of 4"));
        assert!(!job.advance(at(99)));
        assert!(job.advance(at(100)));
        assert_eq!(job.observe(at(100)).progress.map(|p| p.done), Some(4.0));
        assert_eq!(job.log(&all, at(100)).text, "a\nb\n");
    }

    /// Work that is hastened is due at once, up to the question and then up to the end.
    #[test]
    fn hastened_work_is_due_at_once() {
        let now = Instant::now();
        let target = json!({"delay_ms": 3_600_000, "text": "all is well", "question": {"message": "Go on?"}});
        let target = Target::of_call(&target, &json!({})).unwrap();
        let mut job = Job::new(JobKey::from_bytes([0; 16]), target, now, Duration::ZERO);
        assert!(!job.advance(now));
        job.hasten(now);
        assert!(job.advance(now) && job.observe(now).questions.len() == 1);
        job.hasten(now);
        assert!(!job.advance(now), "nobody has answered");
        job.answer(QUESTION, Answer::Accept(serde_json::Map::new()), now);
        assert!(!job.advance(now));
        job.hasten(now);
        assert!(job.advance(now) && job.has_ended());
        assert!(matches!(job.observe(now).state, JobState::Succeeded(_)));
    }
}
