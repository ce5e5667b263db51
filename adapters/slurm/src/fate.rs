//! What became of a job that Slurm no longer runs: of a whole job, or of each task of an array. What its wrapper wrote goes before
//! what Slurm says, since a controller that crashed can start a job again that has ended, or forget one that ran. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{By, Exit, Record, Row, Tasks};
use crate::end::{End, NO_FOLDER, NOT_AGAIN, Run, in_words, signal_name};
use crate::plan::Plan;
use crate::state::State;
use crate::usage::Usage;

/// How long a marker may take to be seen here after Slurm says that the job has ended: shared file systems cache.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// How long a script may go on that Slurm no longer knows, or that another start came to while it ran, before its end is given up.
const HEARD_WITHIN: Duration = Duration::from_secs(60);

/// How long Slurm may not know a job before it is believed to be lost. The accounting is a few seconds late.
const KNOWN_WITHIN: Duration = Duration::from_secs(20);

/// As what Slurm tells that a job's output files could not be opened.
const NO_OUTPUT: u32 = 53;

/// All that is known of a job when nothing of it waits or runs any more.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) rows: Vec<Row>,
    pub(crate) records: Vec<Record>,
    pub(crate) accounting: Accounting,
    /// Since when the accounting has been asked about it.
    pub(crate) asked_for: Duration,
    /// The runs that began, and whether a second one came to them.
    pub(crate) ran: BTreeMap<Run, bool>,
    pub(crate) ends: BTreeMap<Run, End>,
    /// We asked Slurm to cancel it.
    pub(crate) cancelled: bool,
    /// Another job of ours has or had its number.
    pub(crate) number_given_again: bool,
    /// By which user's number Slurm itself cancels a job on a node, where that is known.
    pub(crate) slurmd_user: Option<u32>,
    /// The names of users by their numbers, as far as this machine knows those who cancelled something.
    pub(crate) users: BTreeMap<u32, String>,
    /// Its log says that Slurm preempted it.
    pub(crate) preempted: bool,
    /// Since when it has been so.
    pub(crate) over_for: Duration,
}

/// What the records stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// All that there is to be known of the job now, or there is no accounting.
    #[default]
    Heard,
    /// There is one, and it does not answer: that it has no records means nothing.
    Silent,
    /// There is one, and this look did not ask it.
    NotAsked,
}

/// What became of one task, or of a job that is no array.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) state: Option<State>,
    pub(crate) exit: Option<Exit>,
    pub(crate) end: Option<End>,
    pub(crate) began: bool,
    /// A second run came to the fence.
    pub(crate) again: bool,
    /// How often it was put back into the queue.
    pub(crate) restarts: u32,
    pub(crate) record: Option<Record>,
    pub(crate) cancelled_by: By,
    /// What the controller shows of it, whichever tasks that is for.
    pub(crate) row: Option<Row>,
}

/// How it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Bad(String),
    Stopped(String),
    /// Nobody will learn how it ended.
    Lost(String),
}

/// The fates of all tasks, by their numbers.
pub(crate) fn fates(plan: &Plan, facts: &Facts) -> BTreeMap<Option<u32>, Fate> {
    let mut fates: BTreeMap<Option<u32>, Fate> = match plan.tasks() {
        Some(tasks) => tasks.into_iter().map(|task| (Some(task), Fate::default())).collect(),
        None => BTreeMap::from([(None, Fate::default())]),
    };
    for row in &facts.rows {
        let tasks = match &row.tasks {
            Tasks::Single => vec![None],
            Tasks::One(task) => vec![Some(*task)],
            Tasks::Many(tasks) => tasks.iter().copied().map(Some).collect(),
        };
        // The list of them would be as long as there are copies of it.
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
        // The controller's word is newer, where it has one.
        if fate.state.is_none_or(|state| !state.has_ended()) {
            fate.state = record.state;
        }
        fate.exit = record.exit.or(fate.exit);
        (fate.record, fate.cancelled_by) = (Some(record.clone()), record.cancelled_by);
    }
    // What was cancelled before it began is one record, for many tasks or for the whole array. What began has one of its own.
    for record in facts.records.iter().filter(|record| plan.array.is_some() && record.has_ended()) {
        let tell = |fate: &mut Fate| {
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
            // They come in order: the last run is the one that counts.
            (fate.again, fate.restarts) = (*again, fate.restarts.max(run.restart));
            fate.end = facts.ends.get(run).cloned();
        }
    }
    fates
}

impl Fate {
    /// What is to be told of it, or what is still waited for.
    pub(crate) fn verdict(&self, plan: &Plan, facts: &Facts) -> Result<Verdict, &'static str> {
        Ok(match (self.judge(plan, facts)?, self.canceller(facts)) {
            (Verdict::Stopped(words), Some(name)) => {
                Verdict::Stopped(words.replacen("cancelled", &format!("cancelled by {name}"), 1))
            }
            (Verdict::Bad(why), _) if self.is_out_of_memory(plan) => {
                Verdict::Bad(format!("{} ({why})", State::OutOfMemory.in_words()))
            }
            (verdict, _) => verdict,
        })
    }

    /// Who cancelled it, where the accounting says so and it was not done for its task.
    fn canceller(&self, facts: &Facts) -> Option<String> {
        let By::User(number) = self.cancelled_by else { return None };
        let name = || facts.users.get(&number).cloned().unwrap_or_else(|| format!("user {number}"));
        (!facts.cancelled).then(name)
    }

    /// True if it was killed after it had used more memory than it had asked for. Without control groups, Slurm shows such a job as
    /// failed by SIGKILL.
    pub(crate) fn is_out_of_memory(&self, plan: &Plan) -> bool {
        let killed = match &self.end {
            Some(end) => end.signal() == Some(9),
            None => self.exit.is_some_and(|exit| exit.signal == 9 || exit.code == 128 + 9),
        };
        let is_failure = matches!(self.state, Some(State::Failed) | None);
        killed && is_failure && Usage::of(plan, self).exceeds_memory()
    }

    fn judge(&self, plan: &Plan, facts: &Facts) -> Result<Verdict, &'static str> {
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
        // A wrapper that found the fence, and not the script, is what Slurm saw the end of.
        if self.again || (self.began && code == Some(NOT_AGAIN)) {
            return match over_for < HEARD_WITHIN {
                true => Err("Slurm started it a second time; the end of the first run is waited for"),
                false => Ok(Verdict::Lost(
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
                // A node that still knew another job of this number did not launch it, and nobody told the controller.
                false => Ok(never_began("Slurm showed it as running until its time limit")),
            };
        }
        Ok(match state {
            State::Completed => Verdict::Good,
            State::Cancelled if self.could_never_begin(plan, facts) => {
                Verdict::Bad("the job that was to come first did not end as required".to_owned())
            }
            State::Cancelled => Verdict::Stopped(match self.began {
                true => "cancelled".to_owned(),
                false => "cancelled before it began".to_owned(),
            }),
            State::Failed if code == Some(NO_FOLDER) && plan.attached.is_none() => Verdict::Bad(
                "its node could not write into the job's folder: is `jobs_dir` on a file system that all nodes share?".to_owned(),
            ),
            State::Failed if !self.began && self.exit.is_some_and(|exit| exit.signal == NO_OUTPUT) => Verdict::Bad(
                "its node could not open its output files: may its user write into the job's folder there?".to_owned(),
            ),
            State::Failed => Verdict::Bad(self.exit.map_or_else(|| "failed".to_owned(), exit_in_words)),
            state => Verdict::Bad(state.in_words().to_owned()),
        })
    }

    /// True if nobody is known to have asked for its end. After a crash of the controller, which can give a number twice, a node that still has the
    /// other job of that number asks the controller to cancel the new one: as the user that the nodes' servers are, after the job
    /// was given the node, or before that, and before its script began.
    fn may_be_cancelled_by_slurm(&self, facts: &Facts) -> bool {
        let nodes =
            [self.row.as_ref().map(|row| &row.nodes), self.record.as_ref().map(|record| &record.nodes)];
        let has_node = nodes.into_iter().flatten().any(|nodes| !nodes.is_empty() && nodes != "None assigned");
        let by_another = match (self.cancelled_by, facts.slurmd_user) {
            (By::User(by), Some(slurmd)) => by != slurmd,
            _ => false,
        };
        let before_that = facts.number_given_again && self.cancelled_by != By::Nobody;
        !facts.cancelled && !self.began && (has_node || before_that) && !by_another
    }

    /// Only the accounting knows who cancels a job.
    fn why_cancelled(&self, facts: &Facts) -> &'static str {
        match (self.cancelled_by, facts.slurmd_user) {
            _ if facts.number_given_again => {
                "Slurm gave the job's number twice, and it was cancelled before it began, by whom is not known: somebody did, or Slurm \
                 itself cancelled it, as it does then"
            }
            (By::Unsaid, _) | (By::User(_), None) => {
                "it was cancelled after it was given a node, by whom is not known: somebody did, or Slurm itself cancelled it, as it \
                 does when it gave the job's number twice"
            }
            _ => "Slurm itself cancelled it on its node, as it does when it gave the job's number twice",
        }
    }

    /// True if Slurm cancelled it because the job that was to come first did not end as required. Its reason says so, which the
    /// controller forgets with the job; the accounting knows that no user did it.
    fn could_never_begin(&self, plan: &Plan, facts: &Facts) -> bool {
        let by_nobody = !self.began && !facts.cancelled && self.cancelled_by == By::Nobody;
        self.row.as_ref().is_some_and(|row| row.reason == "DependencyNeverSatisfied")
            || (by_nobody && plan.asked.contains_key("dependency"))
    }

    /// Neither the controller nor the accounting knows how it ended, and it left no marker.
    fn unknown(&self, plan: &Plan, facts: &Facts) -> Result<Verdict, &'static str> {
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
                false => {
                    Ok(Verdict::Lost("Slurm no longer knows the job, which began and left no end".to_owned()))
                }
            };
        }
        if facts.over_for < KNOWN_WITHIN {
            return Err("Slurm does not know it");
        }
        Ok(match facts.cancelled {
            true => Verdict::Stopped("cancelled before it began".to_owned()),
            false if plan.attached.is_some() => Verdict::Lost("Slurm no longer knows the job".to_owned()),
            false => never_began("Slurm no longer knows the job"),
        })
    }
}

/// Of a job that is lost and whose fence nobody has passed. Whoever tells so shuts the fence.
fn never_began(why: &str) -> Verdict {
    Verdict::Lost(format!(
        "{why}; its script never began and cannot any more, so that it may be called again"
    ))
}

/// The end that the wrapper wrote, with what Slurm says of why.
fn by_marker(end: &End, slurms: Option<State>, cancelled: bool) -> Verdict {
    if end.was_stopped() {
        match slurms {
            Some(State::Cancelled) => return Verdict::Stopped("cancelled".to_owned()),
            // A controller that was killed meanwhile may only have heard of the code that it ended with.
            Some(State::Failed) | None if cancelled => return Verdict::Stopped("cancelled".to_owned()),
            // A node that was told to cancel another job of this number ends this one as well. Or it was the signal of a tool.
            None if end.told.is_some() && end.code != 0 => {
                return Verdict::Bad(format!(
                    "its script was told to end ({}); Slurm no longer knows the job, nor who did that",
                    in_words(end.code)
                ));
            }
            // It may have been Slurm, whose controller forgot the start in a crash, had it ended, and then started the job again.
            Some(State::Completed | State::Failed) if end.told.is_some() && end.code != 0 => {
                return Verdict::Bad(format!(
                    "its script was told to end ({}), by somebody's signal, or by Slurm after its controller broke down",
                    in_words(end.code)
                ));
            }
            Some(State::Completed | State::Failed) | None => {}
            Some(state) => return Verdict::Bad(state.in_words().to_owned()),
        }
    }
    match (end.code, slurms) {
        // Something that the script ran was killed for want of memory, and the script did not notice, or went on.
        (0, Some(state @ State::OutOfMemory)) => {
            Verdict::Bad(format!("{} (though the script ended with 0)", state.in_words()))
        }
        (0, _) => Verdict::Good,
        // It can end by itself as the limit is reached, and say so by its code.
        (code, Some(state @ (State::OutOfMemory | State::Timeout | State::Deadline))) => {
            Verdict::Bad(format!("{} ({})", state.in_words(), in_words(code)))
        }
        (code, _) => Verdict::Bad(in_words(code)),
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
