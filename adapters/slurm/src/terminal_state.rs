//! The outcome of a job that Slurm no longer runs: of a whole job, or of each array task. The wrapper's
//! marker takes precedence over Slurm, since a controller that crashed can start an ended job again, or
//! forget one that ran. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{CancelledBy, Exit, Record, Row, Tasks};
use crate::end::{EndMarker, NO_FOLDER, NOT_AGAIN, Run, in_words, signal_name};
use crate::plan::Plan;
use crate::state::State;
use crate::usage::Usage;

/// How long a marker may take to become visible after Slurm reports the job's end: shared file systems cache.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait for the end marker of a script that Slurm forgot, or started a second time while it ran.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

/// How long Slurm may not know a job that never began before it counts as lost. Accounting records are a few
/// seconds late.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);

/// The signal number with which Slurm reports that it could not open a job's output files.
const NO_OUTPUT: u32 = 53;

/// All that is known of a job without pending or running parts.
#[derive(Debug, Default)]
pub(crate) struct TerminalEvidence {
    pub(crate) rows: Vec<Row>,
    pub(crate) records: Vec<Record>,
    pub(crate) accounting: Accounting,
    /// How long the accounting database has been queried for the job.
    pub(crate) asked_for: Duration,
    /// The runs that began, and whether a second run found the same fence.
    pub(crate) ran: BTreeMap<Run, bool>,
    pub(crate) ends: BTreeMap<Run, EndMarker>,
    /// A server cancelled the job, for a client, a deadline or a declined approval. The request to Slurm was
    /// sent, or was about to be sent.
    pub(crate) cancelled: bool,
    /// Another of our jobs has or had the same number.
    pub(crate) number_given_again: bool,
    /// The uid with which slurmd itself cancels a job on a node, if known.
    pub(crate) slurmd_user: Option<u32>,
    /// Names of the users who cancelled something, by uid, as far as this machine knows them.
    pub(crate) users: BTreeMap<u32, String>,
    /// The log shows that Slurm preempted the job.
    pub(crate) preempted: bool,
    /// How long this process has seen the job to be over. Time for which its folder hung does not count.
    pub(crate) over_for: Duration,
}

/// How complete the accounting records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// The records are complete, or there is no accounting database.
    #[default]
    Heard,
    /// The accounting database does not answer: missing records mean nothing.
    Silent,
    /// There is an accounting database, but this poll did not query it.
    NotAsked,
}

/// The facts about the end of one array task, or of a job that is no array.
#[derive(Debug, Default)]
pub(crate) struct TerminalState {
    pub(crate) state: Option<State>,
    pub(crate) exit: Option<Exit>,
    pub(crate) end: Option<EndMarker>,
    pub(crate) began: bool,
    /// A second run found the fence.
    pub(crate) again: bool,
    /// Number of requeues.
    pub(crate) restarts: u32,
    pub(crate) record: Option<Record>,
    pub(crate) cancelled_by: CancelledBy,
    /// The controller's queue row that covers it, whichever tasks the row covers.
    pub(crate) row: Option<Row>,
}

/// The reported result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Good,
    Bad(String),
    Stopped(String),
    /// The end is unknown and stays unknown.
    Lost(String),
}

/// Returns the facts about the ends of all tasks, by task number.
pub(crate) fn fates(plan: &Plan, facts: &TerminalEvidence) -> BTreeMap<Option<u32>, TerminalState> {
    let mut fates: BTreeMap<Option<u32>, TerminalState> = match plan.tasks() {
        Some(tasks) => tasks.into_iter().map(|task| (Some(task), TerminalState::default())).collect(),
        None => BTreeMap::from([(None, TerminalState::default())]),
    };
    for row in &facts.rows {
        let tasks = match &row.tasks {
            Tasks::Single => vec![None],
            Tasks::One(task) => vec![Some(*task)],
            Tasks::Many(tasks) => tasks.iter().copied().map(Some).collect(),
        };
        // Each copy would otherwise contain the whole list of tasks.
        let bare = Row { tasks: Tasks::Single, ..row.clone() };
        for task in tasks {
            if let Some(fate) = fates.get_mut(&task) {
                (fate.state, fate.exit, fate.restarts) = (Some(row.state), row.exit, row.restarts);
                fate.row = Some(bare.clone());
            }
        }
    }
    for record in &facts.records {
        let key = match record.tasks {
            Tasks::Single => None,
            Tasks::One(task) => Some(task),
            Tasks::Many(_) => continue,
        };
        let Some(fate) = fates.get_mut(&key) else { continue };
        // The controller's state is newer, if there is one.
        if fate.state.is_none_or(|state| !state.has_ended()) {
            fate.state = record.state;
        }
        fate.exit = record.exit.or(fate.exit);
        (fate.record, fate.cancelled_by) = (Some(record.clone()), record.cancelled_by);
    }
    // Tasks that were cancelled before they began share one record. Tasks that began have records of their
    // own.
    for record in facts.records.iter().filter(|record| plan.array.is_some() && record.has_ended()) {
        let tell = |fate: &mut TerminalState| {
            if fate.record.is_none() && fate.state.is_none() {
                (fate.state, fate.cancelled_by) = (record.state, record.cancelled_by);
            }
        };
        match &record.tasks {
            Tasks::One(_) => {}
            Tasks::Single => fates.values_mut().for_each(tell),
            Tasks::Many(tasks) => tasks.iter().for_each(|task| fates.get_mut(&Some(*task)).map_or((), tell)),
        }
    }
    for (run, again) in &facts.ran {
        if let Some(fate) = fates.get_mut(&run.task) {
            fate.began = true;
            // The runs are sorted: the last run counts.
            (fate.again, fate.restarts) = (*again, fate.restarts.max(run.restart));
            fate.end = facts.ends.get(run).cloned();
        }
    }
    fates
}

impl TerminalState {
    /// Returns the result, or what it is still waiting for.
    pub(crate) fn verdict(&self, plan: &Plan, facts: &TerminalEvidence) -> Result<JobOutcome, &'static str> {
        Ok(match (self.judge(plan, facts)?, self.canceller(facts)) {
            (JobOutcome::Stopped(words), Some(name)) => {
                JobOutcome::Stopped(words.replacen("cancelled", &format!("cancelled by {name}"), 1))
            }
            (JobOutcome::Bad(why), _) if self.is_out_of_memory(plan) => {
                JobOutcome::Bad(format!("{} ({why})", State::OutOfMemory.in_words()))
            }
            (verdict, _) => verdict,
        })
    }

    /// Returns the user who cancelled it, if the accounting database names one and the cancel did not come
    /// from its task.
    fn canceller(&self, facts: &TerminalEvidence) -> Option<String> {
        let CancelledBy::User(number) = self.cancelled_by else { return None };
        let name = || facts.users.get(&number).cloned().unwrap_or_else(|| format!("user {number}"));
        (!facts.cancelled).then(name)
    }

    /// Returns true if it was killed after it had used more memory than requested. Without control groups,
    /// Slurm shows such a job as failed by SIGKILL.
    pub(crate) fn is_out_of_memory(&self, plan: &Plan) -> bool {
        let killed = match &self.end {
            Some(end) => end.signal() == Some(9),
            None => self.exit.is_some_and(|exit| exit.signal == 9 || exit.code == 128 + 9),
        };
        let is_failure = matches!(self.state, Some(State::Failed) | None);
        killed && is_failure && Usage::of(plan, self).exceeds_memory()
    }

    fn judge(&self, plan: &Plan, facts: &TerminalEvidence) -> Result<JobOutcome, &'static str> {
        let over_for = facts.over_for;
        let slurms = self.state.filter(|state| state.has_ended());
        if let Some(end) = &self.end {
            return Ok(by_marker(end, slurms, facts.cancelled));
        }
        let Some(state) = slurms else {
            return self.unknown(plan, facts);
        };
        if plan.requeue && state.may_requeue() && over_for < SEEN_WITHIN {
            return Err("Slurm may put it back into the queue");
        }
        let code = self.exit.map(|exit| exit.code);
        // Slurm saw the end of a wrapper that found the fence, not of the script.
        if self.again || (self.began && code == Some(NOT_AGAIN)) {
            return match over_for < HEARD_WITHIN {
                true => Err("Slurm started it a second time; the end of the first run is waited for"),
                false => Ok(JobOutcome::Lost(
                    "Slurm started it a second time, which ran nothing; how the first run ended is not known"
                        .to_owned(),
                )),
            };
        }
        if self.began
            && plan.attached.is_none()
            && over_for < SEEN_WITHIN
            && matches!(state, State::Completed | State::Failed)
        {
            return Err("it has ended; its end marker is not seen yet");
        }
        if state == State::Cancelled && plan.attached.is_none() && self.may_be_cancelled_by_slurm(facts) {
            return match over_for < SEEN_WITHIN || facts.accounting != Accounting::Heard {
                true => Err("it was cancelled; who did that is looked for"),
                false => Ok(never_began(self.why_cancelled(facts))),
            };
        }
        if state == State::Timeout && !self.began && plan.attached.is_none() {
            return match over_for < SEEN_WITHIN {
                true => Err("its time limit is over; whether its script began is looked for"),
                // A node that still had another job of this number did not launch the script, and did not
                // report that to the controller.
                false => Ok(never_began("Slurm showed it as running until its time limit")),
            };
        }
        Ok(match state {
            State::Completed => JobOutcome::Good,
            State::Cancelled if self.could_never_begin(plan, facts) => {
                JobOutcome::Bad("the job that was to come first did not end as required".to_owned())
            }
            State::Cancelled => JobOutcome::Stopped(match self.began {
                true => "cancelled".to_owned(),
                false => "cancelled before it began".to_owned(),
            }),
            State::Failed if code == Some(NO_FOLDER) && plan.attached.is_none() => JobOutcome::Bad(
                "its node could not write into the job's folder: is `jobs_dir` on a file system that all nodes share?".to_owned(),
            ),
            State::Failed if !self.began && self.exit.is_some_and(|exit| exit.signal == NO_OUTPUT) => JobOutcome::Bad(
                "its node could not open its output files: may its user write into the job's folder there?".to_owned(),
            ),
            State::Failed => JobOutcome::Bad(self.exit.map_or_else(|| "failed".to_owned(), exit_in_words)),
            state => JobOutcome::Bad(state.in_words().to_owned()),
        })
    }

    /// Returns true if no user is known to have cancelled the job. After a crash, the controller can assign a
    /// number twice. A node that still has the other job of that number then requests that the controller
    /// cancels the new one. It does so as slurmd's user, before the script began, and possibly before the job
    /// was assigned to the node.
    fn may_be_cancelled_by_slurm(&self, facts: &TerminalEvidence) -> bool {
        let nodes =
            [self.row.as_ref().map(|row| &row.nodes), self.record.as_ref().map(|record| &record.nodes)];
        let has_node = nodes.into_iter().flatten().any(|nodes| !nodes.is_empty() && nodes != "None assigned");
        let by_another = match (self.cancelled_by, facts.slurmd_user) {
            (CancelledBy::User(by), Some(slurmd)) => by != slurmd,
            _ => false,
        };
        let before_that = facts.number_given_again && self.cancelled_by != CancelledBy::Nobody;
        !facts.cancelled && !self.began && (has_node || before_that) && !by_another
    }

    /// Returns the reason of a cancellation. Only the accounting database knows who cancelled a job.
    fn why_cancelled(&self, facts: &TerminalEvidence) -> &'static str {
        match (self.cancelled_by, facts.slurmd_user) {
            _ if facts.number_given_again => {
                "Slurm gave the job's number twice, and it was cancelled before it began, by whom is not known: somebody did, or Slurm \
                 itself cancelled it, as it does then"
            }
            (CancelledBy::Unsaid, _) | (CancelledBy::User(_), None) => {
                "it was cancelled after it was given a node, by whom is not known: somebody did, or Slurm itself cancelled it, as it \
                 does when it gave the job's number twice"
            }
            _ => "Slurm itself cancelled it on its node, as it does when it gave the job's number twice",
        }
    }

    /// Returns true if Slurm cancelled it because its dependency did not end as required. The reason of the
    /// queue row shows that, but the controller forgets it with the job. The accounting record shows that no
    /// user cancelled it.
    fn could_never_begin(&self, plan: &Plan, facts: &TerminalEvidence) -> bool {
        let by_nobody = !self.began && !facts.cancelled && self.cancelled_by == CancelledBy::Nobody;
        self.row.as_ref().is_some_and(|row| row.reason == "DependencyNeverSatisfied")
            || (by_nobody && plan.asked.contains_key("dependency"))
    }

    /// Returns the verdict if neither the controller nor the accounting database knows the end, and there is
    /// no end marker.
    fn unknown(&self, plan: &Plan, facts: &TerminalEvidence) -> Result<JobOutcome, &'static str> {
        match facts.accounting {
            Accounting::Heard => {}
            Accounting::Silent => {
                return Err("Slurm's controller no longer knows it, and its accounting does not answer");
            }
            Accounting::NotAsked => {
                return Err("Slurm's controller no longer knows it; its accounting is asked next");
            }
        }
        if self.began {
            return match facts.over_for < HEARD_WITHIN {
                true => Err("Slurm no longer knows it; its end marker is waited for"),
                false => Ok(JobOutcome::Lost(
                    "Slurm no longer knows the job, which began and left no end".to_owned(),
                )),
            };
        }
        if facts.over_for < KNOWN_WITHIN {
            return Err("Slurm does not know it");
        }
        Ok(match facts.cancelled {
            true => JobOutcome::Stopped("cancelled before it began".to_owned()),
            false if plan.attached.is_some() => JobOutcome::Lost("Slurm no longer knows the job".to_owned()),
            false => never_began("Slurm no longer knows the job"),
        })
    }
}

/// Returns the verdict for a lost job whose script did not pass its fence. The code that reports this closes
/// the fence.
fn never_began(why: &str) -> JobOutcome {
    JobOutcome::Lost(format!(
        "{why}; its script never began and cannot any more, so that it may be called again"
    ))
}

/// Returns the verdict for an end marker. Slurm's state explains why the script ended.
fn by_marker(end: &EndMarker, slurms: Option<State>, cancelled: bool) -> JobOutcome {
    if end.was_stopped() {
        match slurms {
            Some(State::Cancelled) => return JobOutcome::Stopped("cancelled".to_owned()),
            // A controller that was killed meanwhile may know only the exit code.
            Some(State::Failed) | None if cancelled => return JobOutcome::Stopped("cancelled".to_owned()),
            // A node that cancels another job of this number ends this one as well. A tool may also have sent
            // the signal.
            None if end.told.is_some() && end.code != 0 => {
                return JobOutcome::Bad(format!(
                    "its script was told to end ({}); Slurm no longer knows the job, nor who did that",
                    in_words(end.code)
                ));
            }
            // Slurm itself may have done it: the controller lost the start in a crash, ended the job, and
            // then started it again.
            Some(State::Completed | State::Failed) if end.told.is_some() && end.code != 0 => {
                return JobOutcome::Bad(format!(
                    "its script was told to end ({}), by somebody's signal, or by Slurm after its controller broke down",
                    in_words(end.code)
                ));
            }
            Some(State::Completed | State::Failed) | None => {}
            Some(state) => return JobOutcome::Bad(state.in_words().to_owned()),
        }
    }
    match (end.code, slurms) {
        // A process of the script was killed for lack of memory, and the script did not notice, or continued.
        (0, Some(state @ State::OutOfMemory)) => {
            JobOutcome::Bad(format!("{} (though the script ended with 0)", state.in_words()))
        }
        (0, _) => JobOutcome::Good,
        // The script may end by itself when the limit is reached, and return a code for it.
        (code, Some(state @ (State::OutOfMemory | State::Timeout | State::Deadline))) => {
            JobOutcome::Bad(format!("{} ({})", state.in_words(), in_words(code)))
        }
        (code, _) => JobOutcome::Bad(in_words(code)),
    }
}

fn exit_in_words(exit: Exit) -> String {
    match exit {
        Exit { signal: 0, code } => in_words(code),
        Exit { signal, .. } => format!("ended by {}", signal_name(signal)),
    }
}

#[cfg(test)]
mod tests;
