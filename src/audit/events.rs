//! The conversion of task events into audit lines. It must not know where lines are stored, nor decide how
//! many are too many.

use serde_json::{Value, json};

use super::Auditor;
use super::record::{AuditEntry, Engine, Kind, TaskName, capped, trace_id};
use crate::tasks::audit::{AuditEvent, Part};
use crate::tasks::store::ClientTaskRecord;
use crate::tasks::task::{Job, Outcome, Task, TaskId};

/// Digests of task ids and of arguments have separate domains.
const TASK: &str = "audit task";
const ARGUMENTS: &str = "audit arguments";

impl Auditor {
    /// Records an event. Returns false if its line was suppressed because of its rate.
    pub(super) fn told(&self, event: &AuditEvent<'_>) -> bool {
        match *event {
            AuditEvent::Created(task) => {
                let mut entry = self.about(Kind::TaskCreated, "ok", task);
                if let Job::Pending { spec, .. } | Job::Starting { spec, .. } = &task.job {
                    entry.arguments = Some(self.arguments(&spec.arguments));
                }
                self.write_limited(Kind::TaskCreated, entry, "")
            }
            AuditEvent::Started(task) => {
                self.write_limited(Kind::TaskStarted, self.about(Kind::TaskStarted, "ok", task), "")
            }
            AuditEvent::Ended(task) => {
                let outcome = match task.outcome() {
                    Some(Outcome::Succeeded) | None => "ok",
                    Some(Outcome::Failed) => "failed",
                    Some(Outcome::Cancelled) => "cancelled",
                    Some(Outcome::Broken) => "broken",
                };
                self.write_limited(Kind::TaskEnded, self.about(Kind::TaskEnded, outcome, task), "")
            }
            AuditEvent::CancelAsked(task) => {
                self.write_limited(Kind::TaskCancelled, self.about(Kind::TaskCancelled, "ok", task), "")
            }
            AuditEvent::Answered { task, question } => {
                let mut entry = self.about(Kind::QuestionAnswered, "ok", task);
                entry.detail = json!({"question": capped(question)});
                self.write_limited(Kind::QuestionAnswered, entry, "")
            }
            AuditEvent::Read { task, part } => {
                let (kind, detail) = match part {
                    Part::Result => (Kind::ResultRead, Value::Null),
                    Part::Log => (Kind::LogRead, Value::Null),
                    Part::Artifact(name) => (Kind::ArtifactRead, json!({"name": capped(name)})),
                };
                let mut entry = self.about(kind, "ok", task);
                let what = format!("{} {part:?}", self.named(&task.id).digest);
                entry.detail = detail;
                self.tell_of_asker(kind, entry, &what)
            }
            AuditEvent::NotFound { id, .. } => {
                let mut entry = self.entry(Kind::LookupFailed, "not_found");
                entry.task = Some(self.named(id));
                self.tell_of_asker(Kind::LookupFailed, entry, "")
            }
            AuditEvent::Denied { task, deed, why } => {
                let mut entry = self.about(Kind::CallDenied, "denied", task);
                entry.detail = json!({"verb": deed, "why": capped(why)});
                self.tell_of_asker(Kind::CallDenied, entry, "")
            }
            AuditEvent::ClientTask { held: ClientTaskRecord { of, stage, .. }, .. } => {
                let mut entry = self.entry(Kind::ClientTask, "ok");
                entry.task = Some(self.named(&of.task));
                let what = format!("{} {}", self.named(&of.task).digest, capped(&of.key));
                entry.detail = json!({"question": capped(&of.key), "stage": capped(&format!("{stage:?}"))});
                self.tell_of_asker(Kind::ClientTask, entry, &what)
            }
        }
    }

    pub(super) fn named(&self, id: &TaskId) -> TaskName {
        let beginning = format!("{id:?}");
        TaskName {
            id: capped(beginning.trim_end_matches('.')),
            digest: self.means.seal.digest(&[TASK, id.as_str()]),
            owner: None,
        }
    }

    pub(super) fn task_of(&self, task: &Task) -> TaskName {
        TaskName { owner: Some(capped(task.owner.as_str())), ..self.named(&task.id) }
    }

    pub(super) fn arguments(&self, arguments: &Value) -> String {
        self.means.seal.digest(&[ARGUMENTS, &arguments.to_string()])
    }

    /// Creates an entry about a task.
    fn about(&self, kind: Kind, outcome: &'static str, task: &Task) -> AuditEntry {
        let mut entry = self.entry(kind, outcome);
        entry.task = Some(self.task_of(task));
        entry.tool = Some(capped(&task.tool));
        let handle = task.handle().map(|handle| capped(handle.as_str()));
        entry.engine = Some(Engine { backend: capped(&task.backend), handle });
        if let Some(trace) = &task.origin.trace {
            entry.request.get_or_insert_default().trace.get_or_insert_with(|| trace_id(&trace.parent));
        }
        entry
    }
}
