//! The log of a job: one request, or one for each item.

use serde_json::Value;
use taskbridge_sdk::{Error, ErrorKind, JobHandle, LogRequest, LogText, Logs, Result, async_trait};

use crate::config::Log;
use crate::core::Http;
use crate::driver::auth::By;
use crate::driver::error::reply_error;
use crate::language::{Expression, Scope};
use crate::observe::conclude::list;
use crate::observe::poll::{Purpose, names_of_more};

/// Most items whose logs are read.
const MAX_PARTS: usize = 50;
/// Most text that is read for a log, in bytes.
const MAX_TEXT: usize = 32 * 1024 * 1024;

#[async_trait]
impl Logs for Http {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let (Some(log), Some(scope)) = (&self.config.log, self.handle_scope(handle)) else {
            return Err(Error::rejected("the engine has no log of this job"));
        };
        let scopes = match &log.each {
            Some(each) => self.parts(each, handle).await?,
            None => vec![scope],
        };
        let is_cut = scopes.len() > MAX_PARTS;
        let (mut text, mut found) = (String::new(), false);
        for scope in scopes.iter().take(MAX_PARTS) {
            let Some(part) = self.log_part(log, scope).await? else { continue };
            found = true;
            if let Some(title) =
                log.title.as_ref().map_or(Ok(None), |title| title.text(scope)).map_err(unreadable)?
            {
                text.push_str(&format!("=== {}\n", taskbridge_sdk::one_line(&title)));
            }
            text.push_str(&part);
            if !part.is_empty() && !part.ends_with('\n') {
                text.push('\n');
            }
            if text.len() > MAX_TEXT {
                return Err(Error::rejected(format!(
                    "the log has more than {MAX_TEXT} bytes: read it in the engine"
                )));
            }
        }
        if !found && log.each.is_none() {
            return Err(Error::rejected("the engine has no log of this job, or not yet"));
        }
        if let Some(search) = &request.search {
            let search = search.to_lowercase();
            let lines = text.lines().filter(|line| line.to_lowercase().contains(&search));
            text = lines.map(|line| format!("{line}\n")).collect();
        }
        let tail = LogText::last_lines(text, request.max_bytes);
        Ok(LogText { cut: tail.cut || is_cut, ..tail })
    }
}

impl Http {
    /// Returns the scopes of the items, in order.
    async fn parts(&self, each: &Expression, handle: &JobHandle) -> Result<Vec<Scope>> {
        let names = names_of_more(each.names());
        let Some(snapshot) = self.snapshot(handle, Purpose::Replies(&names), None).await? else {
            return Err(Error::rejected("the engine does not know this job any more"));
        };
        let items = list(each, &snapshot.scope).map_err(unreadable)?;
        Ok(items.iter().map(|item| snapshot.scope.clone().with("item", item)).collect())
    }

    /// Returns the text of one log. `None` if there is none.
    async fn log_part(&self, log: &Log, scope: &Scope) -> Result<Option<String>> {
        let reply = self.call(&log.request, scope, &[], By::Own).await.map_err(|e| e.of_read("log"))?;
        let reply_scope = reply.scope(scope.clone());
        let is_missing = match &log.missing {
            Some(missing) => missing.is_true(&reply_scope).map_err(unreadable)?,
            None => reply.is_absent(),
        };
        if is_missing {
            return Ok(None);
        }
        if !reply.is_success() {
            return Err(reply_error(&self.config, "log", &reply, scope, ErrorKind::Unavailable));
        }
        let Some(expression) = &log.text else { return Ok(Some(reply.text)) };
        let Some(next) = &log.next else {
            return Ok(Some(expression.text(&reply_scope).map_err(unreadable)?.unwrap_or_default()));
        };
        // With pages, `text` is a list of lines.
        let found = self.items("log", &log.request, Some(next), expression, scope, Some(reply)).await?;
        Ok(Some(found.items.iter().map(|line| format!("{}\n", line_text(line))).collect()))
    }
}

fn line_text(line: &Value) -> String {
    crate::language::plain_text(line).trim_end_matches('\n').to_owned()
}

fn unreadable(message: String) -> Error {
    Error::unavailable(format!("log: the reply cannot be read: {message}"))
}
