//! The driver for slurmrestd, over its Unix socket or over TCP with a JSON web token. It discovers the API
//! version. Like every driver, it makes one attempt and must not decide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskbridge_sdk::{Error, ErrorKind, Result, Timestamp, async_trait};

use self::http::{Http, RestResponse};
use super::site::{self, Partition, Rights};
use super::{Cluster, Driver, JobId, PendingJob, Record, Row, Signal, Submission, nodes, refusal};
use crate::state::State;
use crate::{config, unix};

mod http;
mod order;
pub(crate) mod shape;
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
    list: Mutex<Option<List>>,
    /// The API version that is known to accept repeated query parameters. The first releases of 23.11 use
    /// only the last one.
    hears_all: AtomicU32,
}

/// All jobs of the cluster.
struct List {
    jobs: Arc<Vec<Value>>,
    /// When this list's newest event was first seen.
    known: Instant,
    /// The time of the newest event in the list, by the controller's clock.
    newest: i64,
    /// Changes from this second on are new.
    since: i64,
}

impl List {
    /// Creates the list from a response. From `v0.0.40` on, the response contains the second of the
    /// controller's clock at which it was made. Before, that clock is known only through event times: another
    /// event may happen in the same second as the newest one, until a later request returns no newer event.
    fn after(jobs: Arc<Vec<Value>>, made: Option<i64>, before: Option<&List>, sent: Instant) -> Self {
        let newest = jobs.iter().filter_map(shape::newest).max().unwrap_or(0);
        let known =
            before.filter(|before| before.newest == newest).map_or_else(Instant::now, |before| before.known);
        let guessed = if sent.saturating_duration_since(known) > SECONDS { newest + 1 } else { newest };
        let since = made.filter(|made| *made > 0).unwrap_or(guessed);
        Self { jobs, known, newest, since }
    }
}

/// The variable that sets a job's umask. Slurm removes it from the environment.
pub(super) const UMASK: &str = "SLURM_UMASK";

/// From this version on, each job is a separate query parameter. Before, jobs are a comma-separated list.
const REPEATS: u32 = 40;

/// After this time, the controller's clock shows another second.
const SECONDS: Duration = Duration::from_secs(2);

impl Rest {
    /// Creates a driver without sending a request. Jobs start with `umask`, if it is given.
    pub(crate) fn new(config: &config::Rest, limit: Duration, umask: Option<&str>) -> Result<Self> {
        let http = Http::new(config, limit)?;
        let user = match &config.user {
            Some(name) => shape::User::Name(name.clone()),
            // On a socket, slurmrestd identifies us by our Unix user.
            None => shape::User::Id(rustix::process::geteuid().as_raw()),
        };
        let mut environment = unix::variables(config.user.as_deref());
        environment.insert("PATH", order::PATH.to_owned());
        environment.extend(umask.map(|umask| (UMASK, umask.to_owned())));
        Ok(Self { http, user, environment, list: Mutex::new(None), hears_all: AtomicU32::default() })
    }

    /// Returns all jobs that the controller still knows. The request contains the time of the cached list. If
    /// nothing has changed since, which is the usual case, slurmrestd sends no list, and this returns the
    /// cached one. Otherwise slurmrestd sends the whole list again.
    async fn jobs(&self) -> Result<Arc<Vec<Value>>> {
        let known = self.list.lock().as_ref().map(|list| (list.since, list.jobs.clone()));
        let path = match &known {
            Some((since, _)) => format!("jobs?update_time={since}"),
            None => "jobs".to_owned(),
        };
        let sent = Instant::now();
        let answer = self.http.get(&path).await?;
        if let (true, Some((_, jobs))) = (is_unchanged(&answer), known) {
            return Ok(jobs);
        }
        let mut body = served(answer, "jobs")?;
        let made = shape::number(&body["last_update"]);
        let jobs = match body["jobs"].take() {
            Value::Array(jobs) => Arc::new(jobs),
            _ => return Err(Error::unavailable("slurmrestd: its list of jobs is none")),
        };
        let mut list = self.list.lock();
        *list = Some(List::after(jobs.clone(), made, list.as_ref(), sent));
        Ok(jobs)
    }

    async fn rows(&self, wanted: impl Fn(&Value) -> bool) -> Result<Vec<Row>> {
        let jobs = self.jobs().await?;
        Ok(jobs.iter().filter(|job| wanted(job)).filter_map(shape::row).collect())
    }

    /// Returns whether this version is known to accept several jobs in one query.
    fn hears_all(&self, version: u32) -> bool {
        version < REPEATS || self.hears_all.load(Ordering::Relaxed) == version
    }

    /// Returns the cluster's name in the accounting database, or `None` if the response contains no name.
    ///
    /// # Errors
    /// If there is no response, or one with HTTP 429 or 502 to 504: the name is temporarily unknown. The name
    /// is the backend's identity, so a default would hide the tasks of the cluster.
    async fn accounted_name(&self) -> Result<Option<String>> {
        let answer = self.http.accounting("clusters").await?;
        if matches!(answer.status, 429 | 502..=504) {
            return Err(failure(&answer, "its accounting"));
        }
        Ok(answer.body["clusters"].get(0).and_then(|cluster| cluster["name"].as_str()).map(str::to_owned))
    }

    /// Returns the accounting records at this path.
    async fn records(&self, path: &str) -> Result<Vec<Record>> {
        let answer = self.http.accounting(path).await?;
        if refusal_of(&answer).contains("Nothing found") {
            return Ok(Vec::new());
        }
        let body = served(answer, "its accounting")?;
        Ok(body["jobs"].as_array().into_iter().flatten().filter_map(shape::record).collect())
    }
}

/// Returns the errors of a response in one line. Empty if there are none.
fn refusal_of(answer: &RestResponse) -> String {
    let errors = answer.body["errors"].as_array().into_iter().flatten();
    let mut said: Vec<&str> = Vec::new();
    for words in errors.flat_map(|error| [error["error"].as_str(), error["description"].as_str()]).flatten() {
        if !words.is_empty() && !said.contains(&words) {
            said.push(words);
        }
    }
    said.join("; ")
}

/// Returns the body of a successful response. Errors next to the requested data are warnings.
fn served(answer: RestResponse, what: &str) -> Result<Value> {
    match answer.status {
        200..=299 if refusal_of(&answer).is_empty() || has_jobs(&answer.body) => Ok(answer.body),
        _ => Err(failure(&answer, what)),
    }
}

/// Returns true if the list was omitted because nothing changed. From `v0.0.39` on this response is a success
/// with no jobs at all.
fn is_unchanged(answer: &RestResponse) -> bool {
    let says_so = || warnings(answer).any(|words| words.starts_with("No job changes"));
    answer.status == 304 || (answer.status == 200 && !has_jobs(&answer.body) && says_so())
}

/// Returns the warnings of a response.
fn warnings(answer: &RestResponse) -> impl Iterator<Item = &str> {
    let warnings = answer.body["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(|warning| warning["description"].as_str())
}

/// Returns true for a list of jobs that is not empty. An empty list next to an error means nothing.
fn has_jobs(body: &Value) -> bool {
    body["jobs"].as_array().is_some_and(|jobs| !jobs.is_empty())
}

/// The whole message if the controller rejects a token that slurmrestd passed on.
const UNSPECIFIED: &str = "Unspecified error";

fn failure(answer: &RestResponse, what: &str) -> Error {
    let words = refusal_of(answer);
    match (answer.status, words.as_str()) {
        (401 | 403, _) => Error::denied(format!(
            "slurmrestd does not accept our credentials: HTTP {} {words}; a token ends after a while (`scontrol token`)",
            answer.status
        )),
        (429, _) => Error::limited(None, "slurmrestd asks for patience: HTTP 429"),
        // slurmrestd itself never returns these (its errors are 500). They come from a proxy in front of it.
        (status @ 502..=504, words) => {
            Error::unavailable(format!("slurmrestd cannot be reached for {what}: HTTP {status} {words}"))
        }
        (404, _) => Error::config(format!("slurmrestd has no {what} at this version of its API: HTTP 404")),
        (status, "") => {
            Error::unavailable(format!("slurmrestd answers {what} with HTTP {status} and no words"))
        }
        (_, words) if words.starts_with(UNSPECIFIED) => Error::unavailable(format!(
            "slurmrestd: {words}; it says so, too, when a token is wrong or has ended (`scontrol token`)"
        )),
        (_, words) => refusal::error("slurmrestd", words),
    }
}

/// Converts a failure into `Uncertain`, since the request may have taken effect.
fn uncertain(error: &Error) -> Error {
    Error::new(ErrorKind::Uncertain, error.to_string())
}

#[async_trait]
impl Driver for Rest {
    async fn cluster(&self) -> Result<Cluster> {
        let answer = self.http.get("ping").await?;
        // From `v0.0.40` on, the key is in lower case, and the cluster's name is there.
        let (large, small) = (&answer.body["meta"]["Slurm"], &answer.body["meta"]["slurm"]);
        let version = large["release"].as_str().or(small["release"].as_str()).unwrap_or_default().to_owned();
        let name = small["cluster"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        if self.http.has_token() && answer.status == 500 && refusal_of(&answer).starts_with(UNSPECIFIED) {
            return Err(Error::denied(failure(&answer, "ping").to_string()));
        }
        served(answer, "ping")?;
        let has_accounting = self.http.api().await?.has_accounting;
        let name = match name {
            None if has_accounting => self.accounted_name().await?,
            name => name,
        };
        Ok(Cluster {
            name: name.unwrap_or_else(|| "slurm".to_owned()),
            version,
            // A temporarily unavailable accounting database still counts.
            accounting: has_accounting,
            // slurmrestd does not report when the controller started. A release that was lost in a crash is
            // not detected here.
            booted: None,
            slurmd_user: None,
            max_array: None,
        })
    }

    fn reports_start_time(&self) -> bool {
        false
    }

    async fn submit(&self, order: &Submission) -> Result<JobId> {
        let body = order::submission(order, self.http.api().await?.version, &self.environment)?;
        let answer = self.http.post("job/submit", &body).await;
        let answer =
            answer.map_err(|failed| if failed.sent { uncertain(&failed.error) } else { failed.error })?;
        if let Some(id) =
            shape::number(&answer.body["job_id"]).and_then(|id| JobId::try_from(id).ok()).filter(|id| *id > 0)
        {
            // Errors next to a job number are warnings, for example that the job is held.
            let Some(words) = warnings(&answer).find(|words| words.starts_with("Ignoring un")) else {
                return Ok(id);
            };
            // If this fails, the job stays held and never runs.
            drop(self.cancel(id, &order.name).await);
            return Err(Error::rejected(format!(
                "slurmrestd of this version leaves out a part of what the job asks for, so that it was taken back: {words}"
            )));
        }
        let error = failure(&answer, "a submission");
        let lost =
            refusal::may_have_arrived(&refusal_of(&answer)) || matches!(answer.status, 200..=299 | 502..=504);
        Err(if lost { uncertain(&error) } else { error })
    }

    /// Compares the request with the nodes, since slurmrestd cannot test a submission: generic resources, by
    /// their count on one node. The controller refuses other impossible requests at the submission, or
    /// reports them while the job is pending.
    async fn never_fits(&self, order: &Submission) -> Result<Option<String>> {
        if !["gres", "gpus-per-node"].iter().any(|name| order.options.contains_key(*name)) {
            return Ok(None);
        }
        let answer = self.http.get("nodes").await?;
        if answer.status != 200 {
            return Err(failure(&answer, "nodes"));
        }
        let lacking = nodes::lacking(&answer.body, &order.options);
        Ok(lacking.map(|lacking| format!("Requested node configuration is not available: {lacking}")))
    }

    async fn release(&self, job: JobId) -> Result<()> {
        let answer = self
            .http
            .post(&format!("job/{job}"), &json!({"hold": false}))
            .await
            .map_err(|failed| failed.error)?;
        let said = refusal_of(&answer);
        if (answer.status == 200 && said.is_empty()) || said.contains("Job has already finished") {
            return Ok(());
        }
        // For an array, Slurm 22.05 reports a failure although the release succeeded.
        let rows = if said.contains("Invalid job id") { Vec::new() } else { self.job(job).await? };
        match rows.is_empty() || rows.iter().any(Row::is_held_by_user) {
            true => Err(failure(&answer, "a release")),
            false => Ok(()),
        }
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        self.rows(|job| self.user.has(job)).await
    }

    async fn named(&self, name: &str) -> Result<Vec<Row>> {
        self.rows(|job| self.user.has(job) && job["name"] == name).await
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        let answer = self.http.get(&format!("job/{job}")).await?;
        // slurmrestd reports this with HTTP 500.
        if refusal::is_over(&refusal_of(&answer)) {
            return Ok(Vec::new());
        }
        let body = served(answer, "a job")?;
        Ok(body["jobs"].as_array().into_iter().flatten().filter_map(shape::row).collect())
    }

    async fn waiting(&self) -> Result<Vec<PendingJob>> {
        let jobs = self.jobs().await?;
        Ok(jobs
            .iter()
            .filter(|job| shape::state(&job["job_state"]) == State::Pending)
            .filter_map(shape::waiting)
            .collect())
    }

    fn accounted_at_once(&self) -> usize {
        // Each job may be a request of its own. After each small batch, the caller checks how much time has
        // passed.
        if self.http.known_api().is_some_and(|api| self.hears_all(api.version)) { 500 } else { 20 }
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
        let version = self.http.api().await?.version;
        let ids = ids.join(if version >= REPEATS { "&step=" } else { "%2C" });
        let mut records = self.records(&format!("jobs?step={ids}")).await?;
        let told: BTreeSet<JobId> = records.iter().map(|record| record.job).collect();
        if told.len() > 1 {
            self.hears_all.store(version, Ordering::Relaxed);
        }
        if !self.hears_all(version) && jobs.len() > 1 {
            for job in jobs.iter().filter(|job| !told.contains(job)) {
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
        let answer = self.http.delete(&format!("job/{job}")).await.map_err(|failed| failed.error)?;
        let said = refusal_of(&answer);
        if (answer.status == 200 && said.is_empty()) || refusal::is_over(&said) {
            return Ok(());
        }
        Err(failure(&answer, "a cancellation"))
    }

    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()> {
        let answer = self.http.delete(&format!("job/{job}?signal={}", signal.name)).await;
        let answer =
            answer.map_err(|failed| if failed.sent { uncertain(&failed.error) } else { failed.error })?;
        let said = refusal_of(&answer);
        if answer.status == 200 && said.is_empty() {
            return Ok(());
        }
        let error = failure(&answer, "a signal");
        // Without an error message, the signal may have been sent.
        let is_open =
            matches!(answer.status, 200..=299 | 502..=504) || refusal::signal_may_have_arrived(&said);
        Err(if is_open && !matches!(answer.status, 400..=499) { uncertain(&error) } else { error })
    }

    async fn readiness(&self) -> Result<()> {
        self.cluster().await.map(drop)
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        let answer = self.http.get("partitions").await?;
        if answer.status != 200 || !answer.body["partitions"].is_array() {
            return Err(failure(&answer, "partitions"));
        }
        Ok(site::partitions_of(&answer.body))
    }

    async fn rights(&self, user: Option<&str>) -> Result<Rights> {
        let (associations, qos) =
            (self.http.accounting("associations").await?, self.http.accounting("qos").await?);
        for answer in [&associations, &qos] {
            if answer.status != 200 {
                return Err(failure(answer, "its accounting"));
            }
        }
        let ours = match &self.user {
            shape::User::Name(name) => Some(name.as_str()),
            shape::User::Id(_) => None,
        };
        Ok(site::rights_of(&associations.body, &qos.body, user.or(ours)))
    }
}

/// Parses a time of slurmrestd: seconds since 1970, where zero is none.
fn moment(value: &Value) -> Option<Timestamp> {
    let seconds = shape::number(value).filter(|seconds| *seconds > 0)?;
    Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
}
