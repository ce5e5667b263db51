//! The search for a job by its key. It starts nothing.

use taskbridge_sdk::{Error, JobSpec, Result, Started};

use crate::config::Find;
use crate::core::Http;
use crate::driver::auth::By;
use crate::identity::handle;
use crate::language::Scope;

impl Http {
    /// Searches for the job with this key.
    ///
    /// # Errors
    /// A final `Uncertain` if the engine cannot be searched.
    pub(crate) async fn find_job(&self, job: &JobSpec) -> Result<Option<Started>> {
        let scope = self.start_scope(job)?;
        self.find_by_key(&scope).await
    }

    pub(crate) async fn find_by_key(&self, scope: &Scope) -> Result<Option<Started>> {
        if self.config.find.is_empty() {
            return Err(self.not_searchable());
        }
        for find in self.config.find.iter() {
            if let Some(started) = self.search(find, scope).await? {
                return Ok(Some(started));
            }
        }
        Ok(None)
    }

    /// Returns the error of a search in an engine that has none.
    pub(crate) fn not_searchable(&self) -> Error {
        let message = format!(
            "it is unknown whether the job was started, and {} has no search for it: look there before you start it again",
            self.identity
        );
        Error::uncertain(message).into_final()
    }

    async fn search(&self, find: &Find, scope: &Scope) -> Result<Option<Started>> {
        let reply = self.call(&find.request, scope, &[], By::Own).await.map_err(|e| e.of_read("find"))?;
        let reply_scope = reply.scope(scope.clone());
        let invalid =
            |message: String| Error::unavailable(format!("find: the reply cannot be read: {message}"));
        let is_missing = match &find.missing {
            Some(missing) => missing.is_true(&reply_scope).map_err(invalid)?,
            None => reply.is_absent(),
        };
        if is_missing {
            return Ok(None);
        }
        let reply = self.expect_success("find", reply, scope)?;
        let members = find.handle.as_ref().unwrap_or(&self.config.start.handle);
        let started = |scope: &Scope| {
            let handle = handle::evaluate(members, scope).map_err(invalid)?;
            Ok(Some(Started { handle, first: None }))
        };
        let Some(items) = &find.items else { return started(&reply_scope) };
        let found = self.items("find", &find.request, find.next.as_ref(), items, scope, Some(reply)).await?;
        for item in found.items {
            let item_scope = reply_scope.clone().with("item", &item);
            let is_match = match &find.matches {
                Some(matches) => matches.is_true(&item_scope).map_err(invalid)?,
                None => scope.key().is_some_and(|key| item.to_string().contains(&key)),
            };
            if is_match {
                return started(&item_scope);
            }
        }
        match found.is_cut {
            // The job can be on a page that was not read, so `None` would be wrong.
            true => Err(Error::uncertain(format!(
                "find: the job is not on the first {} pages, and there are more: narrow the search, or raise `pages`",
                found.pages
            ))),
            false => Ok(None),
        }
    }
}
