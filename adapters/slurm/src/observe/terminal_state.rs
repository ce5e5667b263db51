//! The facts about the end of a job that Slurm no longer runs: of a whole job, or of each array task. It must
//! not judge them. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::state::State;
use crate::driver::{CancelledBy, Exit, Record, Row, Tasks};
use crate::store::end_marker::{EndMarker, Run};
use crate::store::plan::Plan;

/// All that is known of a job without pending or running parts.
#[derive(Debug, Default)]
pub(crate) struct TerminalEvidence {
    pub(crate) rows: Vec<Row>,
    pub(crate) records: Vec<Record>,
    pub(crate) accounting: Accounting,
    /// How long the accounting database has been queried for the job.
    pub(crate) queried_for: Duration,
    /// The runs that began, and whether a second run found the same fence.
    pub(crate) started_runs: BTreeMap<Run, bool>,
    pub(crate) end_markers: BTreeMap<Run, EndMarker>,
    /// A server cancelled the job, for a client, a deadline or a declined approval. The request to Slurm was
    /// sent, or was about to be sent.
    pub(crate) cancel_requested: bool,
    /// Another of our jobs has or had the same number.
    pub(crate) number_reused: bool,
    /// The uid with which slurmd itself cancels a job on a node, if known.
    pub(crate) slurmd_uid: Option<u32>,
    /// Names of the users who cancelled something, by uid, as far as this machine knows them.
    pub(crate) user_names: BTreeMap<u32, String>,
    /// The log shows that Slurm preempted the job.
    pub(crate) preempted: bool,
    /// How long this process has seen the job to be over. Time for which its folder hung does not count.
    pub(crate) ended_for: Duration,
}

/// How complete the accounting records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// The records are complete, or there is no accounting database.
    #[default]
    Complete,
    /// The accounting database does not answer: missing records mean nothing.
    Unavailable,
    /// There is an accounting database, but this poll did not query it.
    NotQueried,
}

/// The facts about the end of one array task, or of a job that is no array.
#[derive(Debug, Default)]
pub(crate) struct TerminalState {
    pub(crate) state: Option<State>,
    pub(crate) exit: Option<Exit>,
    pub(crate) end_marker: Option<EndMarker>,
    pub(crate) has_started: bool,
    /// A second run found the fence.
    pub(crate) started_twice: bool,
    /// Number of requeues.
    pub(crate) restarts: u32,
    pub(crate) record: Option<Record>,
    pub(crate) cancelled_by: CancelledBy,
    /// The controller's queue row that covers it, whichever tasks the row covers.
    pub(crate) row: Option<Row>,
}

/// Returns the facts about the ends of all tasks, by task number.
pub(crate) fn collect_terminal_states(
    plan: &Plan,
    evidence: &TerminalEvidence,
) -> BTreeMap<Option<u32>, TerminalState> {
    let mut terminal_states: BTreeMap<Option<u32>, TerminalState> = match plan.tasks() {
        Some(tasks) => tasks.into_iter().map(|task| (Some(task), TerminalState::default())).collect(),
        None => BTreeMap::from([(None, TerminalState::default())]),
    };
    for row in &evidence.rows {
        let tasks = match &row.tasks {
            Tasks::Single => vec![None],
            Tasks::One(task) => vec![Some(*task)],
            Tasks::Many(tasks) => tasks.iter().copied().map(Some).collect(),
        };
        // Each copy would otherwise contain the whole list of tasks.
        let row_without_tasks = Row { tasks: Tasks::Single, ..row.clone() };
        for task in tasks {
            if let Some(terminal_state) = terminal_states.get_mut(&task) {
                (terminal_state.state, terminal_state.exit, terminal_state.restarts) =
                    (Some(row.state), row.exit, row.restarts);
                terminal_state.row = Some(row_without_tasks.clone());
            }
        }
    }
    for record in &evidence.records {
        let key = match record.tasks {
            Tasks::Single => None,
            Tasks::One(task) => Some(task),
            Tasks::Many(_) => continue,
        };
        let Some(terminal_state) = terminal_states.get_mut(&key) else { continue };
        // The controller's state is newer, if there is one.
        if terminal_state.state.is_none_or(|state| !state.has_ended()) {
            terminal_state.state = record.state;
        }
        terminal_state.exit = record.exit.or(terminal_state.exit);
        (terminal_state.record, terminal_state.cancelled_by) = (Some(record.clone()), record.cancelled_by);
    }
    // Tasks that were cancelled before they began share one record. Tasks that began have records of their
    // own.
    for record in evidence.records.iter().filter(|record| plan.array.is_some() && record.has_ended()) {
        let apply_record = |terminal_state: &mut TerminalState| {
            if terminal_state.record.is_none() && terminal_state.state.is_none() {
                (terminal_state.state, terminal_state.cancelled_by) = (record.state, record.cancelled_by);
            }
        };
        match &record.tasks {
            Tasks::One(_) => {}
            Tasks::Single => terminal_states.values_mut().for_each(apply_record),
            Tasks::Many(tasks) => {
                tasks.iter().for_each(|task| terminal_states.get_mut(&Some(*task)).map_or((), apply_record))
            }
        }
    }
    for (run, was_repeated) in &evidence.started_runs {
        if let Some(terminal_state) = terminal_states.get_mut(&run.task) {
            terminal_state.has_started = true;
            // The runs are sorted: the last run counts.
            (terminal_state.started_twice, terminal_state.restarts) =
                (*was_repeated, terminal_state.restarts.max(run.restart));
            terminal_state.end_marker = evidence.end_markers.get(run).cloned();
        }
    }
    terminal_states
}
