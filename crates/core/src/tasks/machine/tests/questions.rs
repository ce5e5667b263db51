//! Tests of when a question that a job lists is a new one.

use super::*;

fn lists(ids: &[&str]) -> Observation {
    Observation {
        questions: ids.iter().map(|id| question(id)).collect(),
        ..Observation::new(JobState::Running)
    }
}

fn asking(ids: &[&str]) -> Task {
    let (handle, group) = (JobHandle::new("h"), GroupKey::new(""));
    let started = Event::Started { handle, group, first: Some(lists(ids)) };
    next(&next(&row(false, OnExpiry::Cancel), Event::StartCommitted, START).task, started, START).task
}

fn open(task: &Task) -> Vec<&str> {
    task.open_questions().map(|question| question.key.as_str()).collect()
}

fn at(seconds: u64) -> Timestamp {
    START + Duration::from_secs(seconds)
}

fn accept(task: &Task, key: &str, now: Timestamp) -> Task {
    let answer = Answer::Accept(serde_json::Map::new());
    next(task, Event::Answered { key: key.to_owned(), answer, by: any_owner().into() }, now).task
}

fn poll_at_with_lag(ids: &[&str], polled_at: Timestamp, lag: u64) -> Event {
    let list_lag = Duration::from_secs(lag);
    let (start_lag, new_group) = Default::default();
    Event::Observed { observation: lists(ids), polled_at, list_lag, start_lag, new_group }
}

/// A question that is missing from one poll and listed by the next is asked again, under a new key.
#[test]
fn relisted_question_is_asked_again() {
    let task = asking(&["gate"]);
    assert_eq!(open(&task), ["q1"]);
    let task = next(&task, poll_at(lists(&[]), at(1)), at(1)).task;
    assert_eq!(open(&task), [""; 0]);
    let task = next(&task, poll_at(lists(&["gate"]), at(2)), at(2)).task;
    assert_eq!((open(&task), task.state), (vec!["q2"], TaskState::InputRequired));
    assert_invariants(&task);
}

/// A second gate of the same name is asked, and the answer to the first does not approve it.
#[test]
fn second_gate_needs_its_own_answer() {
    let task = accept(&asking(&["gate"]), "q1", at(1));
    // The answer is pending, so the listed gate is still the first one.
    let task = next(&task, poll_at(lists(&["gate"]), at(2)), at(2)).task;
    assert_eq!((open(&task), todo(&task, at(2))), (vec![], Action::Answer { key: "q1".to_owned() }));
    let task = next(&task, Event::AnswerTaken { key: "q1".to_owned() }, at(4)).task;
    // This poll began before the engine had the answer.
    let task = next(&task, poll_at(lists(&["gate"]), at(3)), at(5)).task;
    assert_eq!(open(&task), [""; 0]);
    let task = next(&task, poll_at(lists(&["gate"]), at(6)), at(6)).task;
    assert_eq!((open(&task), todo(&task, at(6))), (vec!["q2"], Action::Wait));
}

/// Some engines list an answered question for a while. During that time it is not asked again.
#[test]
fn list_lag_hides_answered_question() {
    let task = accept(&asking(&["gate"]), "q1", at(1));
    let task = next(&task, Event::AnswerTaken { key: "q1".to_owned() }, at(2)).task;
    let task = next(&task, poll_at_with_lag(&["gate"], at(11), 10), at(11)).task;
    assert_eq!(open(&task), [""; 0]);
    let task = next(&task, poll_at_with_lag(&["gate"], at(13), 10), at(13)).task;
    assert_eq!(open(&task), ["q2"]);
}

/// However often a question comes and goes, the row stays small and no key is used twice.
#[test]
fn flapping_question_keeps_row_small() {
    let mut task = asking(&["gate", "other"]);
    for n in 1..500 {
        task = next(&task, poll_at(lists(&["other"]), at(2 * n)), at(2 * n)).task;
        task = next(&task, poll_at(lists(&["gate", "other"]), at(2 * n + 1)), at(2 * n + 1)).task;
        assert_invariants(&task);
    }
    assert!(task.questions.len() <= 64, "{}", task.questions.len());
    assert_eq!(open(&task), ["q2", "q501"]);
}
