//! The start, and what a lost answer means. It must never send a start that could make a second job.

use serde::de::{DeserializeOwned, Error as _};
use serde_json::value::RawValue;
use taskbridge_sdk::{Error, ErrorKind, JobSpec, Result, Started, from_json};

use super::request::params;
use crate::core::Core;
use crate::driver::error::Failure;
use crate::driver::session::Ability;
use crate::protocol::{ErrorObject, Once};

/// Longest handle, in bytes. It is stored with the task.
const MAX_HANDLE: usize = 4096;

fn read<T: DeserializeOwned>(answer: &RawValue) -> serde_json::Result<T> {
    from_json(answer.get().as_bytes())
}

/// Checks the handle of a job that the program has started or found.
fn check(started: Started) -> serde_json::Result<Started> {
    let handle = started.handle.as_str();
    match (1..=MAX_HANDLE).contains(&handle.len()) && !handle.contains(char::is_control) {
        true => Ok(started),
        false => Err(serde_json::Error::custom(format_args!(
            "a handle has 1 to {MAX_HANDLE} bytes and no control characters"
        ))),
    }
}

impl Core {
    pub(crate) async fn start_job(&self, job: &JobSpec) -> Result<Started> {
        let guard = self.attempts.acquire(&job.key).await;
        let session = self.link.session_or_away()?;
        if job.may_exist && session.once == Once::None {
            drop(guard);
            return self.find_job(job).await?.ok_or_else(|| {
                Error::uncertain(
                    "the engine does not know the job, and a repeated start could start a second one",
                )
            });
        }
        let params = params(job, session.has(Ability::Files))?;
        match self.link.call("start", &params, Some(guard)).await {
            Ok(answer) => read(&answer).and_then(check).map_err(|e| {
                let error = self.wrong_shape("start", &e);
                self.after_start(job, ErrorKind::Uncertain, error.to_string())
            }),
            Err(Failure::NotSent(error)) => Err(error),
            Err(Failure::Lost(reason)) => {
                let message =
                    format!("the program of backend `{}` did not answer `start`: {reason}", self.name);
                Err(self.after_start(job, ErrorKind::Uncertain, message))
            }
            Err(Failure::Refused(error)) => Err(match self.refusal("start", &error) {
                Ok(error) if error.kind() == ErrorKind::Uncertain && !error.is_final() => {
                    self.after_start(job, ErrorKind::Uncertain, error.to_string())
                }
                Ok(error) => error,
                Err(message) => self.after_start(job, ErrorKind::Uncertain, message),
            }),
        }
    }

    /// Returns the error of a start whose effect is unknown: with `may_exist`, it was unknown before.
    fn after_start(&self, job: &JobSpec, first: ErrorKind, message: String) -> Error {
        Error::new(if job.may_exist { ErrorKind::Unavailable } else { first }, message)
    }

    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let session = self.link.session_or_away()?;
        let params = params(&JobSpec { files: Vec::new(), ..job.clone() }, session.has(Ability::Files))?;
        match self.link.call("find", &params, None).await {
            Ok(answer) => {
                let found = read::<Option<Started>>(&answer).and_then(|found| found.map(check).transpose());
                found.map_err(|e| self.wrong_shape("find", &e))
            }
            Err(Failure::Refused(error)) if error.code == ErrorObject::UNKNOWN_METHOD => {
                let message = format!(
                    "the program of backend `{}` cannot search for jobs: look for {} in the engine",
                    self.name, job.key
                );
                Err(Error::uncertain(message).into_final())
            }
            Err(failure) => Err(self.call_error("find", failure)),
        }
    }
}
