//! [`Target`]: the behaviour of a simulated job. It must not know how the engine implements it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Error, Problem, Result};

/// Behaviour of a simulated job. An argument of the call with the same name overrides a field. Other
/// arguments, and files, are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// How long the job works, in milliseconds. A job with 0 and no question has ended when its start
    /// returns.
    pub delay_ms: u64,
    /// Number of units in which it reports progress. Absent: it reports none.
    pub steps: Option<u32>,
    /// How the job ends.
    pub outcome: Outcome,
    /// Text of its output; for a failure or a refusal, the reason.
    pub text: Option<String>,
    /// Output as data: any JSON value.
    pub structured: Option<Value>,
    /// Question that the job asks. It does not work while it waits for the answer.
    pub question: Option<Box<Ask>>,
    /// True: a request to cancel is accepted but has no effect.
    pub ignore_cancel: bool,
    /// True: the engine cannot stop this job, and says so.
    pub cannot_cancel: bool,
    /// True: polls by the first name of the job return a new name, `NAME.run`. Both names stay valid.
    pub renames: bool,
    /// How long polls ask to wait before the next one, in milliseconds, while the job runs.
    pub retry_after_ms: Option<u64>,
    /// True: the adapter panics at every poll of this job, even after its end, and of jobs that are polled
    /// together with it.
    pub panic_on_poll: bool,
    /// Lines that it prints, spread evenly over its work.
    pub lines: Vec<String>,
    /// Notes of level `info`, spread evenly over its work.
    pub notes: Vec<String>,
    /// Text files that it leaves when it succeeds or fails: relative path to content.
    pub files: BTreeMap<String, String>,
    /// Address of its page, as engines with pages report it.
    pub link: Option<String>,
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
    /// The engine forgets the job at its end, so that its result is unknown.
    Gone,
    /// The engine refuses to start it.
    Refuse,
}

/// Question of a simulated job. After an answer the job continues, and its output contains the answer. If the
/// question is declined, the job fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Text of the question, for a person to read.
    pub message: String,
    /// Form to fill in: a flat JSON Schema object. If no kind of answer is set, the form has no fields and
    /// can only be accepted or declined.
    #[serde(default)]
    pub schema: Option<Value>,
    /// Page to visit.
    #[serde(default)]
    pub url: Option<String>,
    /// Request for the client's model: the parameters of `sampling/createMessage`.
    #[serde(default)]
    pub sampling: Option<Map<String, Value>>,
    /// True: asks for the client's roots.
    #[serde(default)]
    pub roots: bool,
    /// True: asks at the start. False: asks after half of `delay_ms`.
    #[serde(default)]
    pub at_once: bool,
    /// How many times it asks, each time with the same id, like the approval gates of some engines.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

impl Ask {
    /// Returns the kind of answer that is requested.
    pub(super) fn answer_kind(&self) -> crate::Ask {
        match self {
            Ask { url: Some(url), .. } => crate::Ask::Url(url.clone()),
            Ask { sampling: Some(request), .. } => crate::Ask::Sampling(request.clone()),
            Ask { roots: true, .. } => crate::Ask::Roots,
            Ask { schema: Some(schema), .. } => crate::Ask::Form(schema.clone()),
            Ask { .. } => crate::Ask::Form(json!({"type": "object", "properties": {}})),
        }
    }

    fn problem(&self) -> Option<(&'static str, String)> {
        let set_kinds =
            [self.schema.is_some(), self.url.is_some(), self.sampling.is_some(), self.roots].map(u8::from);
        if set_kinds.iter().sum::<u8>() > 1 {
            return Some(("question", "must name one of `schema`, `url`, `sampling` and `roots`".to_owned()));
        }
        let schema = self.schema.as_ref()?;
        let is_form = schema.get("type").and_then(Value::as_str) == Some("object");
        let message = || format!("must be a JSON Schema with \"type\": \"object\", not {schema}");
        (!is_form).then(|| ("question.schema", message()))
    }
}

impl Target {
    /// Combines a target with the arguments of a call.
    ///
    /// # Errors
    /// Returns `Rejected` with the name of the field or argument that is not valid.
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
            "cannot_cancel" => self.cannot_cancel = read(name, value)?,
            "renames" => self.renames = read(name, value)?,
            "retry_after_ms" => self.retry_after_ms = read(name, value)?,
            "panic_on_poll" => self.panic_on_poll = read(name, value)?,
            "lines" => self.lines = read(name, value)?,
            "notes" => self.notes = read(name, value)?,
            "files" => self.files = read(name, value)?,
            "link" => self.link = read(name, value)?,
            _ => {}
        }
        Ok(())
    }

    /// Returns the errors that the type cannot exclude.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some((field, message)) = self.question.as_ref().and_then(|ask| ask.problem()) {
            problems.push(Problem { field: field.to_owned(), message });
        }
        for name in self.files.keys() {
            let is_valid_part = |part: &str| !part.is_empty() && part != "." && part != "..";
            if !name.split('/').all(is_valid_part) {
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

    /// The error names the field of the target or argument that is wrong.
    #[test]
    fn invalid_sim_target_is_rejected() {
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
