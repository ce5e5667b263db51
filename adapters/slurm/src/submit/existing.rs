//! Targets that submit nothing: they follow a job that was submitted elsewhere, or send a signal to one of
//! ours.

use taskbridge_sdk::{Error, ErrorKind, JobSpec, JobState, Observation, Output, Result, Started};

use crate::config::SignalTo;
use crate::core::Slurm;
use crate::driver::state::Phase;
use crate::driver::{Cluster, Row, Signal};
use crate::identity::handle::{self, JobId};
use crate::store::folder::{FINAL_OBSERVATION, PLAN, read_error, write_error};
use crate::store::plan::{Attached, Plan};
use crate::submit::dependency::{JobReference, parse_reference};

/// The file that is written before a signal is sent. While the job has no stored end, it means that the
/// signal may have been sent.
const SENDING: &str = "sending";

impl Slurm {
    /// Follows an existing job.
    pub(crate) async fn attach(&self, job: &JobSpec, template: &str, cluster: &Cluster) -> Result<Started> {
        let reference = required_reference(job, "attach", template)?;
        let id = reference.job;
        let rows = self.driver.queue().await?;
        // A job of another caller's task is private, and a job number does not prove ownership.
        let may_follow = |row: &Row| match &reference.key {
            Some(key) => row.name == *key,
            None => !handle::is_key(&row.name),
        };
        let Some(row) = rows.iter().find(|row| row.job == id && may_follow(row)) else {
            return Err(Error::rejected(format!(
                "`{}` has no job {id} that may be followed; a job of a task is referenced by the task, not by its number",
                cluster.name
            )));
        };
        let tasks: Vec<u32> = rows
            .iter()
            .filter(|row| row.job == id)
            .flat_map(|row| match &row.tasks {
                crate::driver::Tasks::Single => Vec::new(),
                crate::driver::Tasks::One(task) => vec![*task],
                crate::driver::Tasks::Many(tasks) => tasks.clone(),
            })
            .collect();
        let array =
            (!tasks.is_empty()).then(|| tasks.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        let attached = Attached { job: id, name: row.name.clone(), submitted: row.submitted };
        let user = self.setup.user.clone();
        let plan = Plan { array, user, attached: Some(attached), ..Plan::default() };
        let (folder, stored_plan) = (self.folder(job.key.as_str()), plan.clone());
        self.disks
            .jobs
            .run(move || {
                let result = folder.create(None).and_then(|()| folder.write_json(PLAN, &stored_plan));
                result.map_err(|e| write_error(&folder, e))
            })
            .await??;
        let key = job.key.as_str();
        self.cache_plan(key, plan);
        let folder = self.folder(key);
        self.disks
            .jobs
            .run(move || {
                folder
                    .write_first(crate::store::folder::ID, id.to_string().as_bytes())
                    .map_err(|e| write_error(&folder, e))
            })
            .await??;
        Ok(self.started_job(&cluster.name, key, id))
    }

    /// Sends a signal to a job of ours. This job does nothing else.
    pub(crate) async fn send(&self, job: &JobSpec, signal: &SignalTo, cluster: &Cluster) -> Result<Started> {
        let key = job.key.as_str();
        // There is no Slurm job to poll, so the handle has the number 0.
        let handle = self.slurm_handle(&cluster.name, 0, key).to_job_handle();
        let folder = self.folder(key);
        let previous = self
            .disks
            .jobs
            .run(move || {
                let stored_observation =
                    folder.read_json::<Observation>(FINAL_OBSERVATION).map_err(|e| read_error(&folder, e))?;
                let is_sending = folder.has(SENDING).map_err(|e| read_error(&folder, e))?;
                Ok::<_, Error>((stored_observation, is_sending))
            })
            .await??;
        match previous {
            (Some(first), _) => return Ok(Started { handle, first: Some(first) }),
            (None, true) => {
                return Err(Error::uncertain(
                    "the signal may have been sent; the outcome of an earlier attempt is unknown",
                ));
            }
            (None, false) => {}
        }
        let reference = required_reference(job, "signal.job", &signal.job)?;
        let id = reference.job;
        let rows = self.driver.job(id).await?;
        let active_rows: Vec<&Row> = rows
            .iter()
            .filter(|row| !row.state.has_ended() && reference.key.as_ref().is_none_or(|key| row.name == *key))
            .collect();
        let is_ours = match active_rows.first().map(|row| &row.name).filter(|name| handle::is_key(name)) {
            Some(name) => self.is_ours(name).await?,
            None => false,
        };
        if !is_ours {
            return Err(Error::rejected(format!("{id} is not a running job of this backend")));
        }
        check_all_running(id, &active_rows)?;
        let folder = self.folder(key);
        self.disks
            .jobs
            .run(move || {
                let result = folder.create(None).and_then(|()| folder.write(SENDING, b"", 0o600));
                result.map_err(|e| write_error(&folder, e))
            })
            .await??;
        let driver_signal = Signal { name: signal.name.clone(), batch: !signal.steps };
        if let Err(error) = self.driver.signal(id, &driver_signal).await {
            // If the signal was definitely not sent, a repeated start can send it.
            if error.kind() != ErrorKind::Uncertain {
                let folder = self.folder(key);
                drop(self.disks.jobs.run(move || std::fs::remove_file(folder.file(SENDING))).await);
            }
            return Err(error);
        }
        let first = Observation::new(JobState::Succeeded(Output::text(format!(
            "SIG{} was sent to job {id}.",
            signal.name
        ))));
        let (folder, observation, user) = (self.folder(key), first.clone(), self.setup.user.clone());
        drop(
            self.disks
                .jobs
                .run(move || {
                    folder
                        .write_json(PLAN, &Plan { user, ..Plan::default() })
                        .and_then(|()| folder.write_json(FINAL_OBSERVATION, &observation))
                })
                .await,
        );
        Ok(Started { handle, first: Some(first) })
    }
}

/// Fails unless all unfinished parts of the job are running. Slurm does not accept a signal for pending
/// tasks. scancel then retries for minutes and signals the running tasks of the array each time. slurmrestd
/// reports a failure after it has signalled them.
fn check_all_running(id: JobId, active_rows: &[&Row]) -> Result<()> {
    let is_waiting = |row: &&&Row| row.state.phase() == Phase::Waiting;
    match active_rows.iter().filter(is_waiting).count() {
        0 => Ok(()),
        all if all == active_rows.len() => {
            Err(Error::rejected(format!("job {id} has not begun, so it cannot receive a signal")))
        }
        _ => Err(Error::rejected(format!(
            "some tasks of job {id} have not begun; until they have, Slurm may send the signal to the others more than once"
        ))),
    }
}

/// Returns the job that a template refers to. Rejected if its parameter was not given.
fn required_reference(job: &JobSpec, field: &str, template: &str) -> Result<JobReference> {
    let reference = parse_reference(job, field, template)?;
    reference.ok_or_else(|| Error::rejected(format!("`{field}` names no job: its parameter was not given")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::suite;

    use super::*;
    use crate::driver::Tasks;
    use crate::driver::state::State;
    use crate::driver::tests::fake::{Fake, held_row, row};

    struct World {
        slurm: Slurm,
        fake: Fake,
        _dir: tempfile::TempDir,
    }

    impl World {
        /// Creates a world in which job 7 has these queue rows.
        fn new(rows: Vec<Row>) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let fake = Fake::default();
            fake.state().rows = rows;
            let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
            let folder = slurm.folder("tb-a");
            folder.create(None).unwrap();
            folder.write_json(PLAN, &Plan::default()).unwrap();
            Self { slurm, fake, _dir: dir }
        }

        async fn send(&self, job: &JobSpec) -> Result<Started> {
            self.slurm.begin(job).await
        }
    }

    fn signal() -> JobSpec {
        suite::job(json!({"signal": {"job": "{{ job }}", "name": "USR1"}}), json!({"job": 7}))
    }

    /// Returns a queue row of some tasks of an array.
    fn tasks(state: State, tasks: Tasks) -> Row {
        Row { tasks, ..row(7, "tb-a", state) }
    }

    /// Neither does an array with pending and running tasks.
    #[tokio::test]
    async fn pending_job_gets_no_signal() {
        let waiting = || tasks(State::Pending, Tasks::Many(vec![2, 3]));
        let (one, other) = (Tasks::One(0), Tasks::One(1));
        for (rows, refusal) in [
            (vec![held_row(7, "tb-a")], Some("has not begun")),
            (vec![waiting()], Some("has not begun")),
            (vec![tasks(State::Completed, one.clone()), waiting()], Some("has not begun")),
            (vec![waiting(), tasks(State::Running, one.clone())], Some("more than once")),
            (
                vec![tasks(State::Running, one.clone()), tasks(State::Requeued, other.clone())],
                Some("more than once"),
            ),
            (vec![row(7, "tb-a", State::Completed)], Some("not a running job")),
            (vec![row(7, "tb-a", State::Running)], None),
            (vec![tasks(State::Running, one), tasks(State::Completed, other)], None),
        ] {
            let world = World::new(rows.clone());
            match (world.send(&signal()).await, refusal) {
                (Ok(_), None) => assert_eq!(world.fake.state().signals, [7]),
                (Err(error), Some(words)) => {
                    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                    assert!(error.to_string().contains(words), "{error}");
                    assert!(world.fake.state().signals.is_empty(), "{rows:?}");
                }
                (result, _) => panic!("{rows:?}: {result:?}"),
            }
        }
    }

    /// A job of a task is followed by its full handle only.
    #[tokio::test]
    async fn attach_by_number_rejects_task_job() {
        let attach = |job: &str| suite::job(json!({"attach": "{{ job }}"}), json!({"job": job}));
        let world = World::new(vec![row(7, "tb-a", State::Running), row(8, "by-hand", State::Running)]);
        let error = world.slurm.begin(&attach("7")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.to_string().contains("referenced by the task"), "{error}");
        for reference in ["8", "lab/7/tb-a"] {
            world.slurm.begin(&attach(reference)).await.unwrap();
        }
        assert!(world.slurm.begin(&attach("lab/7/tb-b")).await.is_err(), "the job has another name");
    }

    /// A signal that may have been sent is not sent again.
    #[tokio::test]
    async fn unsent_signal_is_sent_by_retry() {
        for (refusal, again) in [
            (ErrorKind::Unavailable, true),
            (ErrorKind::Limited { after: None }, true),
            (ErrorKind::Config, true),
            (ErrorKind::Uncertain, false),
        ] {
            let world = World::new(vec![row(7, "tb-a", State::Running)]);
            let job = signal();
            world.fake.state().refusal = Some(refusal);
            assert_eq!(world.send(&job).await.unwrap_err().kind(), refusal);
            world.fake.state().refusal = None;
            assert_eq!(world.send(&job).await.is_ok(), again, "{refusal:?}");
            assert_eq!(world.fake.state().signals.len(), usize::from(again));
            // A signal that was sent is not sent again.
            assert_eq!(world.send(&job).await.is_ok(), again, "{refusal:?}");
            assert_eq!(world.fake.state().signals.len(), usize::from(again));
        }
    }
}
