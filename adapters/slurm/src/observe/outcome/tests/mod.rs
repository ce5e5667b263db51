//! Tests of the verdicts for all kinds of ends, by the available facts. The helpers are here.

mod ended_jobs;
mod lost_jobs;

use super::*;
use crate::driver::{Row, Tasks};
use crate::observe::terminal_state::collect_terminal_states;
use crate::store::end_marker::Run;

fn row(state: State, code: u32) -> Row {
    Row {
        job: 7,
        tasks: Tasks::Single,
        name: "tb-a".to_owned(),
        state,
        reason: "None".to_owned(),
        exit: Some(Exit { code, signal: 0 }),
        submitted: None,
        start: None,
        end: None,
        time_limit: None,
        restarts: 0,
        partition: "debug".to_owned(),
        nodes: String::new(),
        comment: None,
    }
}

fn evaluate(
    state: Option<(State, u32)>,
    has_started: bool,
    end_marker: Option<(u32, Option<&str>)>,
    ended_for: u64,
) -> Result<JobOutcome, String> {
    let run = Run { task: None, restart: 0 };
    let evidence = TerminalEvidence {
        rows: state.map(|(state, code)| row(state, code)).into_iter().collect(),
        started_runs: has_started.then_some((run, false)).into_iter().collect(),
        end_markers: end_marker
            .map(|(code, signal)| {
                (run, EndMarker { code, forwarded_signal: signal.map(str::to_owned), ..EndMarker::default() })
            })
            .into_iter()
            .collect(),
        ended_for: Duration::from_secs(ended_for),
        ..TerminalEvidence::default()
    };
    let plan = Plan::default();
    collect_terminal_states(&plan, &evidence)[&None].outcome(&plan, &evidence).map_err(str::to_owned)
}

fn is_failed(outcome: &Result<JobOutcome, String>, part: &str) -> bool {
    matches!(outcome, Ok(JobOutcome::Failed(why)) if why.contains(part))
}
