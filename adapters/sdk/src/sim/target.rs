//! [`Target`]: what a simulated job is told to do. It must not know how the engine carries it out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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
    /// The answer's form: a flat JSON Schema object. Absent: a form without fields, to be accepted or declined.
    #[serde(default = "empty_form")]
    pub schema: Value,
    /// True: asked at once. False: asked when half of `delay_ms` is over.
    #[serde(default)]
    pub at_once: bool,
}

fn empty_form() -> Value {
    json!({"type": "object", "properties": {}})
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
        if let Some(ask) = &self.question
            && ask.schema.get("type").and_then(Value::as_str) != Some("object")
        {
            problems.push(Problem {
                field: "question.schema".to_owned(),
                message: format!("must be a JSON Schema with \"type\": \"object\", not {}", ask.schema),
            });
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
        ];
        for (target, arguments, words) in cases {
            let error = Target::of_call(&target, &arguments).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Rejected);
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }
}
