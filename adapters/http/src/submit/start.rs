//! The start, and what its reply means. A reply that does not prove that the job was accepted or refused is
//! uncertain: the job is then searched for, or the start is sent again if the engine has a key.

use taskbridge_sdk::{Error, ErrorKind, JobHandle, JobSpec, Result, Started};

use crate::config::{Config, Once};
use crate::core::Http;
use crate::driver::auth::By;
use crate::driver::error::{reply_error, words};
use crate::driver::reply::Reply;
use crate::identity::handle;
use crate::language::Scope;

/// What a reply to a start means.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// There is a job with this key, and this is its handle.
    Started(JobHandle),
    /// There is a job with this key, and the reply does not name it.
    Exists,
    /// Anything else.
    Failed(Error),
}

impl Http {
    /// Starts the job, or finds it.
    ///
    /// # Errors
    /// See [`taskbridge_sdk::Backend::start`].
    pub(crate) async fn start_job(&self, job: &JobSpec) -> Result<Started> {
        if let Some(file) = job.files.first() {
            let message = format!("`{}` is a file, and this engine cannot receive files", file.parameter);
            return Err(Error::rejected(message));
        }
        let scope = self.start_scope(job)?;
        let start = &self.config.start;
        let has_key = start.once == Once::Key;
        if job.may_exist && (!has_key || start.look_first) {
            match self.find_by_key(&scope).await {
                Ok(Some(started)) => return Ok(started),
                Ok(None) if has_key => {}
                Ok(None) => {
                    let message = format!("{} does not list a job with the key {}", self.identity, job.key);
                    return Err(Error::uncertain(message));
                }
                Err(error) => return Err(error),
            }
        }
        let by = By::Person(job.on_behalf_of.as_ref());
        let meaning = match self.call(&start.request, &scope, &[], by).await {
            Ok(reply) => meaning(&self.config, &reply, &scope, job.may_exist),
            Err(error) => Meaning::Failed(error.of_start(job.may_exist)),
        };
        match meaning {
            Meaning::Started(handle) => Ok(Started { handle, first: None }),
            Meaning::Exists => match self.find_by_key(&scope).await? {
                Some(started) => Ok(started),
                None => Err(unclear(
                    job.may_exist,
                    "start: the engine has a job with this key, and does not list it",
                )),
            },
            Meaning::Failed(error) => self.failed(error, job, &scope).await,
        }
    }

    /// Returns the job of an earlier attempt in place of an error of a repeated one; otherwise the error.
    async fn failed(&self, error: Error, job: &JobSpec, scope: &Scope) -> Result<Started> {
        let is_searchable = !self.config.find.is_empty();
        match error.kind() {
            // Whatever is wrong with this attempt, an earlier one may have been accepted.
            ErrorKind::Rejected if job.may_exist && is_searchable => match self.find_by_key(scope).await? {
                Some(started) => Ok(started),
                None => Err(error),
            },
            ErrorKind::Uncertain if self.config.start.once == Once::None && !is_searchable => {
                Err(Error::uncertain(format!("{error}; {}", self.not_searchable())).into_final())
            }
            _ => Err(error),
        }
    }
}

/// Returns what a reply to a start means.
pub(crate) fn meaning(config: &Config, reply: &Reply, scope: &Scope, may_exist: bool) -> Meaning {
    let start = &config.start;
    let reply_scope = reply.scope(scope.clone());
    let unreadable = |message: String| {
        Meaning::Failed(unclear(may_exist, &format!("start: the reply cannot be read: {message}")))
    };
    let handle = || handle::evaluate(&start.handle, &reply_scope);
    match start.duplicate.as_ref().map(|duplicate| duplicate.is_true(&reply_scope)).transpose() {
        Err(message) => return unreadable(message),
        Ok(Some(true)) => return handle().map_or(Meaning::Exists, Meaning::Started),
        Ok(_) => {}
    }
    match start.refused.as_ref().map(|refused| refused.is_true(&reply_scope)).transpose() {
        Err(message) => return unreadable(message),
        Ok(Some(true)) => {
            let message = format!("start: {}", words(config, reply, &reply_scope));
            return Meaning::Failed(Error::rejected(message));
        }
        Ok(_) => {}
    }
    let is_ok = match &start.ok {
        Some(ok) => ok.is_true(&reply_scope),
        None => Ok(reply.is_success() && !reply.is_page),
    };
    match is_ok {
        Err(message) => unreadable(message),
        Ok(true) => handle().map_or_else(unreadable, Meaning::Started),
        // The engine answered with success, and `ok` says that it is none: that alone is no refusal.
        Ok(false) if reply.is_success() => Meaning::Failed(unclear(
            may_exist,
            &format!("start: HTTP status {}, which `ok` does not accept", reply.status),
        )),
        Ok(false) => {
            let kind = unclear(may_exist, "").kind();
            Meaning::Failed(reply_error(config, "start", reply, scope, kind))
        }
    }
}

/// Returns the error of an attempt whose effect is unknown.
fn unclear(may_exist: bool, message: &str) -> Error {
    match may_exist {
        true => Error::unavailable(message),
        false => Error::uncertain(message),
    }
}
