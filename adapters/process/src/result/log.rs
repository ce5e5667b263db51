//! The log of a job. It must not return more than was asked for.

use taskbridge_sdk::{JobHandle, LogRequest, LogText, Logs, Result, async_trait};

use crate::core::Core;
use crate::protocol::LogParams;

/// Most bytes that are asked for at once, so that the reply fits into a line.
const MAX_BYTES: usize = 1024 * 1024;

#[async_trait]
impl Logs for Core {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let max_bytes = request.max_bytes.min(MAX_BYTES);
        let params = LogParams { handle: handle.clone(), max_bytes, search: request.search.clone() };
        let log: LogText = self.call("log", &params).await?;
        let text = LogText::last_lines(log.text, max_bytes);
        Ok(LogText { cut: text.cut || log.cut, text: text.text })
    }
}
