//! Puts the history of a task into words, and finds the spans of time in it: waiting, running, asking.

use taskbridge_sdk::Timestamp;

use super::text::{exact, one_line};
use super::{Event, Lane, Tone};
use crate::auth::EVERYONE;
use crate::tasks::history::{AnswerKind, Fact, HistoryEntry};
use crate::tasks::service::View;
use crate::tasks::task::{Job, Outcome, Owner};

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bar {
    pub(super) lane: Lane,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    /// Class of the style sheet.
    pub(super) class: &'static str,
    pub(super) label: &'static str,
}

/// Returns the events of a history, in order. Changes of the process that acts are events, too.
pub(super) fn events(history: &[HistoryEntry], created_at: Timestamp) -> Vec<Event> {
    let mut events = Vec::new();
    let mut replica: Option<&str> = None;
    // True while it is unknown whether the engine took the last start.
    let mut is_lost = false;
    for entry in history {
        let at = entry.at.max(created_at);
        let name = entry.transition.replica.as_str();
        // Any process passes on what a client or an operator does: it does not take the task over by that.
        if !entry.transition.what.iter().any(is_passed_on) {
            if replica.is_some_and(|before| before != name) {
                let text = format!("server {} took over", short_name(name));
                events.push(Event { at, lane: Lane::Bridge, tone: Tone::Warn, text });
            }
            replica = Some(name);
        }
        for fact in &entry.transition.what {
            let (lane, tone, mut text) = match fact {
                Fact::Accepted(handle) if is_lost => {
                    let text = format!("found again by its key, as {}", one_line(handle.as_str(), 80));
                    (Lane::Engine, Tone::Good, text)
                }
                fact => words(fact),
            };
            is_lost = match fact {
                Fact::StartFailed { kind, .. } => kind == "uncertain",
                Fact::Attempt(_) | Fact::Accepted(_) => false,
                _ => is_lost,
            };
            if let Some(call) = entry.transition.call.filter(|_| lane == Lane::Engine) {
                text.push_str(&format!(" (call of {})", exact(std::time::Duration::from_millis(call.ms))));
            }
            events.push(Event { at, lane, tone, text });
        }
    }
    events
}

/// Returns true for what a process writes for a client or an operator, without acting on the job.
fn is_passed_on(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Sent(_)
            | Fact::Answered { .. }
            | Fact::CancelWished
            | Fact::RetryWished
            | Fact::OutcomeUnknown
            | Fact::CallerGone
            | Fact::ResultRead { .. }
    )
}

/// Returns the name of a process without its random part.
fn short_name(replica: &str) -> String {
    one_line(replica.split('.').next().unwrap_or(replica), 30)
}

fn words(fact: &Fact) -> (Lane, Tone, String) {
    use Lane::{Bridge, Client, Engine};
    use Tone::{Bad, Good, Plain, Warn};
    let key = |key: &str| one_line(key, 40);
    match fact {
        Fact::Created { .. } => (Client, Plain, "called".to_owned()),
        Fact::Queued => (Bridge, Warn, "waits for a free slot".to_owned()),
        Fact::Attempt(1) => (Bridge, Plain, "sends the start".to_owned()),
        Fact::Attempt(n) => (Bridge, Warn, format!("sends the start, attempt {n}")),
        Fact::TakenBack => (Bridge, Plain, "did not send the start".to_owned()),
        Fact::StartFailed { attempt, kind } if kind == "uncertain" => {
            (Bridge, Bad, format!("the reply to attempt {attempt} was lost"))
        }
        Fact::StartFailed { attempt, kind } => (Bridge, Bad, format!("attempt {attempt} failed: {kind}")),
        Fact::NotFound => (Bridge, Warn, "looked for the job by its key: none yet".to_owned()),
        Fact::FindFailed { kind } => (Bridge, Bad, format!("could not look for the job: {kind}")),
        Fact::Accepted(handle) => {
            (Engine, Good, format!("accepted the job as {}", one_line(handle.as_str(), 80)))
        }
        Fact::Progress(progress) => (
            Engine,
            Plain,
            match progress.total {
                Some(total) => format!("progress {} of {total}", progress.done),
                None => format!("progress {}", progress.done),
            },
        ),
        Fact::LooksFail { kind } => (Bridge, Bad, format!("the engine cannot be polled: {kind}")),
        Fact::LooksAgain => (Bridge, Good, "the engine can be polled again".to_owned()),
        Fact::Asked(name) => (Engine, Warn, format!("question {} asked", key(name))),
        Fact::Sent(name) => (Bridge, Plain, format!("question {} sent to a client", key(name))),
        Fact::Answered { key: name, how, by } => {
            let how = match how {
                AnswerKind::Accepted => "answered",
                AnswerKind::Declined => "declined",
                AnswerKind::Dismissed => "dismissed",
            };
            let by = by.as_ref().map(by_person).unwrap_or_default();
            (Client, Good, format!("question {} {how}{by}", key(name)))
        }
        Fact::AnswerTaken(name) => (Engine, Good, format!("accepted the answer to {}", key(name))),
        Fact::AnswerTooLate(name) => (Engine, Warn, format!("no longer needed the answer to {}", key(name))),
        Fact::AnswerFailed { key: name, times, kind } => (
            Bridge,
            Bad,
            format!("the answer to {} could not be delivered ({kind}, attempt {times})", key(name)),
        ),
        Fact::Withdrawn(name) => (Engine, Plain, format!("withdrew question {}", key(name))),
        Fact::CancelWished => (Client, Warn, "cancellation requested".to_owned()),
        Fact::CancelTaken => (Engine, Warn, "accepted the cancellation".to_owned()),
        Fact::CancelFailed { times, kind } => {
            (Bridge, Bad, format!("the cancellation failed ({kind}, attempt {times})"))
        }
        Fact::RetryWished => (Bridge, Plain, "retries at once, by request".to_owned()),
        Fact::OutcomeUnknown => (Bridge, Bad, "given up by an operator: the outcome is unknown".to_owned()),
        Fact::DeadlinePassed => (Bridge, Bad, "a deadline passed".to_owned()),
        Fact::CallerGone => (Client, Warn, "the caller disconnected".to_owned()),
        Fact::JobOver => (Engine, Plain, "the job is over".to_owned()),
        Fact::Ended(outcome) => (
            Bridge,
            match outcome {
                Outcome::Succeeded => Good,
                Outcome::Cancelled => Warn,
                Outcome::Failed | Outcome::Broken => Bad,
            },
            format!("ended: {}", outcome.as_str()),
        ),
        Fact::ResultRead { by } => (Client, Plain, format!("result read{}", by_person(by))),
    }
}

/// Returns who acted, after the word for the act.
fn by_person(person: &Owner) -> String {
    match person.as_str() {
        EVERYONE => " by the single user".to_owned(),
        name => format!(" by {}", one_line(name, 60)),
    }
}

/// Returns the spans of a task: in the queue, running in the engine, and waiting for answers. What has not
/// ended lasts until now.
pub(super) fn bars(history: &[HistoryEntry], view: &View, now: Timestamp) -> Vec<Bar> {
    let task = &view.task;
    let facts = || history.iter().flat_map(|entry| entry.transition.what.iter().map(|fact| (entry.at, fact)));
    let first = |wanted: &dyn Fn(&Fact) -> bool| facts().find(|(_, fact)| wanted(fact)).map(|(at, _)| at);
    let open_end = task.ended_at.unwrap_or(now);
    let mut bars = Vec::new();
    let mut add = |lane, from: Option<Timestamp>, until: Option<Timestamp>, class, label| {
        if let Some(from) = from {
            let until = until.unwrap_or(open_end).max(from);
            bars.push(Bar { lane, from, until, class, label });
        }
    };
    let accepted = first(&|fact| matches!(fact, Fact::Accepted(_)));
    let started = first(&|fact| matches!(fact, Fact::Attempt(_)));
    add(Lane::Bridge, first(&|fact| matches!(fact, Fact::Queued)), started.or(accepted), "wait", "queued");
    let over = first(&|fact| matches!(fact, Fact::JobOver)).or(match (task.ended_at, &task.job) {
        // The task was cancelled, and its job goes on.
        (Some(_), Job::Open { .. }) => Some(now),
        (ended, _) => ended,
    });
    add(Lane::Engine, accepted, over.or(Some(now)), "run", "running");
    if let (Some(from), Some(usual)) = (accepted, view.usual) {
        add(Lane::Engine, Some(from), Some(from + usual.p90), "ghost", "nine of ten runs end within this");
        add(Lane::Engine, Some(from), Some(from + usual.median), "ghost", "half of the runs end within this");
    }
    for (at, fact) in facts() {
        let Fact::Asked(key) = fact else { continue };
        let closes = |fact: &Fact| match fact {
            Fact::Answered { key: closed, .. } | Fact::Withdrawn(closed) => closed == key,
            _ => false,
        };
        add(Lane::Client, Some(at), first(&closes), "wait", "waits for an answer");
    }
    bars
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(at: i64, replica: &str, what: serde_json::Value) -> HistoryEntry {
        let entry = json!({"version": 1, "at": at, "replica": replica, "what": what});
        serde_json::from_value(entry).unwrap()
    }

    /// A lost reply, the search by key and a takeover are told in the right lanes. A process that passes on an
    /// answer takes nothing over.
    #[test]
    fn history_becomes_lanes() {
        let history = [
            entry(
                1_000,
                "a.1",
                json!([{"created": {"owner": "o", "tool": "t", "backend": "b"}}, {"attempt": 1}]),
            ),
            entry(2_000, "a.1", json!([{"start_failed": {"attempt": 1, "kind": "uncertain"}}])),
            entry(3_000, "b.2", json!([{"accepted": "4711\u{1b}[31m"}])),
            entry(4_000, "c.3", json!([{"answered": {"key": "q", "how": "accepted", "by": "ann"}}])),
            entry(5_000, "b.2", json!([{"ended": "succeeded"}])),
            entry(6_000, "c.3", json!([{"result_read": {"by": "ann\u{202e}"}}])),
        ];
        let events = events(&history, Timestamp::from_millis(1_000));
        let texts: Vec<_> = events.iter().map(|event| (event.lane.name(), event.text.as_str())).collect();
        assert_eq!(
            texts,
            [
                ("client", "called"),
                ("bridge", "sends the start"),
                ("bridge", "the reply to attempt 1 was lost"),
                ("bridge", "server b took over"),
                ("engine", "found again by its key, as 4711"),
                ("client", "question q answered by ann"),
                ("bridge", "ended: succeeded"),
                ("client", "result read by ann"),
            ]
        );
    }
}
