//! The cancellation of a job. It must not wait for the end.

use taskbridge_sdk::{Error, ErrorKind, JobHandle, OnBehalfOf, Result};

use crate::core::Http;
use crate::driver::auth::By;
use crate::driver::error::reply_error;
use crate::observe::poll::Purpose;

impl Http {
    /// Asks the engine to stop a job.
    ///
    /// # Errors
    /// See [`taskbridge_sdk::Backend::cancel`].
    pub(crate) async fn stop(&self, handle: &JobHandle, by: Option<&OnBehalfOf>) -> Result<()> {
        let Some(mut scope) = self.handle_scope(handle) else { return Ok(()) };
        let cancels = &self.config.cancel;
        if cancels.iter().len() == 0 {
            return Err(Error::unsupported(format!(
                "{} has no way to stop a job: it goes on",
                self.identity
            )));
        }
        if cancels.iter().any(|cancel| cancel.look_first) {
            match self.snapshot(handle, Purpose::State, None).await? {
                Some(snapshot) if !snapshot.state.has_ended() => scope = snapshot.scope,
                _ => return Ok(()),
            }
        }
        for cancel in cancels.iter() {
            let invalid = |message: String| Error::unavailable(format!("cancel: {message}"));
            if let Some(condition) = &cancel.condition
                && !condition.is_true(&scope).map_err(invalid)?
            {
                continue;
            }
            if let Some(wait) = &cancel.wait
                && wait.is_true(&scope).map_err(invalid)?
            {
                return Err(Error::unavailable("cancel: the job cannot be stopped yet"));
            }
            self.lists.clear();
            let reply = self.call(&cancel.request, &scope, &[], By::Person(by)).await;
            let reply = reply.map_err(|e| e.of_read("cancel"))?;
            self.lists.clear();
            let is_ok = match &cancel.ok {
                Some(ok) => ok.is_true(&reply.scope(scope.clone())).map_err(invalid)?,
                None => (reply.is_success() && !reply.is_page) || reply.is_absent(),
            };
            if is_ok {
                return Ok(());
            }
            let error = reply_error(&self.config, "cancel", &reply, &scope, ErrorKind::Unavailable);
            // An engine may refuse to stop a job that has ended.
            return match error.kind() {
                ErrorKind::Rejected if self.has_ended(handle).await => Ok(()),
                _ => Err(error),
            };
        }
        Err(Error::unsupported("this job cannot be stopped in its state: no table of `cancel` is for it"))
    }

    async fn has_ended(&self, handle: &JobHandle) -> bool {
        let snapshot = self.snapshot(handle, Purpose::State, None).await;
        snapshot.is_ok_and(|snapshot| snapshot.is_none_or(|snapshot| snapshot.state.has_ended()))
    }
}
