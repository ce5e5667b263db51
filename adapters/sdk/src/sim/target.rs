//! [`Target`]: what a simulated job is told to do. It must not know how the engine carries it out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Error, Problem, Result};

/// How a simulated job behaves. An argument of the call that has the name of one of these fields overrides it;
/// other arguments, and files, are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// How long the job works, in milliseconds. A job of 0 that asks nothing has ended when its start returns.
    pub delay_ms: u64,
    /// In how many units it reports its progress. Absent: it reports none.
    pub steps: Option<u32>,
    /// How it ends.
    pub outcome: Outcome,
    /// What its output says, and for a failure or a refusal the reason.
    pub text: Option<String>,
    /// The output as data: any JSON value.
    pub structured: Option<Value>,
    /// What it asks. While it waits for the answer it does not work.
    pub question: Option<Box<Ask>>,
    /// True: a request to cancel is accepted and has no effect.
    pub ignore_cancel: bool,
    /// True: the adapter panics at every poll of this job, ended or not, and of all jobs that are polled with it.
    pub panic_on_poll: bool,
    /// The lines it prints, spread evenly over its work.
    pub lines: Vec<String>,
    /// What it says, as notes of the level `info`, spread evenly over its work.
    pub notes: Vec<String>,
    /// The text files it leaves when it succeeds or fails: relative path to content.
    pub files: BTreeMap<String, String>,
}

/// How a simulated job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeds.
    #[default]
    Succeed,
    /// It runs and fails.
    Fail,
    /// The engine forgets it when its time is over, so nobody learns how it ended.
    Gone,
    /// The engine refuses to start it.
    Refuse,
}

/// A question of a simulated job. An answer lets the job go on, and its output tells the answer; a "no" makes it fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What to ask, for a person to read.
    pub message: String,
    /// A form to be filled in: a flat JSON Schema object. Where nothing is named that is wanted: a form without fields,
    /// to be accepted or declined.
    #[serde(default)]
    pub schema: Option<Value>,
    /// A page to be visited.
    #[serde(default)]
    pub url: Option<String>,
    /// What the client's model is to go on with: the parameters of `sampling/createMessage`.
    #[serde(default)]
    pub sampling: Option<Map<String, Value>>,
    /// True: the client's roots are wanted.
    #[serde(default)]
    pub roots: bool,
    /// True: asked at once. False: asked when half of `delay_ms` is over.
    #[serde(default)]
    pub at_once: bool,
    /// How often it is asked, each time under the same id, as the gates of some engines are.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

impl Ask {
    /// What is wanted.
    pub(super) fn wanted(&self) -> crate::Ask {
        match self {
            Ask { url: Some(url), .. } => crate::Ask::Url(url.clone()),
            Ask { sampling: Some(request), .. } => crate::Ask::Sampling(request.clone()),
            Ask { roots: true, .. } => crate::Ask::Roots,
            Ask { schema: Some(schema), .. } => crate::Ask::Form(schema.clone()),
            Ask { .. } => crate::Ask::Form(json!({"type": "object", "properties": {}})),
        }
    }

    fn problem(&self) -> Option<(&'static str, String)> {
        let named =
            [self.schema.is_some(), self.url.is_some(), self.sampling.is_some(), self.roots].map(u8::from);
        if named.iter().sum::<u8>() > 1 {
            return Some(("question", "must name one of `schema`, `url`, `sampling` and `roots`".to_owned()));
        }
        let schema = self.schema.as_ref()?;
        let is_form = schema.get("type").and_then(Value::as_str) == Some("object");
        let message = || format!("must be a JSON Schema with \"type\": \"object\", not {schema}");
        (!is_form).then(|| ("question.schema", message()))
    }
}

impl Target {
    /// The job that a target and a call's arguments describe together.
    ///
    /// # Errors
    /// `Rejected`, naming the field or argument, if one does not fit.
    pub fn of_call(target: &Value, arguments: &Value) -> Result<Self> {
        let mut job = Target::deserialize(target).map_err(|e| Error::rejected(format!("target: {e}")))?;
        for (name, value) in arguments.as_object().into_iter().flatten() {
            job.set(name, value)?;
        }
        match job.problems().pop() {
            Some(problem) => Err(Error::rejected(format!("{}: {}", problem.field, problem.message))),
            None => Ok(job),
        }
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<()> {
        match name {
            "delay_ms" => self.delay_ms = read(name, value)?,
            "steps" => self.steps = read(name, value)?,
            "outcome" => self.outcome = read(name, value)?,
            "text" => self.text = read(name, value)?,
            "structured" => self.structured = read(name, value)?,
            "question" => self.question = read(name, value)?,
            "ignore_cancel" => self.ignore_cancel = read(name, value)?,
            "panic_on_poll" => self.panic_on_poll = read(name, value)?,
            "lines" => self.lines = read(name, value)?,
            "notes" => self.notes = read(name, value)?,
            "files" => self.files = read(name, value)?,
            _ => {}
        }
        Ok(())
    }

    /// What the shape cannot say and is wrong all the same.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some((field, message)) = self.question.as_ref().and_then(|ask| ask.problem()) {
            problems.push(Problem { field: field.to_owned(), message });
        }
        for name in self.files.keys() {
            let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !name.split('/').all(plain) {
                problems.push(Problem {
                    field: format!("files[{name:?}]"),
                    message:
                        "must be a relative path without empty parts, `.` or `..`, such as \"out/report.txt\""
                            .to_owned(),
                });
            }
        }
        problems
    }
}

fn read<T: DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|e| Error::rejected(format!("argument {name}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_override_the_target() {
        let target = json!({"delay_ms": 50, "text": "from the target"});
        let job = Target::of_call(&target, &json!({"delay_ms": 7, "colour": "red"})).unwrap();
        assert_eq!(job.delay_ms, 7);
        assert_eq!(job.text.as_deref(), Some("from the target"));
    }

    #[test]
    fn what_does_not_fit_is_rejected_by_name() {
        let cases = [
            (json!({"delay": 1}), json!({}), "target: unknown field `delay`"),
            (json!({}), json!({"delay_ms": "soon"}), "argument delay_ms: invalid type: string \"soon\""),
            (json!({"files": {"../up": ""}}), json!({}), "files[\"../up\"]: must be a relative path"),
            (json!({"question": {"message": "?", "schema": []}}), json!({}), "question.schema: must be"),
            (
                json!({"question": {"message": "?", "url": "x", "roots": true}}),
                json!({}),
                "question: must name one",
            ),
        ];
        for (target, arguments, words) in cases {
            let error = Target::of_call(&target, &arguments).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Rejected);
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }
}
