//! Questions of a job, and their answers. It must not keep an answer.

use std::time::Duration;

use taskbridge_sdk::{Answer, AnswerOutcome, JobHandle, OnBehalfOf, Questions, Result, async_trait};

use crate::core::Core;
use crate::protocol::AnswerParams;

#[async_trait]
impl Questions for Core {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        self.answer_for(handle, question, answer, None).await
    }

    async fn answer_for(
        &self,
        handle: &JobHandle,
        question: &str,
        answer: &Answer,
        by: Option<&OnBehalfOf>,
    ) -> Result<AnswerOutcome> {
        let (handle, question, answer) = (handle.clone(), question.to_owned(), answer.clone());
        self.call("answer", &AnswerParams { handle, question, answer, by: by.cloned() }).await
    }

    fn list_lag(&self) -> Duration {
        self.session().map_or(Duration::ZERO, |session| session.list_lag)
    }
}
