//! Starts a job: submits it held, records its number in its folder, and only then releases it. We never
//! release an unrecorded job, so a start can be repeated. A job that an earlier attempt left unrecorded stays
//! held. A repeated start or a search adopts one such job, which means that it records it, and cancels the
//! others.

use taskbridge_sdk::{Error, ErrorKind, JobSpec, Result, Started};

use crate::config::Target;
use crate::core::Slurm;
use crate::driver::Row;
use crate::identity::handle::JobId;
use crate::store::folder::{CANCELLED, Folder, ID, MAY_RELEASE, PLAN, RELEASED, read_error, write_error};
use crate::store::jobs_folder::check_mounted;
use crate::store::plan::{Plan, read_id};
use crate::submit::request::SubmitRequest;

impl Slurm {
    pub(crate) async fn begin(&self, job: &JobSpec) -> Result<Started> {
        let target: Target = job.parse_target()?;
        let key = job.key.as_str();
        self.ensure_jobs_folder().await?;
        let cluster = self.cluster().await?;
        if let Some(id) = self.recorded_id(key).await? {
            self.release_if_held(key, id).await?;
            return Ok(self.started_job(&cluster.name, key, id));
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
            self.release_if_held(key, id).await?;
            return Ok(self.started_job(&cluster.name, key, id));
        }
        let folder = self.folder(key);
        let (spec, mut setup, job_folder) = (job.clone(), self.setup.clone(), folder.clone());
        setup.max_array = cluster.max_array;
        let after = target.after.clone();
        let build = move || SubmitRequest::new(&spec, &target, &setup, &job_folder);
        let mut request = self.disks.sources.run(build).await??;
        // Concurrently, so that a start takes no longer than three commands.
        let ((), dependency) = tokio::try_join!(
            async { if job.may_exist { Ok(()) } else { self.reject_infeasible(&request.submission).await } },
            async {
                match &after {
                    Some(after) => self.dependency(job, after).await,
                    None => Ok(None),
                }
            }
        )?;
        request.add_dependency(dependency);
        self.stage(&folder, &request).await?;
        let job_folder = folder;
        let (plan, submission) = self
            .disks
            .sources
            .run(move || {
                write_files(&job_folder, &request).map_err(|e| write_error(&job_folder, e))?;
                Ok::<_, Error>((request.plan, request.submission))
            })
            .await??;
        let id = match self.driver.submit(&submission).await {
            Ok(id) => id,
            // A failed repeated start does not change what is known.
            Err(error) if error.kind() == ErrorKind::Uncertain && job.may_exist => {
                return Err(Error::unavailable(error.to_string()));
            }
            Err(error) => {
                // The files of the call are not kept for a job that was refused and never existed.
                if !job.may_exist && is_refusal(error.kind()) {
                    let folder = self.folder(key);
                    // Another start of this key may have recorded a job meanwhile, while this one was paused.
                    let remove = move || match folder.read(ID) {
                        Ok(None) => std::fs::remove_dir_all(folder.path()),
                        _ => Ok(()),
                    };
                    drop(self.disks.jobs.run(remove).await);
                }
                return Err(error);
            }
        };
        let needs_approval = plan.approval.is_some();
        self.cache_plan(key, plan);
        let recorded_id = match self.record(key, id).await {
            Ok(recorded_id) => recorded_id,
            // The job exists and is held. It must be found before another one is submitted.
            Err(error) if !job.may_exist => {
                return Err(Error::uncertain(format!("job {id} was submitted and stays held: {error}")));
            }
            Err(error) => return Err(error),
        };
        if !needs_approval {
            self.release_job(key, recorded_id).await?;
        }
        Ok(self.started_job(&cluster.name, key, recorded_id))
    }

    /// Finds a job of this key. Adopts an unrecorded one: see `adopt`. Releases nothing.
    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let key = job.key.as_str();
        let cluster = self.cluster().await?;
        let id = match self.recorded_id(key).await? {
            Some(id) => Some(id),
            None => self.adopt(key).await?,
        };
        Ok(id.map(|id| self.started_job(&cluster.name, key, id)))
    }

    pub(crate) fn started_job(&self, cluster: &str, key: &str, job: JobId) -> Started {
        Started { handle: self.slurm_handle(cluster, job, key).to_job_handle(), first: None }
    }

    /// Returns the job number that is recorded in the folder.
    async fn recorded_id(&self, key: &str) -> Result<Option<JobId>> {
        let (folder, jobs) = (self.folder(key), self.jobs_dir.clone());
        self.disks
            .jobs
            .run(move || match folder.read(ID) {
                Ok(Some(bytes)) => Ok(read_id(&bytes)),
                // A missing file means something only if the file system is mounted.
                Ok(None) => check_mounted(&jobs).map(|()| None),
                Err(e) => Err(read_error(&folder, e)),
            })
            .await?
    }

    /// Records the job number, unless another start was first. In that case, cancels this start's job, which
    /// was never released. A failed write may still have succeeded, for example on a network file system that
    /// lost the response. So after a failure the job is left alone: it stays held, and a repeated start finds
    /// it.
    pub(crate) async fn record(&self, key: &str, id: JobId) -> Result<JobId> {
        let folder = self.folder(key);
        let result = self
            .disks
            .jobs
            .run(move || {
                let stored =
                    folder.write_first(ID, id.to_string().as_bytes()).map_err(|e| write_error(&folder, e))?;
                read_id(&stored)
                    .ok_or_else(|| Error::config(format!("{} contains no job id", folder.file(ID).display())))
            })
            .await
            .and_then(|result| result);
        if result.as_ref().is_ok_and(|stored_id| *stored_id != id) {
            // If this fails, the job stays held and never runs.
            drop(self.driver.cancel(id, key).await);
        }
        self.job_cache.record_change(key);
        if let Ok(stored_id) = &result {
            self.job_cache.record_number(*stored_id, key);
        }
        result
    }

    /// Finds a job of this name that was submitted but not recorded, records it, and cancels its held
    /// duplicates.
    async fn adopt(&self, key: &str) -> Result<Option<JobId>> {
        let mut rows: Vec<Row> = self.driver.jobs_by_name(key).await?;
        rows.retain(|row| row.name == key && !row.state.has_ended());
        // A job that its user or an administrator released comes first, then the oldest.
        rows.sort_by_key(|row| (row.is_held_by_user(), row.job));
        let Some(first) = rows.first() else { return Ok(None) };
        let (folder, id) = (self.folder(key), first.job);
        let user = self.setup.user.clone();
        self.disks
            .jobs
            .run(move || folder.create(user.as_ref()).map_err(|e| write_error(&folder, e)))
            .await??;
        let recorded_id = self.record(key, id).await?;
        for other in
            rows.iter().filter(|row| row.job != recorded_id && row.job != id && row.is_held_by_user())
        {
            drop(self.driver.cancel(other.job, key).await);
        }
        Ok(Some(recorded_id))
    }

    /// Permits the release and releases the job. If the release fails, a later poll repeats it.
    pub(crate) async fn release_job(&self, key: &str, id: JobId) -> Result<()> {
        let folder = self.folder(key);
        let result = self
            .disks
            .jobs
            .run(move || folder.write(MAY_RELEASE, b"", 0o600).map_err(|e| write_error(&folder, e)))
            .await?;
        result?;
        self.release(key, id).await;
        Ok(())
    }

    /// Releases a permitted job. A later poll checks whether that worked.
    pub(crate) async fn release(&self, key: &str, id: JobId) {
        if self.driver.release(id).await.is_ok() {
            let folder = self.folder(key);
            drop(self.disks.jobs.run(move || folder.write(RELEASED, b"", 0o600)).await);
        }
        self.job_cache.record_change(key);
    }

    /// Releases a recorded job that an earlier start left held.
    async fn release_if_held(&self, key: &str, id: JobId) -> Result<()> {
        let folder = self.folder(key);
        let plan_path = folder.file(PLAN);
        let (plan, is_settled) = self
            .disks
            .jobs
            .run(move || {
                let read = || {
                    let settled = folder.has(RELEASED)? || folder.has(CANCELLED)?;
                    Ok((folder.read_json::<Plan>(PLAN)?, settled))
                };
                read().map_err(|e| read_error(&folder, e))
            })
            .await??;
        if is_settled {
            return Ok(());
        }
        // The plan was written before the submission. It contains whether the job needs an approval.
        let Some(plan) = plan else {
            let plan_path = plan_path.display();
            return Err(Error::unavailable(format!(
                "job {id} stays held: {plan_path}, which states whether the job needs an approval, does not exist"
            )));
        };
        if plan.approval.is_some() || plan.attached.is_some() {
            return Ok(());
        }
        let rows = self.driver.job(id).await?;
        match rows.iter().any(|row| row.name == key && row.is_held_by_user()) {
            true => self.release_job(key, id).await,
            false => Ok(()),
        }
    }
}

/// Returns true for a request that Slurm understood and refused.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Rejected | ErrorKind::Denied | ErrorKind::Config)
}

fn write_files(folder: &Folder, request: &SubmitRequest) -> std::io::Result<()> {
    let user = request.plan.user.as_ref();
    folder.create(user)?;
    // Another user's job reads them through the group.
    let shared_mode = |mode: u32| if user.is_some() { mode | (mode & 0o500) >> 3 } else { mode };
    for (name, content, mode) in &request.files {
        folder.write(name, content, shared_mode(*mode))?;
    }
    folder.write_json(PLAN, &request.plan)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::suite;

    use super::*;
    use crate::driver::tests::fake::{Fake, held_row};

    /// Creates a backend with an in-memory controller, and a batch script.
    fn world() -> (tempfile::TempDir, Fake, Slurm) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("job.sh"), "#!/bin/sh\ntrue\n").unwrap();
        let fake = Fake::default();
        let slurm = Slurm::for_test(Box::new(fake.clone()), dir.path());
        (dir, fake, slurm)
    }

    /// A recorded job stays held until its plan can be read and needs no approval.
    #[tokio::test]
    async fn unapproved_job_is_never_released() {
        let (_dir, fake, slurm) = world();
        let target = json!({"script": "job.sh", "approval": "Shall this run?"});
        let mut job = suite::job(target, json!({}));
        slurm.begin(&job).await.unwrap();
        let key = job.key.as_str();
        fake.state().rows = vec![held_row(7, key)];
        job.may_exist = true;
        let folder = slurm.folder(key);
        let plan = folder.read(PLAN).unwrap().unwrap();
        // A disk that fails, and one that lost the file.
        for plan_bytes in [Some(&b"{\"array\":"[..]), None] {
            match plan_bytes {
                Some(bytes) => folder.write(PLAN, bytes, 0o600).unwrap(),
                None => std::fs::remove_file(folder.file(PLAN)).unwrap(),
            }
            let error = slurm.begin(&job).await.expect_err("the plan cannot be read");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(key), "{error}");
            assert!(fake.state().released.is_empty(), "the job is not approved");
        }
        folder.write(PLAN, &plan, 0o600).unwrap();
        slurm.begin(&job).await.unwrap();
        assert!(fake.state().released.is_empty(), "the job is not approved");
    }

    /// Its number may be recorded, so it is not cancelled, and the next start finds it.
    #[tokio::test]
    async fn submitted_job_with_failed_record_survives() {
        let (_dir, fake, slurm) = world();
        let mut job = suite::job(json!({"script": "job.sh"}), json!({}));
        let (key, folder) = (job.key.as_str().to_owned(), slurm.folder(job.key.as_str()));
        let (job_folder, name) = (folder.clone(), key.clone());
        fake.on_submission(move |known| {
            known.rows = vec![held_row(7, &name)];
            // The write fails after the name exists.
            std::fs::create_dir(job_folder.file(ID)).unwrap();
        });
        let error = slurm.begin(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{error}");
        assert!(fake.state().cancelled.is_empty(), "its number may be recorded");
        std::fs::remove_dir(folder.file(ID)).unwrap();
        job.may_exist = true;
        slurm.begin(&job).await.unwrap();
        assert_eq!(folder.read(ID).unwrap().as_deref(), Some(&b"7"[..]));
        assert_eq!(fake.state().released, [7]);
        // Another start was first.
        assert_eq!(slurm.record(&key, 8).await.unwrap(), 7);
        assert_eq!(fake.state().cancelled, [8]);
    }

    /// The error of a start that may have left a job has the `scancel` command that ends it.
    #[tokio::test]
    async fn uncertain_start_explains_cleanup() {
        use taskbridge_sdk::Backend as _;
        let (_dir, fake, slurm) = world();
        let mut job = suite::job(json!({"script": "job.sh"}), json!({}));
        for (kind, may_exist, explains) in [
            (ErrorKind::Unavailable, true, true),
            (ErrorKind::Unavailable, false, false),
            (ErrorKind::Rejected, true, false),
        ] {
            job.may_exist = may_exist;
            fake.state().refusal = Some(kind);
            let error = slurm.start(&job).await.unwrap_err();
            let command = format!("`scancel --name={}`", job.key.as_str());
            assert_eq!((error.kind(), error.to_string().contains(&command)), (kind, explains), "{error}");
        }
    }

    /// The folder stays if the start, or an earlier one, may have arrived.
    #[tokio::test]
    async fn refused_start_removes_folder() {
        let (_dir, fake, slurm) = world();
        for (refusal, may_exist, remains) in [
            (ErrorKind::Rejected, false, false),
            (ErrorKind::Denied, false, false),
            (ErrorKind::Uncertain, false, true),
            (ErrorKind::Unavailable, false, true),
            (ErrorKind::Rejected, true, true),
        ] {
            let mut job = suite::job(json!({"script": "job.sh"}), json!({}));
            job.may_exist = may_exist;
            fake.state().refusal = Some(refusal);
            assert_eq!(slurm.begin(&job).await.unwrap_err().kind(), refusal);
            let folder = slurm.folder(job.key.as_str());
            assert_eq!(folder.path().exists(), remains, "{refusal:?} {may_exist}");
        }
    }

    /// Another start recorded a job in the folder while this one was refused.
    #[tokio::test]
    async fn late_refusal_keeps_recorded_job_folder() {
        let (_dir, fake, slurm) = world();
        let job = suite::job(json!({"script": "job.sh"}), json!({}));
        let folder = slurm.folder(job.key.as_str());
        let other = folder.clone();
        fake.on_submission(move |known| {
            other.write_first(ID, b"3").unwrap();
            known.refusal = Some(ErrorKind::Rejected);
        });
        assert_eq!(slurm.begin(&job).await.unwrap_err().kind(), ErrorKind::Rejected);
        assert_eq!(folder.read(ID).unwrap().as_deref(), Some(&b"3"[..]));
    }
}
