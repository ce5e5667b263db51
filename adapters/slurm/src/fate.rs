//! What became of a job that Slurm no longer runs: of a whole job, or of each task of an array. What its wrapper wrote goes before
//! what Slurm says, since a controller that crashed can start a job again that has ended, or forget one that ran. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver::{By, Exit, Record, Row, Tasks};
use crate::end::{End, NO_FOLDER, NOT_AGAIN, Run, in_words, signal_name};
use crate::plan::Plan;
use crate::state::State;

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
    /// By which user's number Slurm itself cancels a job on a node, where that is known.
    pub(crate) slurmd_user: Option<u32>,
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
                false => Ok(never_began(self.why_cancelled_on_its_node(facts))),
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
    /// was given the node, and before its script began.
    fn may_be_cancelled_by_slurm(&self, facts: &Facts) -> bool {
        let nodes =
            [self.row.as_ref().map(|row| &row.nodes), self.record.as_ref().map(|record| &record.nodes)];
        let has_node = nodes.into_iter().flatten().any(|nodes| !nodes.is_empty() && nodes != "None assigned");
        let by_another = match (self.cancelled_by, facts.slurmd_user) {
            (By::User(by), Some(slurmd)) => by != slurmd,
            _ => false,
        };
        !facts.cancelled && !self.began && has_node && !by_another
    }

    /// Only the accounting knows who cancels a job.
    fn why_cancelled_on_its_node(&self, facts: &Facts) -> &'static str {
        match (self.cancelled_by, facts.slurmd_user) {
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
mod tests {
    use super::*;

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
            limit: None,
            restarts: 0,
            partition: "debug".to_owned(),
            nodes: String::new(),
            comment: None,
        }
    }

    fn told(
        state: Option<(State, u32)>,
        began: bool,
        end: Option<(u32, Option<&str>)>,
        over_for: u64,
    ) -> Result<Verdict, String> {
        let run = Run { task: None, restart: 0 };
        let facts = Facts {
            rows: state.map(|(state, code)| row(state, code)).into_iter().collect(),
            ran: began.then_some((run, false)).into_iter().collect(),
            ends: end
                .map(|(code, told)| (run, End { code, told: told.map(str::to_owned), ..End::default() }))
                .into_iter()
                .collect(),
            over_for: Duration::from_secs(over_for),
            ..Facts::default()
        };
        let plan = Plan::default();
        fates(&plan, &facts)[&None].verdict(&plan, &facts).map_err(str::to_owned)
    }

    fn is_bad(verdict: &Result<Verdict, String>, part: &str) -> bool {
        matches!(verdict, Ok(Verdict::Bad(why)) if why.contains(part))
    }

    #[test]
    fn the_marker_goes_before_the_state() {
        // A duplicate that found the fence made Slurm say that the job failed.
        assert_eq!(told(Some((State::Failed, NOT_AGAIN)), true, Some((0, None)), 0), Ok(Verdict::Good));
        // One that Slurm calls completed.
        assert!(is_bad(&told(Some((State::Completed, 0)), true, Some((3, None)), 0), "exit code 3"));
        assert_eq!(told(None, true, Some((0, None)), 0), Ok(Verdict::Good), "purged from the controller");
        // It ended by itself before it was cancelled.
        assert_eq!(told(Some((State::Cancelled, 0)), true, Some((0, None)), 0), Ok(Verdict::Good));
    }

    #[test]
    fn what_was_stopped_is_told_by_the_state() {
        for end in [(143, Some("TERM")), (0, Some("TERM")), (137, None)] {
            assert_eq!(
                told(Some((State::Cancelled, 0)), true, Some(end), 0),
                Ok(Verdict::Stopped("cancelled".to_owned()))
            );
            assert!(is_bad(&told(Some((State::Timeout, 0)), true, Some(end), 0), "time limit"));
        }
        let end = End { code: 143, told: Some("TERM".to_owned()), ..End::default() };
        let asked = |cancelled| by_marker(&end, Some(State::Failed), cancelled);
        assert_eq!(asked(true), Verdict::Stopped("cancelled".to_owned()), "as a killed controller tells it");
        let why = "its script was told to end (exit code 143: ended by SIGTERM), by somebody's signal, or by Slurm after its controller \
                   broke down";
        assert_eq!(asked(false), Verdict::Bad(why.to_owned()));
        assert!(is_bad(&told(Some((State::OutOfMemory, 0)), true, Some((137, None)), 0), "more memory"));
        assert!(is_bad(
            &told(Some((State::OutOfMemory, 0)), true, Some((1, None)), 0),
            "more memory than it had asked for (exit code 1)"
        ));
        assert!(is_bad(
            &told(Some((State::OutOfMemory, 0)), true, Some((0, None)), 0),
            "more memory than it had asked for (though the script ended with 0)"
        ));
        // It was done before its time was up.
        assert_eq!(told(Some((State::Timeout, 0)), true, Some((0, None)), 0), Ok(Verdict::Good));
    }

    #[test]
    fn without_a_marker_it_is_as_slurm_says_after_a_while() {
        assert!(told(Some((State::Completed, 0)), true, None, 0).is_err(), "it may be on its way");
        assert_eq!(told(Some((State::Completed, 0)), true, None, 6), Ok(Verdict::Good));
        assert!(is_bad(&told(Some((State::Failed, 1)), false, None, 0), "exit code 1"));
        assert!(is_bad(&told(Some((State::NodeFail, 0)), true, None, 0), "node"));
        assert!(is_bad(&told(Some((State::Failed, NO_FOLDER)), false, None, 0), "jobs_dir"));
        assert_eq!(
            told(Some((State::Cancelled, 0)), false, None, 0),
            Ok(Verdict::Stopped("cancelled before it began".to_owned()))
        );
    }

    #[test]
    fn what_slurm_cancels_by_itself_is_lost_and_what_somebody_cancels_is_not() {
        // As recorded from a 22.05 after a kill of its controller: the node found that it ran a job of that number already.
        let by_node = "20|CANCELLED by 0|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
        let by_user =
            "20|CANCELLED by 1000|0:0|1795339653|1795339657|1795339657|0|60||00:00:00|1|50M|vm|tb-a";
        let waited =
            "20|CANCELLED by 0|0:0|1795339653|Unknown|1795339657|0|60||00:00:00|1|50M|None assigned|tb-a";
        let judged = |record: &str, began: bool, cancelled: bool, over_for: u64| {
            let facts = Facts {
                records: crate::driver::accounting_text::records(record),
                ran: began.then_some((Run { task: None, restart: 0 }, false)).into_iter().collect(),
                cancelled,
                slurmd_user: Some(0),
                over_for: Duration::from_secs(over_for),
                ..Facts::default()
            };
            let plan = Plan::default();
            fates(&plan, &facts)[&None].verdict(&plan, &facts)
        };
        assert!(judged(by_node, false, false, 0).is_err(), "its fence may not be seen yet");
        assert!(
            matches!(judged(by_node, false, false, 6), Ok(Verdict::Lost(why)) if why.contains("called again"))
        );
        // Without the accounting nobody knows whether somebody did it, as it may be while the node is made ready.
        let cancelled = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
        let facts = Facts { rows: vec![cancelled], over_for: Duration::from_secs(6), ..Facts::default() };
        let unsaid = fates(&Plan::default(), &facts)[&None].verdict(&Plan::default(), &facts);
        assert!(
            matches!(&unsaid, Ok(Verdict::Lost(why)) if why.contains("somebody did, or Slurm itself") && why.contains("called again")),
            "{unsaid:?}"
        );
        for (record, began, cancelled) in
            [(by_user, false, false), (waited, false, false), (by_node, true, false), (by_node, false, true)]
        {
            assert!(matches!(judged(record, began, cancelled, 6), Ok(Verdict::Stopped(_))), "{record}");
        }
        // The node that cancels the one ends the other of that number, too, which the controller has forgotten.
        let end = Some((143, Some("TERM")));
        assert!(is_bad(&told(None, true, end, 0), "no longer knows the job"));
        // Or it starts the forgotten one again, to which its fence says that it ran.
        let again = Some((State::Completed, 0));
        assert!(is_bad(&told(again, true, end, 0), "after its controller broke down"));
    }

    #[test]
    fn tasks_that_were_cancelled_before_they_began_are_told_as_that() {
        // As recorded from a 22.05: of ten tasks, two began.
        let records = "\
1_[2-9%2]|CANCELLED by 0|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-a
1_0|COMPLETED|0:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a
1_1|FAILED|3:0|1795339653|1795339654|1795339655|1|UNLIMITED||00:00:00|1|10M|vm|tb-a
";
        let facts = Facts {
            records: crate::driver::accounting_text::records(records),
            over_for: Duration::from_secs(60),
            ..Facts::default()
        };
        let plan = Plan { array: Some("0-9%2".to_owned()), ..Plan::default() };
        let fates = fates(&plan, &facts);
        let verdict = |task: u32| fates[&Some(task)].verdict(&plan, &facts).unwrap();
        assert_eq!(verdict(0), Verdict::Good);
        assert_eq!(verdict(1), Verdict::Bad("exit code 3".to_owned()));
        for task in 2..10 {
            assert_eq!(verdict(task), Verdict::Stopped("cancelled before it began".to_owned()), "{task}");
        }
    }

    #[test]
    fn the_tasks_of_a_large_array_that_never_began_take_little_memory_each() {
        // squeue shows one row for all of them.
        let tasks: Vec<u32> = (0..5_000).collect();
        let mut all = row(State::Cancelled, 0);
        all.tasks = Tasks::Many(tasks);
        let facts = Facts { rows: vec![all], ..Facts::default() };
        let fates = fates(&Plan { array: Some("0-4999%5".to_owned()), ..Plan::default() }, &facts);
        let kept = |fate: &Fate| fate.row.as_ref().is_some_and(|row| row.count() == 1);
        assert!(fates.len() == 5_000 && fates.values().all(kept), "none has a list of all");
    }

    #[test]
    fn a_job_after_one_that_failed_is_told_as_failed_by_the_accounting_alone() {
        // As recorded from a 22.05. What a user cancels says so.
        let record = |id: &str, state: &str| {
            format!(
                "{id}|{state}|0:0|1795339653|Unknown|1795339656|0|UNLIMITED||00:00:00|1|10M|None assigned|tb-a\n"
            )
        };
        let failed = Verdict::Bad("the job that was to come first did not end as required".to_owned());
        let stopped = Verdict::Stopped("cancelled before it began".to_owned());
        for (id, state, depends, wanted) in [
            ("2", "CANCELLED", true, &failed),
            ("2", "CANCELLED by 0", true, &stopped),
            ("2", "CANCELLED", false, &stopped),
            ("2_[0-3]", "CANCELLED", true, &failed),
            ("2_[0-3]", "CANCELLED by 0", true, &stopped),
        ] {
            let facts = Facts {
                records: crate::driver::accounting_text::records(&record(id, state)),
                over_for: Duration::from_secs(60),
                ..Facts::default()
            };
            let dependency = ("dependency".to_owned(), "afterok:1".to_owned());
            let plan = Plan {
                array: id.contains('_').then(|| "0-3".to_owned()),
                asked: depends.then_some(dependency).into_iter().collect(),
                ..Plan::default()
            };
            for (task, fate) in fates(&plan, &facts) {
                assert_eq!(
                    fate.verdict(&plan, &facts).as_ref(),
                    Ok(wanted),
                    "{id} {task:?} {state} {depends}"
                );
            }
        }
    }

    #[test]
    fn what_the_accounting_may_know_is_not_lost_while_it_does_not_answer() {
        let judged = |rows: Vec<Row>, began: bool, accounting: Accounting| {
            let facts = Facts {
                rows,
                ran: began.then_some((Run { task: None, restart: 0 }, false)).into_iter().collect(),
                accounting,
                over_for: Duration::from_secs(86_400),
                ..Facts::default()
            };
            let plan = Plan::default();
            fates(&plan, &facts)[&None].verdict(&plan, &facts)
        };
        let cancelled = Row { nodes: "vm".to_owned(), ..row(State::Cancelled, 0) };
        for (rows, began) in [(Vec::new(), false), (Vec::new(), true), (vec![cancelled], false)] {
            for accounting in [Accounting::Silent, Accounting::NotAsked] {
                assert!(judged(rows.clone(), began, accounting).is_err(), "{rows:?} {began}");
            }
            assert!(matches!(judged(rows, began, Accounting::Heard), Ok(Verdict::Lost(_))));
        }
        assert_eq!(
            judged(vec![row(State::Completed, 0)], true, Accounting::Silent),
            Ok(Verdict::Good),
            "the controller knows"
        );
    }

    #[test]
    fn what_nobody_knows_is_lost() {
        assert!(told(Some((State::Failed, NOT_AGAIN)), true, None, 10).is_err());
        assert!(matches!(told(Some((State::Failed, NOT_AGAIN)), true, None, 61), Ok(Verdict::Lost(_))));
        assert!(told(None, true, None, 10).is_err() && told(None, false, None, 10).is_err());
        assert!(matches!(told(None, true, None, 61), Ok(Verdict::Lost(why)) if why.contains("left no end")));
        assert!(matches!(told(None, false, None, 21), Ok(Verdict::Lost(why)) if why.contains("never began")));
    }
}
