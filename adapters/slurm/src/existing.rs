//! What submits nothing: following a job of somebody else's, and sending a signal to one of ours.

use taskbridge_sdk::{Error, JobSpec, JobState, Observation, Output, Result, Started};

use crate::after::{Named, named};
use crate::backend::{Slurm, disk};
use crate::config::SignalTo;
use crate::driver::{Cluster, Signal};
use crate::folder::{OBSERVED, PLAN};
use crate::handle;
use crate::plan::{Attached, Plan};
use crate::start::{unreadable, unwritable};

/// Says in a folder that a signal is on its way.
const SENDING: &str = "sending";

impl Slurm {
    /// Follows a job that is there already.
    pub(crate) async fn attach(&self, job: &JobSpec, template: &str, cluster: &Cluster) -> Result<Started> {
        let wanted = given(job, "attach", template)?;
        let id = wanted.job;
        let rows = self.driver.queue().await?;
        let Some(row) =
            rows.iter().find(|row| row.job == id && wanted.key.as_ref().is_none_or(|key| row.name == *key))
        else {
            return Err(Error::rejected(format!("`{}` has no job {id} that we may follow", cluster.name)));
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
        let (folder, written) = (self.folder(job.key.as_str()), plan.clone());
        disk(move || {
            let made = folder.make(None).and_then(|()| folder.write_json(PLAN, &written));
            made.map_err(|e| unwritable(&folder, e))
        })
        .await??;
        let key = job.key.as_str();
        self.keep_plan(key, plan);
        let folder = self.folder(key);
        disk(move || {
            folder
                .write_first(crate::folder::ID, id.to_string().as_bytes())
                .map_err(|e| unwritable(&folder, e))
        })
        .await??;
        Ok(self.started(&cluster.name, key, id))
    }

    /// Sends a signal to a job of ours; that is all that this job does.
    pub(crate) async fn send(&self, job: &JobSpec, signal: &SignalTo, cluster: &Cluster) -> Result<Started> {
        let key = job.key.as_str();
        // Nothing of it stays to be looked at.
        let handle = self.place(&cluster.name, 0, key).handle();
        let folder = self.folder(key);
        let before = disk(move || {
            let sent = folder.read_json::<Observation>(OBSERVED).map_err(|e| unreadable(&folder, e))?;
            Ok::<_, Error>((sent, folder.has(SENDING)))
        })
        .await??;
        match before {
            (Some(first), _) => return Ok(Started { handle, first: Some(first) }),
            (None, true) => return Err(Error::uncertain("whether the signal was sent is not known")),
            (None, false) => {}
        }
        let wanted = given(job, "signal.job", &signal.job)?;
        let id = wanted.job;
        let rows = self.driver.job(id).await?;
        let name = rows
            .iter()
            .find(|row| !row.state.has_ended() && wanted.key.as_ref().is_none_or(|key| row.name == *key))
            .map(|row| row.name.clone())
            .filter(|name| handle::is_key(name));
        let is_ours = match &name {
            Some(name) => self.is_ours(name).await?,
            None => false,
        };
        if !is_ours {
            return Err(Error::rejected(format!(
                "{id} is no waiting or running job that was submitted here"
            )));
        }
        let folder = self.folder(key);
        disk(move || {
            let marked = folder.make(None).and_then(|()| folder.write(SENDING, b"", 0o600));
            marked.map_err(|e| unwritable(&folder, e))
        })
        .await??;
        self.driver.signal(id, &Signal { name: signal.name.clone(), batch: !signal.steps }).await?;
        let first = Observation::new(JobState::Succeeded(Output::text(format!(
            "SIG{} was sent to job {id}.",
            signal.name
        ))));
        let (folder, written, user) = (self.folder(key), first.clone(), self.setup.user.clone());
        drop(
            disk(move || {
                folder
                    .write_json(PLAN, &Plan { user, ..Plan::default() })
                    .and_then(|()| folder.write_json(OBSERVED, &written))
            })
            .await,
        );
        Ok(Started { handle, first: Some(first) })
    }
}

/// The job that a template names.
fn given(job: &JobSpec, field: &str, template: &str) -> Result<Named> {
    let named = named(job, field, template)?;
    named.ok_or_else(|| Error::rejected(format!("`{field}` names no job: its parameter was not given")))
}
