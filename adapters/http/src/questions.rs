//! Answers to questions of jobs. It must not find the questions: `observe::conclude` does.

use std::time::Duration;

use serde_json::json;
use taskbridge_sdk::{
    Answer, AnswerOutcome, Error, ErrorKind, JobHandle, OnBehalfOf, Questions, Result, async_trait,
};

use crate::config::AnswerTable;
use crate::core::Http;
use crate::driver::auth::By;
use crate::driver::error::reply_error;
use crate::driver::reply::Reply;
use crate::language::{Expression, Scope};

#[async_trait]
impl Questions for Http {
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
        let (Some(scope), Some(table)) = (self.handle_scope(handle), &self.config.answer) else {
            return Ok(AnswerOutcome::TooLate);
        };
        match self.answers.is_same(handle, question, answer) {
            Some(true) => return Ok(AnswerOutcome::Accepted),
            Some(false) => return Ok(AnswerOutcome::TooLate),
            None => {}
        }
        if table.look_first && !self.is_open(handle, question).await? {
            return Ok(AnswerOutcome::TooLate);
        }
        let (action, content) = match answer {
            Answer::Accept(content) => ("accept", json!(content)),
            Answer::Decline => ("decline", json!({})),
            Answer::Cancel => ("cancel", json!({})),
        };
        let request = match (answer, &table.decline) {
            (Answer::Accept(_), _) => &table.request,
            (_, Some(decline)) => decline,
            (_, None) => {
                let message = "this engine has no way to decline a question: answer it, or cancel the task";
                return Err(Error::rejected(message));
            }
        };
        let scope = scope.with("question", question).with("answer", content).with("action", action);
        let reply = self.call(request, &scope, &[], By::Person(by)).await.map_err(|e| e.of_read("answer"))?;
        self.lists.clear();
        let outcome = self.outcome(table, &reply, &scope)?;
        if outcome == AnswerOutcome::Accepted {
            self.answers.record(handle, question, answer);
        }
        Ok(outcome)
    }

    fn list_lag(&self) -> Duration {
        self.config.ask.as_ref().map_or(Duration::ZERO, |ask| ask.lag)
    }
}

impl Http {
    /// Polls the job, and returns whether it has this question.
    async fn is_open(&self, handle: &JobHandle, question: &str) -> Result<bool> {
        let seen = self.poll(handle, false, None).await?;
        Ok(seen.questions.iter().any(|open| open.id == question))
    }

    /// Returns what the engine did with an answer.
    fn outcome(&self, table: &AnswerTable, reply: &Reply, scope: &Scope) -> Result<AnswerOutcome> {
        let reply_scope = reply.scope(scope.clone());
        let holds = |expression: &Option<Expression>, default: bool| match expression {
            Some(expression) => expression
                .is_true(&reply_scope)
                .map_err(|e| Error::unavailable(format!("answer: the reply cannot be read: {e}"))),
            None => Ok(default && !reply.is_page),
        };
        if holds(&table.too_late, matches!(reply.status, 404 | 409 | 410))? {
            return Ok(AnswerOutcome::TooLate);
        }
        if holds(&table.not_allowed, reply.status == 403)? {
            return Ok(AnswerOutcome::NotAllowed);
        }
        match holds(&table.ok, reply.is_success())? {
            true => Ok(AnswerOutcome::Accepted),
            false => Err(reply_error(&self.config, "answer", reply, scope, ErrorKind::Unavailable)),
        }
    }
}
