//! Finds rows that break an invariant, and describes the consequence and the fix. [`check_row`] and
//! [`check_related_records`] are pure; their input comes from a [`Survey`](super::survey::Survey).

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::survey::{PendingNotice, RelatedRecords, SurveyRow};
use taskbridge_core::tasks::task::{Job, Outcome, Task, TaskState};

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The affected row.
    pub row: String,
    /// The violation.
    pub problem: String,
    /// The consequence.
    pub consequence: String,
    /// The fix.
    pub fix: String,
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
pub fn check_row(row: &SurveyRow, expectations: &Expectations) -> Vec<Finding> {
    let name = format!("task {}", row.id);
    let mut found = Vec::new();
    let mut add = |problem: String, consequence: &str, fix: String| {
        found.push(Finding { row: name.clone(), problem, consequence: consequence.to_owned(), fix });
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
        (Some(holder), Some(until)) if Timestamp::from_millis(until) > expectations.longest_lease() => add(
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
        let consequence = "the first write of a row has version 1, and writers compare versions";
        add(format!("its version is {}", row.version), consequence, delete.clone());
    }
    let task = match &row.task {
        Ok(task) => task,
        Err(why) => {
            let consequence =
                "servers leave it out, whoever asks for it gets an error, and its job is not watched";
            add(why.clone(), consequence, delete);
            return found;
        }
    };
    if !row.mismatches.is_empty() {
        add(
            format!("its body says something else than `{}`", row.mismatches.join("`, `")),
            "the body is the truth, and looking for rows by these columns finds it wrongly or not at all",
            claim.clone(),
        );
    }
    for (problem, consequence) in state_violations(task) {
        add(problem.to_owned(), consequence, claim.clone());
    }
    let needs_output = task.outcome() == Some(Outcome::Succeeded);
    if needs_output && !row.has_output {
        let consequence = "its client is told that it succeeded, and cannot have the result";
        add("it succeeded, and no result is kept".to_owned(), consequence, delete);
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
fn state_violations(task: &Task) -> Vec<(&'static str, &'static str)> {
    let closed = matches!(task.job, Job::Closed { .. });
    let asks = task.open_questions().next().is_some();
    let keys: HashSet<&String> = task.questions.iter().map(|question| &question.key).collect();
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
    rules
        .into_iter()
        .filter(|(breach, ..)| *breach)
        .map(|(_, problem, consequence)| (problem, consequence))
        .collect()
}

/// Returns all violations in the data that belongs to rows.
pub fn check_related_records(records: &RelatedRecords, expectations: &Expectations) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |row: String, problem: String, consequence: &str, fix: String| {
        found.push(Finding { row, problem, consequence: consequence.to_owned(), fix });
    };
    for (table, task) in &records.orphans {
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
    for (backend, group, holder, until) in &records.groups {
        let until = Timestamp::from_millis(*until);
        if until > expectations.longest_lease() {
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
    for (task, key, until) in &records.deliveries {
        let until = Timestamp::from_millis(*until);
        if until > expectations.longest_lease() {
            add(
                format!("question {key} of task {task}"),
                format!("a stream has it until {until}"),
                "no other stream asks it before that",
                format!(
                    "DELETE FROM deliveries WHERE task = '{task}' AND key = '{key}'; it may be asked again"
                ),
            );
        }
    }
    for (task, version, row_version) in &records.histories_ahead {
        add(
            format!("history of task {task}"),
            format!("it tells of version {version}, and the row has version {row_version}"),
            "the row is older than its history: an old copy of it was put back, or it was changed by hand",
            "see `taskbridge tasks show` for what is missing in the row, and ask its engine for the job"
                .to_owned(),
        );
    }
    for (session, task) in &records.dangling_sessions {
        add(
            format!("session {session}"),
            format!("its client holds a task for us that was made for task {task}, which there never was"),
            "a stream of the session asks the client for it in vain",
            format!("UPDATE sessions SET settings = NULL WHERE nonce LIKE '{session}%' ends the session"),
        );
    }
    for nonce in &records.unreadable_sessions {
        add(
            format!("session {nonce}"),
            "what it has set cannot be understood".to_owned(),
            "requests of the session that need it fail",
            format!("UPDATE sessions SET settings = NULL WHERE nonce LIKE '{nonce}%' ends the session"),
        );
    }
    if let Some(at) = records.first_entry.map(Timestamp::from_millis)
        && at + expectations.history + HISTORY_SLACK < expectations.now
    {
        add(
            "history".to_owned(),
            format!("its first entry is of {at}, older than [store] history by more than a day"),
            "no server has kept house since, or those that did keep it for longer",
            "start a server with this config: it deletes what is too old".to_owned(),
        );
    }
    found.extend(overfull_slots(records, expectations));
    found.extend(records.notices.iter().filter_map(|notice| check_notice(notice, expectations)));
    found.extend(records.unreadable_entries.iter().map(|(task, why)| unreadable_entry(task, why)));
    found
}

/// Returns a finding for each slot with more rows than its limit.
fn overfull_slots<'a>(
    records: &'a RelatedRecords,
    expectations: &'a Expectations,
) -> impl Iterator<Item = Finding> + 'a {
    let limit = |slot: &str| expectations.limits.get(slot).copied().flatten();
    let slots =
        records.slots.iter().filter_map(move |(slot, row_count)| Some((slot, *row_count, limit(slot)?)));
    slots.filter(|(_, row_count, limit)| *row_count > i64::from(*limit)).map(|(slot, row_count, limit)| Finding {
        row: format!("slot {slot}"),
        problem: format!("{row_count} tasks hold it, and the config has {limit} of it"),
        consequence: "more jobs may run at once than the config allows: the limit was lowered while they ran, or servers with \
                different configs share the store"
            .to_owned(),
        fix: "if the limit was lowered, nothing: none starts until enough of them have ended. Otherwise give all servers \
               one config"
            .to_owned(),
    })
}

/// Checks a notice.
fn check_notice(notice: &PendingNotice, expectations: &Expectations) -> Option<Finding> {
    let PendingNotice { id, receiver, due_at, unreadable } = notice;
    let (row, due) = (format!("notice {id}"), Timestamp::from_millis(*due_at));
    let where_clause = format!("WHERE id = '{id}' AND receiver = '{receiver}'");
    if let Some(why) = unreadable {
        return Some(Finding {
            row,
            problem: format!("for {receiver}: {why}"),
            consequence: "it is taken up again and again, and never sent".to_owned(),
            fix: format!(
                "DELETE FROM notices {where_clause}; its receiver does not hear of what it was to tell"
            ),
        });
    }
    (due > expectations.now + NOTICE_SLACK).then(|| Finding {
        row,
        problem: format!("for {receiver}: it is due at {due} only"),
        consequence: "its receiver hears nothing before that".to_owned(),
        fix: format!("UPDATE notices SET due_at = 0, holder = NULL {where_clause}"),
    })
}

fn unreadable_entry(task: &str, why: &str) -> Finding {
    Finding {
        row: format!("history of task {task}"),
        problem: format!("an entry cannot be understood ({why})"),
        consequence: "`taskbridge tasks` leaves it out; the task itself is not touched by that".to_owned(),
        fix: "use the newest program that writes to this store; if it says the same, the entry was changed by hand"
            .to_owned(),
    }
}
