//! A look at many jobs: one squeue answers for all that wait or run; for those that have left it, one sacct and what their folders
//! hold. How a job ended is written down once, so that it is seen the same ever after.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use taskbridge_sdk::{Error, JobState, Observation, Result, Subject};
use tokio::time::Instant;

use crate::backend::Slurm;
use crate::case::Case;
use crate::disk::{AT_ONCE, still_wanted};
use crate::driver::{By, JobId, Row};
use crate::end::Run;
use crate::fate::{Accounting, Facts};
use crate::folder::{Folder, OBSERVED};
use crate::handle::Place;
use crate::held::TRY_EVERY;
use crate::live;
use crate::plan::Plan;
use crate::result::{self, Conclusion};
use crate::start::{unreadable, unwritable};
use crate::unix::name_of;
use crate::watch::{Heard, Need, Queue};

/// How long after something was done about a job it counts as young.
const YOUNG: Duration = Duration::from_secs(60);

impl Slurm {
    pub(crate) async fn look(&self, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let places: Vec<Result<Option<Place>>> = jobs.iter().map(|job| self.parse(&job.handle)).collect();
        let ours = places.iter().zip(jobs);
        let known: Vec<(Place, bool)> =
            ours.filter_map(|(place, job)| Some((place.as_ref().ok()?.clone()?, job.watched))).collect();
        let mut answers: HashMap<String, Result<Observation>> = HashMap::new();
        match self.look_at(known).await {
            Ok(seen) => answers.extend(seen),
            Err(error) => {
                let again = |place: &Place| {
                    (place.handle().to_string(), Err(Error::new(error.kind(), error.to_string())))
                };
                answers.extend(places.iter().flatten().flatten().map(again));
            }
        }
        let mut answer = |(job, place): (&Subject, Result<Option<Place>>)| match place {
            Err(error) => Err(error),
            Ok(None) => Ok(Observation::new(JobState::Gone).with_message("it is no job of this backend")),
            Ok(Some(_)) => match answers.get(job.handle.as_str()) {
                // The same handle may be asked for twice.
                Some(Ok(seen)) => Ok(seen.clone()),
                _ => answers
                    .remove(job.handle.as_str())
                    .unwrap_or_else(|| Err(Error::unavailable("it was not looked at"))),
            },
        };
        jobs.iter().zip(places).map(&mut answer).collect()
    }

    async fn look_at(&self, places: Vec<(Place, bool)>) -> Result<Vec<(String, Result<Observation>)>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        // Whether there is an accounting is learned here if the cluster was away at the start.
        self.cluster().await?;
        self.folder_is_made().await?;
        let mut cases = self.cases(places).await?;
        for case in cases.iter().filter(|case| case.plan.as_ref().is_some_and(|plan| plan.attached.is_none()))
        {
            self.known.meet(case.place.job, &case.place.key);
        }
        let young = cases.iter().any(|case| self.is_young(&case.place.key));
        let (mut queue, mut began) =
            self.watch.queue(&*self.driver, if young { Need::Young } else { Need::Usual }).await?;
        let has = |queue: &Queue, case: &Case| queue.of(case.place.job).iter().any(|row| case.is_of(row));
        if cases.iter().any(|case| !has(&queue, case) && self.is_seen_since(&case.place.key, began)) {
            (queue, began) = self.watch.queue(&*self.driver, Need::Missing(began)).await?;
        }
        self.cancel_duplicates(&queue, &cases).await?;
        for case in &mut cases {
            case.rows = queue.of(case.place.job).iter().filter(|row| case.is_of(row)).cloned().collect();
            if case.tasks_that_go_on().is_some() {
                case.tally = self.known.tally(&case.place.key);
            }
            case.preempted = self.known.preempted(&case.place.key, case.restarts());
        }
        let cases = self.read_folders(cases).await;
        for case in &cases {
            if let Some(preempted) = case.preempted {
                self.known.keep_preempted(&case.place.key, case.restarts(), preempted);
            }
        }
        let cases = self.believe_markers(cases).await;
        self.answer(cases, began).await
    }

    fn is_young(&self, key: &str) -> bool {
        self.known.touched(key).is_some_and(|at| at.elapsed() < YOUNG)
    }

    /// True if a look that began then must have seen what this process did last about the job.
    fn is_seen_since(&self, key: &str, began: Instant) -> bool {
        self.known.touched(key).is_none_or(|touched| touched < began)
    }

    async fn answer(&self, cases: Vec<Case>, began: Instant) -> Result<Vec<(String, Result<Observation>)>> {
        let accounted = match self.has_accounting() {
            true => {
                let is_asked_about = |case: &&Case| case.is_over() || case.needs_records();
                let asked: Vec<JobId> =
                    cases.iter().filter(is_asked_about).map(|case| case.place.job).collect();
                self.watch.accounted(&*self.driver, &asked).await
            }
            false => HashMap::new(),
        };
        let waiting = cases.iter().any(|case| case.watched && case.rows.iter().any(live::has_position));
        let positions = if waiting { self.watch.positions(&*self.driver).await } else { None };
        let mut answers = Vec::with_capacity(cases.len());
        let mut over = Vec::new();
        for mut case in cases {
            let name = case.place.handle().to_string();
            if let Some(error) = case.wrong.take() {
                answers.push((name, Err(error)));
                continue;
            }
            let heard = accounted.get(&case.place.job);
            let records = match heard {
                Some(Heard::Records(records)) => records.as_slice(),
                _ => &[],
            };
            let records: Vec<_> =
                records.iter().filter(|record| record.name == case.name()).cloned().collect();
            if let Some(tasks) = case.tasks_that_go_on()
                && matches!(heard, Some(Heard::Records(_)))
            {
                case.tally.lock().hear(&tasks, &case.rows, &records);
            }
            if let Some(marks) = &mut case.marks {
                marks.facts.records = records;
                marks.facts.accounting = match heard {
                    Some(Heard::Nothing) => Accounting::Silent,
                    None if self.has_accounting() => Accounting::NotAsked,
                    _ => Accounting::Heard,
                };
            }
            let position = positions.as_ref().and_then(|places| places.get(&case.place.job).copied());
            match case.is_alive() {
                true => answers.push((name, Ok(self.alive(&case, position).await))),
                false => over.push(async { (name, self.over(case, began).await) }),
            }
        }
        // Side by side: where a folder of the user's hangs, one is waited for no longer than all of them.
        answers.extend(stream::iter(over).buffered(AT_ONCE).collect::<Vec<_>>().await);
        Ok(answers)
    }

    /// One that waits or runs. One that waits for its release, which failed before, is released.
    async fn alive(&self, case: &Case, position: Option<usize>) -> Observation {
        let key = &case.place.key;
        self.known.goes_on(key);
        let plan = case.plan.clone().unwrap_or_default();
        let is_held = case.rows.iter().any(Row::is_held_by_user);
        let Some(marks) = case.marks.as_ref().filter(|_| is_held) else {
            let mut seen = live::told(&plan, &case.rows, position, &mut case.tally.lock());
            seen.log_bytes = case.printed;
            let seen = live::with_not_begun(seen, &plan, case.not_begun);
            return live::with_preempted(seen, case.preempted == Some(true));
        };
        if marks.facts.cancelled && self.known.is_due(key, TRY_EVERY) {
            // A controller that crashed has forgotten that. If this fails, a look a while later tries again.
            drop(self.driver.cancel(case.place.job, key).await);
        }
        let may_go = marks.may_go && !marks.facts.cancelled && self.known.is_due(key, TRY_EVERY);
        if may_go && self.is_to_be_released(marks.released).await {
            self.release(key, case.place.job).await;
        }
        match &plan.approval {
            Some(words) if !marks.answered && !marks.facts.cancelled => live::asking(words),
            _ => live::told(&plan, &case.rows, position, &mut case.tally.lock()),
        }
    }

    /// One of which nothing waits or runs any more.
    async fn over(&self, case: Case, began: Instant) -> Result<Observation> {
        let key = case.place.key.clone();
        let Some(mut marks) = case.marks else {
            return Err(Error::unavailable("its folder was not read"));
        };
        if let Some(observed) = marks.observed {
            self.known.forget(&key);
            return Ok(observed);
        }
        let Some(plan) = case.plan else {
            return Ok(Observation::new(JobState::Gone)
                .with_message("Slurm does not know the job, and it left no folder"));
        };
        // A look from before the job was submitted says nothing of it.
        if case.rows.is_empty() && !self.is_seen_since(&key, began) {
            return Ok(Observation::new(JobState::Queued).with_message("submitted"));
        }
        if let Some(read) = marks.unread_after {
            self.known.over_for(&key);
            return Ok(reading(read));
        }
        // While the folder does not answer, the job's nodes cannot write into it either.
        marks.facts.over_for = self.known.over_for(&key).min(self.disks.jobs.answers_for());
        if marks.facts.accounting != Accounting::NotAsked {
            marks.facts.asked_for = self.known.asked_for(&key);
        }
        marks.facts.rows = case.rows;
        marks.facts.number_given_again = self.known.was_given_again(case.place.job);
        marks.facts.slurmd_user = self.cluster().await?.slurmd_user;
        let patience = if self.has_accounting() { self.accounting_wait } else { Duration::ZERO };
        let (folder, mut facts, job) = (case.folder, marks.facts, case.place.job);
        let is_news = facts.accounting != Accounting::NotAsked;
        facts.preempted = case.preempted.unwrap_or(false);
        let disk = self.disk_of(&plan, &folder);
        let concluded = disk
            .run(move || match concluded(&plan, &mut facts, &folder, job, patience) {
                Conclusion::NotYet(observation) => Ok((observation, false)),
                Conclusion::Ended(observation, never_began) => {
                    still_wanted().map_err(|e| unwritable(&folder, e))?;
                    if plan.attached.is_none() && !shut(&folder, never_began)? {
                        return Ok((beginning(), false));
                    }
                    keep(&folder, &observation).map(|kept| (kept, true))
                }
            })
            .await?;
        let (mut observation, ended) = concluded?;
        if ended {
            self.known.forget(&key);
        } else {
            observation.message = self.known.steady(&key, observation.message, is_news);
        }
        Ok(observation)
    }
}

/// Concludes how a job ended. Whose the numbers of users are is looked up first, which can take its time.
fn concluded(plan: &Plan, facts: &mut Facts, folder: &Folder, job: JobId, patience: Duration) -> Conclusion {
    let by = facts.records.iter().filter_map(|record| match record.cancelled_by {
        By::User(number) => Some(number),
        By::Unsaid | By::Nobody => None,
    });
    let by: BTreeSet<u32> = by.collect();
    facts.users = by.into_iter().filter_map(|number| Some((number, name_of(number)?))).collect();
    result::conclude(plan, facts, folder, job, patience)
}

/// Sees to it that these runs never begin. False if one has begun after all.
fn shut(folder: &Folder, runs: Vec<Run>) -> Result<bool> {
    for run in runs {
        if !folder.shut(run).map_err(|e| unwritable(folder, e))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An array that has ended, and of which it has been read how so many tasks did.
fn reading(read: usize) -> Observation {
    let words = format!("it has ended; how its tasks ended is being read, {read} so far");
    Observation::new(JobState::Running).with_message(words)
}

/// One that began as it was given up.
fn beginning() -> Observation {
    Observation::new(JobState::Running).with_message("it has begun")
}

/// Writes down how a job ended, unless somebody was first: then that is how it ended.
fn keep(folder: &Folder, observation: &Observation) -> Result<Observation> {
    let text = serde_json::to_vec(observation)
        .map_err(|e| Error::unavailable("the end cannot be written").caused_by(e))?;
    let kept = folder.write_first(OBSERVED, &text).map_err(|e| unreadable(folder, e))?;
    serde_json::from_slice(&kept).map_err(|e| {
        Error::unavailable(format!("{} cannot be understood", folder.file(OBSERVED).display())).caused_by(e)
    })
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::{JobHandle, Timestamp};

    use super::*;
    use crate::driver::Record;
    use crate::fake::{Fake, held, row};
    use crate::folder::{CANCELLED, GO, ID, PLAN, RELEASED};
    use crate::held::{AWAY_FOR, BOOTED_FOR};
    use crate::plan::Attached;
    use crate::reading::SHOWN_WITHIN;
    use crate::state::State;
    use crate::watch::Watch;

    struct World {
        slurm: Slurm,
        folder: Folder,
        fake: Fake,
        _dir: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let fake = Fake::default();
            fake.knows().rows = vec![row(7, "tb-a", State::Running)];
            let slurm = Slurm::with(Box::new(fake.clone()), dir.path());
            let folder = slurm.folder("tb-a");
            folder.make(None).unwrap();
            folder.write_json(PLAN, &Plan { root: folder.work(), ..Plan::default() }).unwrap();
            folder.write(RELEASED, b"", 0o600).unwrap();
            Self { slurm, folder, fake, _dir: dir }
        }

        async fn look(&self) -> Observation {
            let handle = JobHandle::new("lab/7/tb-a");
            let seen = self.slurm.look(&Subject::watched(&[handle])).await;
            seen.into_iter().next().unwrap().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_scripts_have_ended_is_over_although_slurm_shows_it_as_running() {
        let world = World::new();
        assert_eq!(world.look().await.state, JobState::Running);
        tokio::time::advance(SHOWN_WITHIN * 2).await;
        assert_eq!(world.look().await.state, JobState::Running, "it has not ended, however long it runs");
        std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
        std::fs::write(world.folder.file("ends/job.0"), "code=3\n").unwrap();
        assert_eq!(world.look().await.state, JobState::Running, "Slurm may only be a little late");
        tokio::time::advance(SHOWN_WITHIN - Duration::from_secs(1)).await;
        assert_eq!(world.look().await.state, JobState::Running);
        tokio::time::advance(Duration::from_secs(1)).await;
        let seen = world.look().await;
        assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
        assert_eq!(seen.message.as_deref(), Some("exit code 3"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_takes_long_to_complete_is_judged_by_what_slurm_then_says() {
        let world = World::new();
        std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
        // Its script made good use of the time between the signal and the kill.
        std::fs::write(world.folder.file("ends/job.0"), "told=TERM\ncode=0\n").unwrap();
        world.fake.knows().rows = vec![row(7, "tb-a", State::Completing)];
        for _ in 0..3 {
            assert_eq!(world.look().await.state, JobState::Running);
            tokio::time::advance(SHOWN_WITHIN).await;
        }
        world.fake.knows().rows = vec![row(7, "tb-a", State::Timeout)];
        let seen = world.look().await;
        assert!(matches!(seen.state, JobState::Failed(_)), "{seen:?}");
        assert!(seen.message.as_ref().is_some_and(|words| words.contains("time limit")), "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_held_again_after_it_was_cancelled_is_cancelled_once_more() {
        let world = World::new();
        world.folder.write(CANCELLED, b"", 0o600).unwrap();
        world.fake.knows().rows = vec![held(7, "tb-a")];
        for _ in 0..3 {
            assert_eq!(world.look().await.state, JobState::Queued);
        }
        assert_eq!(world.fake.knows().cancelled, [7]);
        tokio::time::advance(TRY_EVERY).await;
        world.look().await;
        assert_eq!(world.fake.knows().cancelled, [7, 7], "it is still there");
        assert!(world.fake.knows().released.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_says_of_a_job_that_runs_for_long_that_its_script_has_not_begun() {
        let world = World::new();
        let since = Some(Timestamp::from_millis(1_600_000_000_000));
        world.fake.knows().rows = vec![Row { start: since, ..row(7, "tb-a", State::Running) }];
        let message = world.look().await.message.unwrap();
        assert!(message.ends_with("; its script has not begun"), "{message}");
        std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
        let message = world.look().await.message.unwrap();
        assert!(!message.contains("begun"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_not_lost_while_the_accounting_does_not_answer() {
        let mut world = World::new();
        world.slurm.believe_in_accounting();
        world.fake.knows().rows.clear();
        assert_eq!(world.look().await.state, JobState::Running);
        tokio::time::advance(Duration::from_secs(86_400)).await;
        let seen = world.look().await;
        assert_eq!(seen.state, JobState::Running, "{seen:?}");
        assert!(seen.message.as_ref().is_some_and(|words| words.contains("does not answer")), "{seen:?}");
    }

    /// Looks come more often than the accounting is asked.
    #[tokio::test(start_paused = true)]
    async fn forgotten_job_has_steady_message() {
        let mut world = World::new();
        world.slurm.believe_in_accounting();
        world.slurm.watch = Watch::new(Duration::from_secs(15), Duration::ZERO);
        world.fake.knows().rows.clear();
        world.fake.knows().records = Some(Vec::new());
        std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
        let mut said = Vec::new();
        for _ in 0..55 {
            let seen = world.look().await;
            assert_eq!(seen.state, JobState::Running, "{seen:?}");
            said.extend(seen.message);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        said.dedup();
        assert_eq!(said, ["Slurm no longer knows it; its end marker is waited for"]);
    }

    #[tokio::test(start_paused = true)]
    async fn preempted_job_says_so() {
        let world = World::new();
        std::fs::create_dir_all(world.folder.file("logs")).unwrap();
        let log = world.folder.log(crate::folder::Stream::Err, None);
        std::fs::write(
            &log,
            "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-25T07:34:53 DUE TO PREEMPTION ***\n",
        )
        .unwrap();
        let waits = Row { restarts: 1, reason: "BeginTime".to_owned(), ..row(7, "tb-a", State::Pending) };
        world.fake.knows().rows = vec![waits];
        let message = world.look().await.message.unwrap();
        assert!(
            message.ends_with("put back into the queue once; a job of a higher priority had preempted it"),
            "{message}"
        );
        // Its second run prints more than is read, and is put back by an administrator.
        std::fs::write(&log, "x\n".repeat(100_000)).unwrap();
        world.fake.knows().rows = vec![Row { restarts: 1, ..row(7, "tb-a", State::Running) }];
        let message = world.look().await.message.unwrap();
        assert!(message.contains("preempted"), "it is remembered: {message}");
        world.fake.knows().rows = vec![Row { restarts: 2, ..row(7, "tb-a", State::Running) }];
        let message = world.look().await.message.unwrap();
        assert!(!message.contains("preempted"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_is_not_told_before_the_accounting_was_asked_about_it() {
        let mut world = World::new();
        world.slurm.believe_in_accounting();
        world.slurm.watch = Watch::new(Duration::from_secs(15), Duration::ZERO);
        world.slurm.accounting_wait = Duration::from_secs(10);
        world.fake.knows().rows.clear();
        world.fake.knows().records = Some(Vec::new());
        let timeout = |job: JobId| Record {
            job,
            name: format!("tb-{job}"),
            state: Some(State::Timeout),
            ..Record::default()
        };
        let handles: Vec<JobHandle> =
            (1..=202).map(|job| JobHandle::new(format!("lab/{job}/tb-{job}"))).collect();
        for job in 1..=202 {
            let folder = world.slurm.folder(&format!("tb-{job}"));
            folder.make(None).unwrap();
            let plan = serde_json::to_vec(&Plan::default()).unwrap();
            std::fs::write(folder.file(PLAN), plan).unwrap();
            std::fs::create_dir(folder.file("ran/job.0")).unwrap();
            std::fs::write(folder.file("ends/job.0"), "told=TERM\ncode=143\n").unwrap();
        }
        let look = async |handles: &[JobHandle]| {
            let seen = world.slurm.look(&Subject::watched(handles)).await;
            seen.into_iter().map(Result::unwrap).collect::<Vec<_>>()
        };
        let says = |seen: &Observation, words: &str| {
            assert!(seen.message.as_ref().is_some_and(|message| message.contains(words)), "{seen:?}");
        };
        // The accounting is asked about one, and another has to wait; nothing is told of it however long that is.
        let (one, other) = (&handles[200..201], &handles[201..]);
        look(one).await;
        assert_eq!(look(other).await[0].state, JobState::Running);
        tokio::time::advance(Duration::from_secs(60)).await;
        look(one).await;
        assert_eq!(look(other).await[0].state, JobState::Running, "it was not asked about");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(look(other).await[0].state, JobState::Running, "it was asked for the first time");
        tokio::time::advance(Duration::from_secs(10)).await;
        let seen = look(other).await;
        assert!(matches!(seen[0].state, JobState::Failed(_)), "it knows nothing of it: {seen:?}");
        // Many at once are asked about at once.
        world.fake.knows().records = Some((1..=200).map(timeout).collect());
        for many in handles[..200].chunks(100) {
            for seen in look(many).await {
                says(&seen, "time limit");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn looks_at_many_jobs_within_a_moment_share_one_question_each() {
        let mut world = World::new();
        world.slurm.believe_in_accounting();
        world.slurm.watch = Watch::new(Duration::from_secs(15), Duration::ZERO);
        world.fake.knows().records = Some(Vec::new());
        let mut handles = Vec::new();
        // Half of them have left the queue.
        for job in 1..=20 {
            let key = format!("tb-{job}");
            let folder = world.slurm.folder(&key);
            folder.make(None).unwrap();
            std::fs::write(folder.file(PLAN), serde_json::to_vec(&Plan::default()).unwrap()).unwrap();
            if job % 2 == 0 {
                world.fake.knows().rows.push(row(job, &key, State::Running));
            }
            handles.push(JobHandle::new(format!("lab/{job}/{key}")));
        }
        let subjects = Subject::watched(&handles);
        let looks = futures_util::future::join_all((0..5).map(|_| world.slurm.look(&subjects))).await;
        assert!(looks.iter().flatten().all(Result::is_ok), "{looks:?}");
        let known = world.fake.knows();
        assert_eq!((known.queues, known.questions, known.asked_about.len()), (1, 1, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_lost_before_it_began_never_begins() {
        let world = World::new();
        world.fake.knows().rows.clear();
        assert_eq!(world.look().await.state, JobState::Running, "the accounting may be late");
        tokio::time::advance(Duration::from_secs(21)).await;
        let seen = world.look().await;
        assert_eq!(seen.state, JobState::Gone);
        assert!(seen.message.as_ref().is_some_and(|words| words.contains("may be called again")), "{seen:?}");
        // Were it started now, its wrapper would find the fence.
        assert!(world.folder.file("ran/job.0").is_dir());
        assert_eq!(world.look().await, seen);
    }

    #[tokio::test]
    async fn a_job_whose_folder_cannot_be_read_keeps_no_other_from_being_seen() {
        let world = World::new();
        for (job, key) in [(8, "tb-plan"), (9, "tb-end")] {
            let folder = world.slurm.folder(key);
            folder.make(None).unwrap();
            folder.write_json(PLAN, &Plan { root: folder.work(), ..Plan::default() }).unwrap();
            world.fake.knows().rows.push(row(job, key, State::Completed));
        }
        // One half written by another hand, and what a script put where how it ended would be written down.
        std::fs::write(world.slurm.folder("tb-plan").file(PLAN), "{").unwrap();
        std::fs::create_dir(world.slurm.folder("tb-end").file("ran/job.0")).unwrap();
        std::fs::create_dir(world.slurm.folder("tb-end").file(OBSERVED)).unwrap();
        let handles = ["lab/7/tb-a", "lab/8/tb-plan", "lab/9/tb-end"].map(JobHandle::new);
        let seen = world.slurm.look(&Subject::watched(&handles)).await;
        assert_eq!(seen[0].as_ref().unwrap().state, JobState::Running);
        for (seen, key) in seen[1..].iter().zip(["tb-plan", "tb-end"]) {
            let error = seen.as_ref().unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_script_puts_in_the_place_of_its_end_is_none() {
        let world = World::new();
        world.fake.knows().rows = vec![row(7, "tb-a", State::Completed)];
        std::fs::create_dir(world.folder.file("ran/job.0")).unwrap();
        std::fs::create_dir(world.folder.file("ends/job.0")).unwrap();
        assert_eq!(world.look().await.state, JobState::Running, "its end may be on its way");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert!(matches!(world.look().await.state, JobState::Succeeded(_)), "as Slurm says");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_a_late_submission_leaves_under_a_key_is_cancelled() {
        let world = World::new();
        world.folder.write_first(ID, b"7").unwrap();
        let beginning = world.slurm.folder("tb-begins");
        beginning.make(None).unwrap();
        let ended = world.slurm.folder("tb-ended");
        ended.make(None).unwrap();
        ended.write_first(ID, b"3").unwrap();
        let rows =
            [(9, "tb-a"), (10, "tb-begins"), (11, "tb-ended"), (12, "tb-elsewhere"), (13, "simulation")];
        world.fake.knows().rows.extend(rows.map(|(job, name)| held(job, name)));
        let cancelled = || {
            let mut cancelled = std::mem::take(&mut world.fake.knows().cancelled);
            cancelled.sort_unstable();
            cancelled
        };
        assert_eq!(world.look().await.state, JobState::Running);
        assert_eq!(cancelled(), [9, 11], "the recorded jobs are others");
        assert_eq!(world.look().await.state, JobState::Running);
        assert!(cancelled().is_empty(), "it was asked just now");
        tokio::time::advance(TRY_EVERY).await;
        world.look().await;
        assert_eq!(cancelled(), [9, 11], "it did not help");
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_its_user_holds_stays_held_over_a_later_restart_of_the_controller() {
        let world = World::new();
        let handles = ["lab/7/tb-a", "lab/8/tb-b"].map(JobHandle::new);
        let other = world.slurm.folder("tb-b");
        other.make(None).unwrap();
        other.write_json(PLAN, &Plan::default()).unwrap();
        other.write(RELEASED, b"", 0o600).unwrap();
        for folder in [&world.folder, &other] {
            folder.write(GO, b"", 0o600).unwrap();
        }
        world.fake.knows().rows = vec![held(7, "tb-a"), held(8, "tb-b")];
        world.look().await;
        let at = other.written(RELEASED).unwrap();
        let before = Timestamp::from_millis(at.as_millis() - 3_600_000);
        for (booted, released) in [
            (before, &[][..]),
            (at + AWAY_FOR * 2, &[]),
            // It forgot the releases as it crashed, and was away for a moment.
            (at + AWAY_FOR / 2, &[7, 8]),
        ] {
            tokio::time::advance(BOOTED_FOR).await;
            (world.fake.knows().booted, world.fake.knows().asked) = (Some(booted), 0);
            for seen in world.slurm.look(&Subject::watched(&handles)).await {
                assert_eq!(seen.unwrap().state, JobState::Queued);
            }
            assert_eq!(world.fake.knows().released, released);
            assert_eq!(world.fake.knows().asked, 1, "once for all that are held");
            if released.is_empty() {
                tokio::time::advance(TRY_EVERY).await;
                world.look().await;
                assert_eq!(world.fake.knows().asked, 1, "once in a minute");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_is_followed_stays_itself_as_it_is_put_back_into_the_queue() {
        let world = World::new();
        let at = |seconds: i64| Some(Timestamp::from_millis(seconds * 1000));
        let attached = Attached { job: 8, name: "relax".to_owned(), submitted: at(100) };
        let folder = world.slurm.folder("tb-follows");
        folder.make(None).unwrap();
        folder.write_json(PLAN, &Plan { attached: Some(attached), ..Plan::default() }).unwrap();
        let handle = [JobHandle::new("lab/8/tb-follows")];
        // The number was given to another job of that name, which was never put back.
        for (submitted, restarts, is_it) in [(100, 0, true), (160, 1, true), (160, 0, false), (40, 1, false)]
        {
            let submitted = at(submitted);
            world.fake.knows().rows = vec![Row { submitted, restarts, ..row(8, "relax", State::Running) }];
            let seen = world.slurm.look(&Subject::watched(&handle)).await.remove(0).unwrap();
            let message = seen.message.unwrap_or_default();
            assert_eq!(message.contains("job 8"), is_it, "{submitted:?} {restarts}: {message}");
        }
    }
}
