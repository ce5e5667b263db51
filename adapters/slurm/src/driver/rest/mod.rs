//! The driver for slurmrestd, over its Unix socket or over TCP with a JSON web token. It discovers the API
//! version. Like every driver, it makes one attempt and must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskbridge_sdk::{Error, Result, async_trait};

use self::http::Http;
use self::response::{
    UNSPECIFIED_ERROR, error_text, is_unchanged, response_error, successful_body, warnings,
};
use super::error::{self, uncertain};
use super::site::{self, Partition, Rights};
use super::{Cluster, Driver, Feasibility, PendingJob, Record, Row, Signal, Submission, nodes};
use crate::config;
use crate::driver::state::State;
use crate::identity::handle::JobId;
use crate::identity::unix;

mod http;
mod response;
pub(crate) mod shape;
mod submit_body;
#[cfg(test)]
mod tests;

/// A driver that uses slurmrestd.
pub(crate) struct Rest {
    http: Http,
    /// Identifies our jobs among all jobs that the controller returns.
    user: shape::User,
    /// The environment of jobs before Slurm adds its own variables.
    environment: BTreeMap<&'static str, String>,
    /// The last list of all jobs.
    job_list: Mutex<Option<JobList>>,
    /// The API version that is known to accept repeated query parameters. The first releases of 23.11 use
    /// only the last one.
    multi_query_version: AtomicU32,
}

/// All jobs of the cluster.
struct JobList {
    jobs: Arc<Vec<Value>>,
    /// When this list's newest event was first seen.
    newest_seen_at: Instant,
    /// The time of the newest event in the list, by the controller's clock.
    newest_event: i64,
    /// Changes from this second on are new.
    update_time: i64,
}

impl JobList {
    /// Creates the list from a response. From `v0.0.40` on, the response contains the second of the
    /// controller's clock at which it was made. Before, that clock is known only through event times: another
    /// event may happen in the same second as the newest one, until a later request returns no newer event.
    fn from_response(
        jobs: Arc<Vec<Value>>,
        response_time: Option<i64>,
        previous: Option<&JobList>,
        sent: Instant,
    ) -> Self {
        let newest_event = jobs.iter().filter_map(shape::newest_event).max().unwrap_or(0);
        let newest_seen_at = previous
            .filter(|previous| previous.newest_event == newest_event)
            .map_or_else(Instant::now, |previous| previous.newest_seen_at);
        let estimate = if sent.saturating_duration_since(newest_seen_at) > CLOCK_RESOLUTION {
            newest_event + 1
        } else {
            newest_event
        };
        let update_time = response_time.filter(|response_time| *response_time > 0).unwrap_or(estimate);
        Self { jobs, newest_seen_at, newest_event, update_time }
    }
}

/// The variable that sets a job's umask. Slurm removes it from the environment.
pub(super) const UMASK: &str = "SLURM_UMASK";

/// From this version on, each job is a separate query parameter. Before, jobs are a comma-separated list.
const REPEATED_PARAMETERS_SINCE: u32 = 40;

/// After this time, the controller's clock shows another second.
const CLOCK_RESOLUTION: Duration = Duration::from_secs(2);

impl Rest {
    /// Creates a driver without sending a request. Jobs start with `umask`, if it is given.
    pub(crate) fn new(config: &config::Rest, timeout: Duration, umask: Option<&str>) -> Result<Self> {
        let http = Http::new(config, timeout)?;
        let user = match &config.user {
            Some(name) => shape::User::Name(name.clone()),
            // On a socket, slurmrestd identifies us by our Unix user.
            None => shape::User::Id(rustix::process::geteuid().as_raw()),
        };
        let mut environment = unix::variables(config.user.as_deref());
        environment.insert("PATH", submit_body::SCRIPT_PATH.to_owned());
        environment.extend(umask.map(|umask| (UMASK, umask.to_owned())));
        Ok(Self {
            http,
            user,
            environment,
            job_list: Mutex::new(None),
            multi_query_version: AtomicU32::default(),
        })
    }

    /// Returns all jobs that the controller still knows. The request contains the time of the cached list. If
    /// nothing has changed since, which is the usual case, slurmrestd sends no list, and this returns the
    /// cached one. Otherwise slurmrestd sends the whole list again.
    async fn jobs(&self) -> Result<Arc<Vec<Value>>> {
        let cached = self.job_list.lock().as_ref().map(|list| (list.update_time, list.jobs.clone()));
        let path = match &cached {
            Some((update_time, _)) => format!("jobs?update_time={update_time}"),
            None => "jobs".to_owned(),
        };
        let sent = Instant::now();
        let response = self.http.get(&path).await?;
        if let (true, Some((_, jobs))) = (is_unchanged(&response), cached) {
            return Ok(jobs);
        }
        let mut body = successful_body(response, "jobs")?;
        let response_time = shape::number(&body["last_update"]);
        let jobs = match body["jobs"].take() {
            Value::Array(jobs) => Arc::new(jobs),
            _ => return Err(Error::unavailable("slurmrestd returned an invalid list of jobs")),
        };
        let mut list = self.job_list.lock();
        *list = Some(JobList::from_response(jobs.clone(), response_time, list.as_ref(), sent));
        Ok(jobs)
    }

    async fn rows(&self, predicate: impl Fn(&Value) -> bool) -> Result<Vec<Row>> {
        let jobs = self.jobs().await?;
        Ok(jobs.iter().filter(|job| predicate(job)).filter_map(shape::row).collect())
    }

    /// Returns whether this version is known to accept several jobs in one query.
    fn accepts_multiple_jobs(&self, version: u32) -> bool {
        version < REPEATED_PARAMETERS_SINCE || self.multi_query_version.load(Ordering::Relaxed) == version
    }

    /// Returns the cluster's name in the accounting database, or `None` if the response contains no name.
    ///
    /// # Errors
    /// If there is no response, or one with HTTP 429 or 502 to 504: the name is temporarily unknown. The name
    /// is the backend's identity, so a default would hide the tasks of the cluster.
    async fn accounting_cluster_name(&self) -> Result<Option<String>> {
        let response = self.http.accounting("clusters").await?;
        if matches!(response.status, 429 | 502..=504) {
            return Err(response_error(&response, "accounting"));
        }
        Ok(response.body["clusters"].get(0).and_then(|cluster| cluster["name"].as_str()).map(str::to_owned))
    }

    /// Returns the accounting records at this path.
    async fn records(&self, path: &str) -> Result<Vec<Record>> {
        let response = self.http.accounting(path).await?;
        if error_text(&response).contains("Nothing found") {
            return Ok(Vec::new());
        }
        let body = successful_body(response, "accounting")?;
        Ok(body["jobs"].as_array().into_iter().flatten().filter_map(shape::record).collect())
    }
}

#[async_trait]
impl Driver for Rest {
    async fn cluster(&self) -> Result<Cluster> {
        let response = self.http.get("ping").await?;
        // From `v0.0.40` on, the key is in lower case, and the cluster's name is there.
        let (old_meta, new_meta) = (&response.body["meta"]["Slurm"], &response.body["meta"]["slurm"]);
        let version =
            old_meta["release"].as_str().or(new_meta["release"].as_str()).unwrap_or_default().to_owned();
        let name = new_meta["cluster"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        if self.http.has_token()
            && response.status == 500
            && error_text(&response).starts_with(UNSPECIFIED_ERROR)
        {
            return Err(Error::denied(response_error(&response, "ping").to_string()));
        }
        successful_body(response, "ping")?;
        let has_accounting = self.http.api().await?.has_accounting;
        let name = match name {
            None if has_accounting => self.accounting_cluster_name().await?,
            name => name,
        };
        Ok(Cluster {
            name: name.unwrap_or_else(|| "slurm".to_owned()),
            version,
            // A temporarily unavailable accounting database still counts.
            accounting: has_accounting,
            // slurmrestd does not report when the controller started. A release that was lost in a crash is
            // not detected here.
            boot_time: None,
            slurmd_user: None,
            max_array: None,
        })
    }

    fn reports_boot_time(&self) -> bool {
        false
    }

    async fn submit(&self, submission: &Submission) -> Result<JobId> {
        let body = submit_body::build(submission, self.http.api().await?.version, &self.environment)?;
        let response = self.http.post("job/submit", &body).await;
        let response = response.map_err(|failure| {
            if failure.may_have_arrived { uncertain(&failure.error) } else { failure.error }
        })?;
        if let Some(id) = shape::number(&response.body["job_id"])
            .and_then(|id| JobId::try_from(id).ok())
            .filter(|id| *id > 0)
        {
            // Errors next to a job number are warnings, for example that the job is held.
            let Some(warning) = warnings(&response).find(|warning| warning.starts_with("Ignoring un")) else {
                return Ok(id);
            };
            // If this fails, the job stays held and never runs.
            drop(self.cancel(id, &submission.name).await);
            return Err(Error::rejected(format!(
                "this version of slurmrestd ignores an option of the job, so the job was cancelled: {warning}"
            )));
        }
        let error = response_error(&response, "submission");
        let is_uncertain = error::may_have_arrived(&error_text(&response))
            || matches!(response.status, 200..=299 | 502..=504);
        Err(if is_uncertain { uncertain(&error) } else { error })
    }

    /// Compares the request with the nodes, since slurmrestd cannot test a submission: generic resources, by
    /// their count on one node. The controller refuses other impossible requests at the submission, or
    /// reports them while the job is pending.
    async fn feasibility(&self, submission: &Submission) -> Result<Feasibility> {
        if !["gres", "gpus-per-node"].iter().any(|name| submission.options.contains_key(*name)) {
            return Ok(Feasibility::Feasible);
        }
        let response = self.http.get("nodes").await?;
        if response.status != 200 {
            return Err(response_error(&response, "nodes"));
        }
        let missing = nodes::missing_resource(&response.body, &submission.options);
        Ok(missing.map_or(Feasibility::Feasible, |missing| {
            Feasibility::Infeasible(format!("Requested node configuration is not available: {missing}"))
        }))
    }

    async fn release(&self, job: JobId) -> Result<()> {
        let response = self
            .http
            .post(&format!("job/{job}"), &json!({"hold": false}))
            .await
            .map_err(|failure| failure.error)?;
        let message = error_text(&response);
        if (response.status == 200 && message.is_empty()) || message.contains("Job has already finished") {
            return Ok(());
        }
        // For an array, Slurm 22.05 reports a failure although the release succeeded.
        let rows = if message.contains("Invalid job id") { Vec::new() } else { self.job(job).await? };
        match rows.is_empty() || rows.iter().any(Row::is_held_by_user) {
            true => Err(response_error(&response, "release")),
            false => Ok(()),
        }
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        self.rows(|job| self.user.owns(job)).await
    }

    async fn jobs_by_name(&self, name: &str) -> Result<Vec<Row>> {
        self.rows(|job| self.user.owns(job) && job["name"] == name).await
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        let response = self.http.get(&format!("job/{job}")).await?;
        // slurmrestd reports this with HTTP 500.
        if error::is_ended_or_unknown(&error_text(&response)) {
            return Ok(Vec::new());
        }
        let body = successful_body(response, "job")?;
        Ok(body["jobs"].as_array().into_iter().flatten().filter_map(shape::row).collect())
    }

    async fn pending_jobs(&self) -> Result<Vec<PendingJob>> {
        let jobs = self.jobs().await?;
        Ok(jobs
            .iter()
            .filter(|job| shape::state(&job["job_state"]) == State::Pending)
            .filter_map(shape::pending_job)
            .collect())
    }

    fn accounting_batch_size(&self) -> usize {
        // Each job may be a request of its own. After each small batch, the caller checks how much time has
        // passed.
        if self.http.known_api().is_some_and(|api| self.accepts_multiple_jobs(api.version)) {
            500
        } else {
            20
        }
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
        let version = self.http.api().await?.version;
        let ids = ids.join(if version >= REPEATED_PARAMETERS_SINCE { "&step=" } else { "%2C" });
        let mut records = self.records(&format!("jobs?step={ids}")).await?;
        let reported: BTreeSet<JobId> = records.iter().map(|record| record.job).collect();
        if reported.len() > 1 {
            self.multi_query_version.store(version, Ordering::Relaxed);
        }
        if !self.accepts_multiple_jobs(version) && jobs.len() > 1 {
            for job in jobs.iter().filter(|job| !reported.contains(job)) {
                records.extend(self.records(&format!("job/{job}")).await?);
            }
        }
        Ok(records)
    }

    async fn cancel(&self, job: JobId, name: &str) -> Result<()> {
        // slurmrestd has no conditional cancel, so the name is checked first.
        if !self.job(job).await?.iter().any(|row| row.name == name && !row.state.has_ended()) {
            return Ok(());
        }
        let response = self.http.delete(&format!("job/{job}")).await.map_err(|failure| failure.error)?;
        let message = error_text(&response);
        if (response.status == 200 && message.is_empty()) || error::is_ended_or_unknown(&message) {
            return Ok(());
        }
        Err(response_error(&response, "cancellation"))
    }

    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()> {
        let response = self.http.delete(&format!("job/{job}?signal={}", signal.name)).await;
        let response = response.map_err(|failure| {
            if failure.may_have_arrived { uncertain(&failure.error) } else { failure.error }
        })?;
        let message = error_text(&response);
        if response.status == 200 && message.is_empty() {
            return Ok(());
        }
        let error = response_error(&response, "signal");
        // Without an error message, the signal may have been sent.
        let is_uncertain =
            matches!(response.status, 200..=299 | 502..=504) || error::signal_may_have_arrived(&message);
        Err(if is_uncertain && !matches!(response.status, 400..=499) { uncertain(&error) } else { error })
    }

    async fn check_ready(&self) -> Result<()> {
        self.cluster().await.map(drop)
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        let response = self.http.get("partitions").await?;
        if response.status != 200 || !response.body["partitions"].is_array() {
            return Err(response_error(&response, "partitions"));
        }
        Ok(site::partitions_from_json(&response.body))
    }

    async fn rights(&self, user: Option<&str>) -> Result<Rights> {
        let (associations, qos) =
            (self.http.accounting("associations").await?, self.http.accounting("qos").await?);
        for response in [&associations, &qos] {
            if response.status != 200 {
                return Err(response_error(response, "accounting"));
            }
        }
        let own_user = match &self.user {
            shape::User::Name(name) => Some(name.as_str()),
            shape::User::Id(_) => None,
        };
        Ok(site::rights_from_json(&associations.body, &qos.body, user.or(own_user)))
    }
}
