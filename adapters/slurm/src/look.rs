//! A look at many jobs: one squeue answers for all that wait or run; for those that have left it, one sacct and what their folders
//! hold. How a job ended is written down once, so that it is seen the same ever after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Result};
use tokio::time::Instant;

use crate::backend::{Slurm, disk};
use crate::driver::{JobId, Row};
use crate::fate::Facts;
use crate::folder::{ANSWER, CANCELLED, Folder, GO, OBSERVED, PLAN, RELEASED};
use crate::handle::Place;
use crate::live;
use crate::log;
use crate::plan::Plan;
use crate::result::{self, Conclusion};
use crate::start::unreadable;
use crate::state::Phase;
use crate::watch::{Need, Queue};

/// How long after something was done about a job it counts as young.
const YOUNG: Duration = Duration::from_secs(60);

/// Up to this many jobs, a look tells how much each has printed.
const FOLLOWED: usize = 200;

/// How often a look tries to release a job whose release failed.
const RELEASE_EVERY: Duration = Duration::from_secs(10);

/// A job that is looked at.
struct Subject {
    place: Place,
    folder: Folder,
    plan: Option<Arc<Plan>>,
    rows: Vec<Row>,
    marks: Option<Marks>,
    printed: Option<u64>,
}

/// What a folder holds beside the plan.
#[derive(Default)]
struct Marks {
    observed: Option<Observation>,
    may_go: bool,
    released: bool,
    answered: bool,
    facts: Facts,
}

impl Slurm {
    pub(crate) async fn look(&self, handles: &[JobHandle]) -> Vec<Result<Observation>> {
        let places: Vec<Option<Place>> = handles.iter().map(Place::parse).collect();
        let known: Vec<Place> = places.iter().flatten().cloned().collect();
        let mut answers: HashMap<String, Result<Observation>> = HashMap::new();
        match self.look_at(known).await {
            Ok(seen) => answers.extend(seen),
            Err(error) => {
                let again = |place: &Place| {
                    (place.handle().to_string(), Err(Error::new(error.kind(), error.to_string())))
                };
                answers.extend(places.iter().flatten().map(again));
            }
        }
        let mut answer = |(handle, place): (&JobHandle, &Option<Place>)| match place {
            None => Ok(Observation::new(JobState::Gone).with_message("it is no job of this backend")),
            Some(_) => match answers.get(handle.as_str()) {
                // The same handle may be asked for twice.
                Some(Ok(seen)) => Ok(seen.clone()),
                _ => answers
                    .remove(handle.as_str())
                    .unwrap_or_else(|| Err(Error::unavailable("it was not looked at"))),
            },
        };
        handles.iter().zip(&places).map(&mut answer).collect()
    }

    async fn look_at(&self, places: Vec<Place>) -> Result<Vec<(String, Result<Observation>)>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        // Whether there is an accounting is learned here if the cluster was away at the start.
        self.cluster().await?;
        let mut subjects = self.subjects(places).await?;
        let young = subjects.iter().any(|subject| self.is_young(&subject.place.key));
        let (mut queue, mut began) =
            self.watch.queue(&*self.driver, if young { Need::Young } else { Need::Usual }).await?;
        let has = |queue: &Queue, subject: &Subject| {
            queue.of(subject.place.job).iter().any(|row| subject.is_of(row))
        };
        if subjects
            .iter()
            .any(|subject| !has(&queue, subject) && self.is_seen_since(&subject.place.key, began))
        {
            (queue, began) = self.watch.queue(&*self.driver, Need::Missing(began)).await?;
        }
        for subject in &mut subjects {
            subject.rows =
                queue.of(subject.place.job).iter().filter(|row| subject.is_of(row)).cloned().collect();
        }
        // Many files on a shared file system are looked at only for jobs that somebody may be following.
        let few = subjects.len() <= FOLLOWED;
        let subjects = disk(move || {
            for subject in &mut subjects {
                if few && subject.is_running() {
                    subject.printed = log::printed(&subject.folder);
                }
                if subject.needs_marks() {
                    subject.marks = Some(marks(subject)?);
                }
            }
            Ok::<_, Error>(subjects)
        })
        .await??;
        self.answer(subjects, began).await
    }

    /// The jobs with their plans, which are read once.
    async fn subjects(&self, places: Vec<Place>) -> Result<Vec<Subject>> {
        let mut subjects: Vec<Subject> = places
            .into_iter()
            .map(|place| {
                let (folder, plan) = (self.folder(&place.key), self.plan(&place.key));
                Subject { place, folder, plan, rows: Vec::new(), marks: None, printed: None }
            })
            .collect();
        let unread: Vec<(usize, Folder)> = subjects
            .iter()
            .enumerate()
            .filter(|(_, subject)| subject.plan.is_none())
            .map(|(at, subject)| (at, subject.folder.clone()))
            .collect();
        if unread.is_empty() {
            return Ok(subjects);
        }
        let read = disk(move || {
            let read = |(at, folder): (usize, Folder)| match folder.read_json::<Plan>(PLAN) {
                Ok(plan) => Ok((at, plan)),
                Err(e) => Err(unreadable(&folder, e)),
            };
            unread.into_iter().map(read).collect::<Result<Vec<_>>>()
        })
        .await??;
        for (at, plan) in read {
            subjects[at].plan = plan.map(|plan| self.keep_plan(&subjects[at].place.key, plan));
        }
        Ok(subjects)
    }

    fn is_young(&self, key: &str) -> bool {
        self.known.touched(key).is_some_and(|at| at.elapsed() < YOUNG)
    }

    /// True if a look that began then must have seen what this process did last about the job.
    fn is_seen_since(&self, key: &str, began: Instant) -> bool {
        self.known.touched(key).is_none_or(|touched| touched < began)
    }

    async fn answer(
        &self,
        subjects: Vec<Subject>,
        began: Instant,
    ) -> Result<Vec<(String, Result<Observation>)>> {
        let over: Vec<JobId> =
            subjects.iter().filter(|subject| subject.is_over()).map(|subject| subject.place.job).collect();
        let accounted = match self.has_accounting() {
            true => self.watch.accounted(&*self.driver, &over).await,
            false => HashMap::new(),
        };
        let waiting = subjects.iter().any(|subject| subject.rows.iter().any(live::has_position));
        let positions = if waiting { self.watch.positions(&*self.driver).await } else { None };
        let mut answers = Vec::with_capacity(subjects.len());
        for mut subject in subjects {
            let name = subject.place.handle().to_string();
            let records = accounted.get(&subject.place.job).map(Vec::as_slice).unwrap_or_default();
            let records: Vec<_> =
                records.iter().filter(|record| record.name == subject.name()).cloned().collect();
            if let Some(marks) = &mut subject.marks {
                marks.facts.records = records;
            }
            let position = positions.as_ref().and_then(|places| places.get(&subject.place.job).copied());
            let seen = match subject.is_alive() {
                true => Ok(self.alive(&subject, position).await),
                false => self.over(subject, began).await,
            };
            answers.push((name, seen));
        }
        Ok(answers)
    }

    /// One that waits or runs. One that waits for its release, which failed before, is released.
    async fn alive(&self, subject: &Subject, position: Option<usize>) -> Observation {
        let key = &subject.place.key;
        self.known.goes_on(key);
        let plan = subject.plan.clone().unwrap_or_default();
        let is_held = subject.rows.iter().any(Row::is_held_by_user);
        let Some(marks) = subject.marks.as_ref().filter(|_| is_held) else {
            let mut seen = live::told(&plan, &subject.rows, position);
            seen.log_bytes = subject.printed;
            return seen;
        };
        if marks.may_go
            && !marks.released
            && !marks.facts.cancelled
            && self.known.may_release(key, RELEASE_EVERY)
        {
            self.release(key, subject.place.job).await;
        }
        match &plan.approval {
            Some(words) if !marks.answered && !marks.facts.cancelled => live::asking(words),
            _ => live::told(&plan, &subject.rows, position),
        }
    }

    /// One of which nothing waits or runs any more.
    async fn over(&self, subject: Subject, began: Instant) -> Result<Observation> {
        let key = subject.place.key.clone();
        let Some(mut marks) = subject.marks else {
            return Err(Error::unavailable("its folder was not read"));
        };
        if let Some(observed) = marks.observed {
            return Ok(observed);
        }
        let Some(plan) = subject.plan else {
            return Ok(Observation::new(JobState::Gone)
                .with_message("Slurm does not know the job, and it left no folder"));
        };
        // A look from before the job was submitted says nothing of it.
        if subject.rows.is_empty() && !self.is_seen_since(&key, began) {
            return Ok(Observation::new(JobState::Queued).with_message("submitted"));
        }
        marks.facts.over_for = self.known.over_for(&key);
        marks.facts.rows = subject.rows;
        let patience = if self.has_accounting() { self.accounting_wait } else { Duration::ZERO };
        let (folder, facts, job) = (subject.folder, marks.facts, subject.place.job);
        let concluded = disk(move || {
            let concluded = result::conclude(&plan, &facts, &folder, job, patience);
            match concluded {
                Conclusion::NotYet(observation) => Ok((observation, false)),
                Conclusion::Ended(observation) => keep(&folder, &observation).map(|kept| (kept, true)),
            }
        })
        .await?;
        let (observation, ended) = concluded?;
        if ended {
            self.known.forget(&key);
        }
        Ok(observation)
    }
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

fn marks(subject: &Subject) -> Result<Marks> {
    let (folder, over) = (&subject.folder, !subject.is_alive());
    let read = || -> std::io::Result<Marks> {
        let observed = if over { folder.read_json(OBSERVED)? } else { None };
        let facts = if over && observed.is_none() {
            Facts { ran: folder.ran()?, ends: folder.ends()?, ..Facts::default() }
        } else {
            Facts::default()
        };
        Ok(Marks {
            observed,
            may_go: folder.has(GO),
            released: folder.has(RELEASED),
            answered: folder.has(ANSWER),
            facts: Facts { cancelled: folder.has(CANCELLED), ..facts },
        })
    };
    read().map_err(|e| unreadable(folder, e))
}

impl Subject {
    /// The name that the job must carry.
    fn name(&self) -> &str {
        match self.plan.as_ref().and_then(|plan| plan.attached.as_ref()) {
            Some(attached) => &attached.name,
            None => &self.place.key,
        }
    }

    /// Whether a row of this number is this job's: numbers are given again.
    fn is_of(&self, row: &Row) -> bool {
        let attached = self.plan.as_ref().and_then(|plan| plan.attached.as_ref());
        row.name == self.name() && attached.is_none_or(|attached| attached.submitted == row.submitted)
    }

    fn is_alive(&self) -> bool {
        self.rows.iter().any(|row| !row.state.has_ended())
    }

    fn is_running(&self) -> bool {
        self.rows.iter().any(|row| row.state.phase() == Phase::Running)
    }

    fn needs_marks(&self) -> bool {
        !self.is_alive() || self.rows.iter().any(Row::is_held_by_user)
    }

    /// True if the accounting is to be asked about it.
    fn is_over(&self) -> bool {
        !self.is_alive()
            && self.plan.is_some()
            && self.marks.as_ref().is_some_and(|marks| marks.observed.is_none())
    }
}
