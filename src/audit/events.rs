//! The conversion of task events into audit lines. It must not know where lines are stored, nor decide how
//! many are too many.

use serde_json::{Value, json};

use super::Auditor;
use super::record::{AuditEntry, Engine, Kind, TaskName, sanitize, trace_id};
use crate::tasks::audit::{AuditEvent, Part};
use crate::tasks::task::{Job, Outcome, Task, TaskId};

/// Digests of task ids and of arguments have separate domains.
const TASK: &str = "audit task";
const ARGUMENTS: &str = "audit arguments";

impl Auditor {
    /// Records an event. Returns false if its line was suppressed because of its rate.
    pub(super) fn write_event(&self, event: &AuditEvent<'_>) -> bool {
        match *event {
            AuditEvent::Created(task) => {
                let mut entry = self.task_entry(Kind::TaskCreated, "ok", task);
                if let Job::Pending { spec, .. } | Job::Starting { spec, .. } = &task.job {
                    entry.arguments = Some(self.arguments_digest(&spec.arguments));
                }
                self.write_limited(Kind::TaskCreated, entry, "")
            }
            AuditEvent::Started(task) => {
                self.write_limited(Kind::TaskStarted, self.task_entry(Kind::TaskStarted, "ok", task), "")
            }
            AuditEvent::Ended(task) => {
                let outcome = match task.outcome() {
                    Some(Outcome::Succeeded) | None => "ok",
                    Some(Outcome::Failed) => "failed",
                    Some(Outcome::Cancelled) => "cancelled",
                    Some(Outcome::Broken) => "broken",
                };
                self.write_limited(Kind::TaskEnded, self.task_entry(Kind::TaskEnded, outcome, task), "")
            }
            AuditEvent::CancelRequested(task) => {
                self.write_limited(Kind::TaskCancelled, self.task_entry(Kind::TaskCancelled, "ok", task), "")
            }
            AuditEvent::Answered { task, question } => {
                let mut entry = self.task_entry(Kind::QuestionAnswered, "ok", task);
                entry.detail = json!({"question": sanitize(question)});
                self.write_limited(Kind::QuestionAnswered, entry, "")
            }
            AuditEvent::Read { task, part } => {
                let (kind, detail) = match part {
                    Part::State => (Kind::TaskRead, Value::Null),
                    Part::Result => (Kind::ResultRead, Value::Null),
                    Part::Log => (Kind::LogRead, Value::Null),
                    Part::Artifact(name) => (Kind::ArtifactRead, json!({"name": sanitize(name)})),
                };
                let mut entry = self.task_entry(kind, "ok", task);
                let what = format!("{} {part:?}", self.task_name(&task.id).digest);
                entry.detail = detail;
                self.write_limited_by_caller(kind, entry, &what)
            }
            AuditEvent::NotFound { id, .. } => {
                let mut entry = self.entry(Kind::LookupFailed, "not_found");
                entry.task = Some(self.task_name(id));
                self.write_limited_by_caller(Kind::LookupFailed, entry, "")
            }
            AuditEvent::Denied { task, operation, why } => {
                let mut entry = self.task_entry(Kind::CallDenied, "denied", task);
                entry.detail = json!({"verb": operation, "why": sanitize(why)});
                self.write_limited_by_caller(Kind::CallDenied, entry, "")
            }
            AuditEvent::ClientTask { task, question, stage, .. } => {
                let (mut entry, question) = (self.entry(Kind::ClientTask, "ok"), sanitize(question));
                let name = self.task_name(task);
                let what = format!("{} {question}", name.digest);
                entry.task = Some(name);
                entry.detail = json!({"question": question, "stage": sanitize(stage)});
                self.write_limited_by_caller(Kind::ClientTask, entry, &what)
            }
        }
    }

    pub(super) fn task_name(&self, id: &TaskId) -> TaskName {
        let beginning = format!("{id:?}");
        TaskName {
            id: sanitize(beginning.trim_end_matches('.')),
            digest: self.dependencies.seal.digest(&[TASK, id.as_str()]),
            owner: None,
        }
    }

    pub(super) fn task_name_with_owner(&self, task: &Task) -> TaskName {
        TaskName { owner: Some(sanitize(task.owner.as_str())), ..self.task_name(&task.id) }
    }

    pub(super) fn arguments_digest(&self, arguments: &Value) -> String {
        self.dependencies.seal.digest(&[ARGUMENTS, &arguments.to_string()])
    }

    /// Creates an entry about a task.
    fn task_entry(&self, kind: Kind, outcome: &'static str, task: &Task) -> AuditEntry {
        let mut entry = self.entry(kind, outcome);
        entry.task = Some(self.task_name_with_owner(task));
        entry.tool = Some(sanitize(&task.tool));
        let handle = task.handle().map(|handle| sanitize(handle.as_str()));
        entry.engine = Some(Engine { backend: sanitize(&task.backend), handle });
        if let Some(trace) = &task.origin.trace {
            entry.request.get_or_insert_default().trace.get_or_insert_with(|| trace_id(&trace.parent));
        }
        entry
    }
}
