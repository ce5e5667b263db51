//! Finds rows that break an invariant, and describes the consequence and the fix. [`row`] and [`strays`]
//! are pure; their input comes from a [`Survey`](super::survey::Survey).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::survey::{OwedNotice, RelatedRecords, SurveyRow};
use crate::tasks::task::{Job, Outcome, Task, TaskState};

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The affected row.
    pub row: String,
    /// The violation.
    pub wrong: String,
    /// The consequence.
    pub means: String,
    /// The fix.
    pub todo: String,
}

/// The expectations that rows are checked against.
#[derive(Clone, Debug)]
pub struct Expectations {
    /// The store's time.
    pub now: Timestamp,
    /// The lease duration of servers.
    pub lease: Duration,
    /// How long histories are kept.
    pub history: Duration,
    /// The limit of each slot; without an entry or a number, there is none.
    pub limits: BTreeMap<String, Option<u32>>,
}

/// Added to ten times the configured lease: a longer one is a violation. Another server may have another
/// config.
const LEASE_SLACK: Duration = Duration::from_secs(3_600);

/// How far in the future a notice may be due: a receiver can request a delay of at most a day.
const NOTICE_SLACK: Duration = Duration::from_secs(2 * 86_400);

/// How much older than configured history may be: it is deleted only while a server runs.
const HISTORY_SLACK: Duration = Duration::from_secs(86_400);

impl Expectations {
    fn longest_lease(&self) -> Timestamp {
        self.now + LEASE_SLACK + self.lease * 10
    }
}

/// Returns all violations of a row.
pub fn row(row: &SurveyRow, terms: &Expectations) -> Vec<Finding> {
    let name = format!("task {}", row.id);
    let mut found = Vec::new();
    let mut add = |wrong: String, means: &str, todo: String| {
        found.push(Finding { row: name.clone(), wrong, means: means.to_owned(), todo });
    };
    // A server that claims a row then updates it. The update writes the columns anew from the body, except
    // those that never change after the insert: `id`, `owner`, `tool` and `created_at`.
    let claim = format!(
        "while a server runs: UPDATE tasks SET due_at = 0, lease_holder = NULL, lease_until = NULL WHERE id = '{}'; a \
         server then claims it and writes it anew",
        row.id
    );
    let delete =
        format!("restore it from a backup, or give it up: DELETE FROM tasks WHERE id = '{}'", row.id);
    match (&row.holder, row.lease_until) {
        (Some(holder), Some(until)) if Timestamp::from_millis(until) > terms.longest_lease() => add(
            format!("{holder} has it leased until {}", Timestamp::from_millis(until)),
            "nobody else acts on it before that",
            claim.clone(),
        ),
        (Some(_), Some(_)) | (None, None) => {}
        (holder, _) => add(
            format!("its lease has {}", if holder.is_some() { "no end" } else { "no holder" }),
            "nobody knows whose turn it is to act on it",
            claim.clone(),
        ),
    }
    if row.version < 1 {
        let means = "the first write of a row has version 1, and writers compare versions";
        add(format!("its version is {}", row.version), means, delete.clone());
    }
    let task = match &row.task {
        Ok(task) => task,
        Err(why) => {
            let means = "servers leave it out, whoever asks for it gets an error, and its job is not watched";
            add(why.clone(), means, delete);
            return found;
        }
    };
    if !row.differs.is_empty() {
        add(
            format!("its body says something else than `{}`", row.differs.join("`, `")),
            "the body is the truth, and looking for rows by these columns finds it wrongly or not at all",
            claim.clone(),
        );
    }
    for (wrong, means) in of_state(task) {
        add(wrong.to_owned(), means, claim.clone());
    }
    let needs_output = task.outcome() == Some(Outcome::Succeeded);
    if needs_output && !row.has_output {
        let means = "its client is told that it succeeded, and cannot have the result";
        add("it succeeded, and no result is kept".to_owned(), means, delete);
    }
    if row.has_output && !task.has_ended() {
        add(
            "a result is kept, and it has not ended".to_owned(),
            "the result of its end would not be kept: the first stays",
            format!("DELETE FROM outputs WHERE task = '{}'", row.id),
        );
    }
    found
}

/// Returns the contradictions in a task's state, with their consequences.
fn of_state(task: &Task) -> Vec<(&'static str, &'static str)> {
    let closed = matches!(task.job, Job::Closed { .. });
    let asks = task.open_questions().next().is_some();
    let keys: HashSet<&String> = task.questions.iter().map(|asked| &asked.key).collect();
    let rules = [
        (
            !closed && task.due_at.is_none(),
            "its job may run, and nothing is due",
            "nobody will ever act on it again",
        ),
        (
            closed && task.due_at.is_some(),
            "its job is over, and something is due",
            "servers look at it in vain",
        ),
        (closed && !task.has_ended(), "its job is over, and it has not ended", "its client waits for ever"),
        (
            task.has_ended() && matches!(task.job, Job::Pending { .. }),
            "it has ended, and its job is still to be started",
            "a job may be started that nobody wants",
        ),
        (
            task.has_ended() != task.ended_at.is_some(),
            "whether it has ended and when do not agree",
            "it is deleted too early or too late",
        ),
        (
            asks != (task.state == TaskState::InputRequired),
            "its state and its open questions do not agree",
            "its client is asked nothing, or waits for a question that is over",
        ),
        (
            matches!(&task.job, Job::Open { handle, .. } if handle.as_str().is_empty()),
            "its job is open without a name",
            "it cannot be looked at, stopped or answered",
        ),
        (
            keys.len() != task.questions.len(),
            "two of its questions have one key",
            "an answer to the one is taken for the other",
        ),
    ];
    rules.into_iter().filter(|(breach, ..)| *breach).map(|(_, wrong, means)| (wrong, means)).collect()
}

/// Returns all violations in the data that belongs to rows.
pub fn strays(strays: &RelatedRecords, terms: &Expectations) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |row: String, wrong: String, means: &str, todo: String| {
        found.push(Finding { row, wrong, means: means.to_owned(), todo });
    };
    for (table, task) in &strays.orphans {
        add(
            format!("{table} of task {task}"),
            "there is no such task".to_owned(),
            match *table {
                "slots" => "a place is taken up by nobody, for ever",
                "once" => "an idempotency key stands for nothing",
                _ => "it is never read and never deleted",
            },
            format!("DELETE FROM {table} WHERE task = '{task}'"),
        );
    }
    for (backend, group, holder, until) in &strays.groups {
        let until = Timestamp::from_millis(*until);
        if until > terms.longest_lease() {
            add(
                format!("group {group:?} of backend {backend}"),
                format!("{holder} watches it until {until}"),
                "unless that server runs, nobody looks at these jobs before that",
                format!(
                    "DELETE FROM groups WHERE backend = '{backend}' AND grp = '{group}'; a server takes it over"
                ),
            );
        }
    }
    for (task, version, of_row) in &strays.ahead {
        add(
            format!("history of task {task}"),
            format!("it tells of version {version}, and the row has version {of_row}"),
            "the row is older than its history: an old copy of it was put back, or it was changed by hand",
            "see `taskbridge tasks show` for what is missing in the row, and ask its engine for the job"
                .to_owned(),
        );
    }
    for (session, task) in &strays.held {
        add(
            format!("session {session}"),
            format!("its client holds a task for us that was made for task {task}, which there never was"),
            "a stream of the session asks the client for it in vain",
            format!("UPDATE sessions SET settings = NULL WHERE nonce LIKE '{session}%' ends the session"),
        );
    }
    for nonce in &strays.unreadable_sessions {
        add(
            format!("session {nonce}"),
            "what it has set cannot be understood".to_owned(),
            "requests of the session that need it fail",
            format!("UPDATE sessions SET settings = NULL WHERE nonce LIKE '{nonce}%' ends the session"),
        );
    }
    if let Some(at) = strays.first_entry.map(Timestamp::from_millis)
        && at + terms.history + HISTORY_SLACK < terms.now
    {
        add(
            "history".to_owned(),
            format!("its first entry is of {at}, older than [store] history by more than a day"),
            "no server has kept house since, or those that did keep it for longer",
            "start a server with this config: it deletes what is too old".to_owned(),
        );
    }
    found.extend(crowded(strays, terms));
    found.extend(strays.notices.iter().filter_map(|owed| notice(owed, terms)));
    found.extend(strays.unreadable_entries.iter().map(|(task, why)| unreadable_entry(task, why)));
    found
}

/// Returns a finding for each slot with more rows than its limit.
fn crowded<'a>(strays: &'a RelatedRecords, terms: &'a Expectations) -> impl Iterator<Item = Finding> + 'a {
    let limit = |slot: &str| terms.limits.get(slot).copied().flatten();
    let slots = strays.slots.iter().filter_map(move |(slot, held)| Some((slot, *held, limit(slot)?)));
    slots.filter(|(_, held, limit)| *held > i64::from(*limit)).map(|(slot, held, limit)| Finding {
        row: format!("slot {slot}"),
        wrong: format!("{held} tasks hold it, and the config has {limit} of it"),
        means: "more jobs may run at once than the config allows: the limit was lowered while they ran, or servers with \
                different configs share the store"
            .to_owned(),
        todo: "if the limit was lowered, nothing: none starts until enough of them have ended. Otherwise give all servers \
               one config"
            .to_owned(),
    })
}

/// Checks a notice.
fn notice(owed: &OwedNotice, terms: &Expectations) -> Option<Finding> {
    let OwedNotice { id, receiver, due_at, unreadable } = owed;
    let (row, due) = (format!("notice {id}"), Timestamp::from_millis(*due_at));
    let of_it = format!("WHERE id = '{id}' AND receiver = '{receiver}'");
    if let Some(why) = unreadable {
        return Some(Finding {
            row,
            wrong: format!("for {receiver}: {why}"),
            means: "it is taken up again and again, and never sent".to_owned(),
            todo: format!("DELETE FROM notices {of_it}; its receiver does not hear of what it was to tell"),
        });
    }
    (due > terms.now + NOTICE_SLACK).then(|| Finding {
        row,
        wrong: format!("for {receiver}: it is due at {due} only"),
        means: "its receiver hears nothing before that".to_owned(),
        todo: format!("UPDATE notices SET due_at = 0, holder = NULL {of_it}"),
    })
}

fn unreadable_entry(task: &str, why: &str) -> Finding {
    Finding {
        row: format!("history of task {task}"),
        wrong: format!("an entry cannot be understood ({why})"),
        means: "`taskbridge tasks` leaves it out; the task itself is not touched by that".to_owned(),
        todo: "use the newest program that writes to this store; if it says the same, the entry was changed by hand"
            .to_owned(),
    }
}
