//! How a job begins: submitted and held, recorded in its folder, and only then released. A job that is not recorded was never
//! released, so that a start can be repeated: whatever it left behind is held for ever, and is cancelled when it is found.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use taskbridge_sdk::{Error, ErrorKind, JobSpec, Result, Started};

use crate::backend::{Slurm, disk};
use crate::driver::{JobId, Row};
use crate::folder::{CANCELLED, Folder, GO, ID, PLAN, RELEASED};
use crate::order::{self, Order};
use crate::plan::Plan;

impl Slurm {
    pub(crate) async fn begin(&self, job: &JobSpec) -> Result<Started> {
        let target = order::target(job)?;
        let key = job.key.as_str();
        let cluster = self.cluster().await?;
        if let Some(id) = self.recorded(key).await? {
            self.let_go_if_held(key, id).await?;
            return Ok(self.started(&cluster.name, key, id));
        }
        if let Some(template) = &target.attach {
            return self.attach(job, template, cluster).await;
        }
        if let Some(signal) = &target.signal {
            return self.send(job, signal, cluster).await;
        }
        if job.may_exist
            && let Some(id) = self.adopt(key).await?
        {
            self.let_go_if_held(key, id).await?;
            return Ok(self.started(&cluster.name, key, id));
        }
        let dependency = match &target.after {
            Some(after) => self.dependency(job, after).await?,
            None => None,
        };
        let folder = self.folder(key);
        let (spec, mut setup, at) = (job.clone(), self.setup.clone(), folder.clone());
        setup.max_array = cluster.max_array;
        let (plan, submission) = disk(move || {
            let order = Order::new(&spec, &target, &setup, &at, dependency)?;
            write(&at, &order).map_err(|e| unwritable(&at, e))?;
            Ok::<_, Error>((order.plan, order.submission))
        })
        .await??;
        let id = match self.driver.submit(&submission).await {
            Ok(id) => id,
            // A repeated start that fails leaves what is known as it was.
            Err(error) if error.kind() == ErrorKind::Uncertain && job.may_exist => {
                return Err(Error::unavailable(error.to_string()));
            }
            Err(error) => return Err(error),
        };
        let waits = plan.approval.is_some();
        self.keep_plan(key, plan);
        let recorded = self.record(key, id).await?;
        if !waits {
            self.let_go(key, recorded).await?;
        }
        Ok(self.started(&cluster.name, key, recorded))
    }

    /// Looks for a job of this key, recorded or not. It releases nothing.
    pub(crate) async fn look_for(&self, job: &JobSpec) -> Result<Option<Started>> {
        let key = job.key.as_str();
        let cluster = self.cluster().await?;
        let id = match self.recorded(key).await? {
            Some(id) => Some(id),
            None => self.adopt(key).await?,
        };
        Ok(id.map(|id| self.started(&cluster.name, key, id)))
    }

    pub(crate) fn started(&self, cluster: &str, key: &str, job: JobId) -> Started {
        Started { handle: self.place(cluster, job, key).handle(), first: None }
    }

    /// The job that stands in the folder.
    async fn recorded(&self, key: &str) -> Result<Option<JobId>> {
        let folder = self.folder(key);
        disk(move || match folder.read(ID) {
            Ok(content) => Ok(content.and_then(|bytes| read_id(&bytes))),
            Err(e) => Err(unreadable(&folder, e)),
        })
        .await?
    }

    /// Writes down which job it is, unless another start was first: then this one's job is cancelled, which was never released.
    pub(crate) async fn record(&self, key: &str, id: JobId) -> Result<JobId> {
        let folder = self.folder(key);
        let written = disk(move || {
            let stands =
                folder.write_first(ID, id.to_string().as_bytes()).map_err(|e| unwritable(&folder, e))?;
            read_id(&stands)
                .ok_or_else(|| Error::config(format!("{} holds no job id", folder.file(ID).display())))
        })
        .await?;
        let stands = *written.as_ref().unwrap_or(&0);
        if stands != id {
            // If this fails, it stays held, and never runs.
            drop(self.driver.cancel(id, key).await);
        }
        self.known.touch(key);
        written
    }

    /// Finds a job of this name that was submitted and not recorded, records it, and cancels its duplicates.
    async fn adopt(&self, key: &str) -> Result<Option<JobId>> {
        let mut rows: Vec<Row> = self.driver.named(key).await?;
        rows.retain(|row| row.name == key && !row.state.has_ended());
        // One that somebody has released by hand comes first, then the oldest.
        rows.sort_by_key(|row| (row.is_held_by_user(), row.job));
        let Some(first) = rows.first() else { return Ok(None) };
        let (folder, id) = (self.folder(key), first.job);
        let user = self.setup.user.clone();
        disk(move || folder.make(user.as_ref()).map_err(|e| unwritable(&folder, e))).await??;
        let recorded = self.record(key, id).await?;
        for other in rows.iter().filter(|row| row.job != recorded && row.job != id && row.is_held_by_user()) {
            drop(self.driver.cancel(other.job, key).await);
        }
        Ok(Some(recorded))
    }

    /// Permits the release, and releases. If that fails, a later look does it.
    pub(crate) async fn let_go(&self, key: &str, id: JobId) -> Result<()> {
        let folder = self.folder(key);
        let going = disk(move || folder.write(GO, b"", 0o600).map_err(|e| unwritable(&folder, e))).await?;
        going?;
        self.release(key, id).await;
        Ok(())
    }

    /// Releases a job that may be; whoever looks at it later sees whether that worked.
    pub(crate) async fn release(&self, key: &str, id: JobId) {
        if self.driver.release(id).await.is_ok() {
            let folder = self.folder(key);
            drop(disk(move || folder.write(RELEASED, b"", 0o600)).await);
        }
        self.known.touch(key);
    }

    /// Lets a recorded job go on that an earlier start left held.
    async fn let_go_if_held(&self, key: &str, id: JobId) -> Result<()> {
        let folder = self.folder(key);
        let (plan, is_settled) = disk(move || {
            let settled = folder.has(RELEASED) || folder.has(CANCELLED);
            (folder.read_json::<Plan>(PLAN).ok().flatten(), settled)
        })
        .await?;
        let waits = plan.as_ref().is_some_and(|plan| plan.approval.is_some() || plan.attached.is_some());
        if is_settled || waits {
            return Ok(());
        }
        let rows = self.driver.job(id).await?;
        match rows.iter().any(|row| row.name == key && row.is_held_by_user()) {
            true => self.let_go(key, id).await,
            false => Ok(()),
        }
    }
}

/// Reads what `ID` holds.
pub(crate) fn read_id(bytes: &[u8]) -> Option<JobId> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn write(folder: &Folder, order: &Order) -> std::io::Result<()> {
    let user = order.plan.user.as_ref();
    folder.make(user)?;
    // The job reads them by its group, if it is another user's.
    let readable = |mode: u32| if user.is_some() { mode | (mode & 0o500) >> 3 } else { mode };
    for (name, content, mode) in &order.files {
        folder.write(name, content, readable(*mode))?;
    }
    for (from, name) in &order.copies {
        copy(from, folder, name, readable(0o600))?;
    }
    folder.write_json(PLAN, &order.plan)
}

fn copy(from: &Path, folder: &Folder, name: &str, mode: u32) -> std::io::Result<()> {
    let mut source = crate::folder::open_regular(from)?;
    let mut target = std::fs::File::create(folder.file(name))?;
    target.set_permissions(Permissions::from_mode(mode))?;
    std::io::copy(&mut source, &mut target).map(drop)
}

pub(crate) fn unwritable(folder: &Folder, error: std::io::Error) -> Error {
    Error::unavailable(format!("the job's folder {} cannot be written: {error}", folder.path().display()))
        .caused_by(error)
}

pub(crate) fn unreadable(folder: &Folder, error: std::io::Error) -> Error {
    Error::unavailable(format!("the job's folder {} cannot be read: {error}", folder.path().display()))
        .caused_by(error)
}
