//! A backend that is connected to the engine, by config text.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_sdk::{Backend, ConnectContext, ErrorKind, JobHandle, Problem, Registry, Result};

use crate::nasty::Nasty;

/// Everything of a backend but its start: the engine's jobs are polled by id.
pub(crate) const COMMON: &str = r#"
auth.bearer = "s3cret"
words = "body.detail"
start_lag = "10s"
not_accepted = "status == 503"

[target]
kind = "The kind of the job."

[observe]
path = "/jobs/{{ handle.id }}"
state = "body.state"
states = { WAITING = "queued", RUNNING = "running", DONE = "succeeded", ERROR = "failed" }
cancelled = "body.note == 'cancelled by taskbridge'"
progress = { done = "body.steps.done", total = "body.steps.all" }
message = "body.error"
structured = "body.result"
link = "body.page"

[ask]
items = "body.questions"
id = "item.id"
message = "item.text"
schema = "{'type': 'object', 'properties': {'go': {'type': 'boolean'}}, 'required': ['go']}"

[answer]
method = "POST"
path = "/jobs/{{ handle.id }}/answers/{{ question }}"
json = { "..." = "{{ answer }}" }
decline = { method = "POST", path = "/jobs/{{ handle.id }}/answers/{{ question }}", json = { declined = true } }

[cancel]
method = "POST"
path = "/jobs/{{ handle.id }}/cancel"
json = { note = "cancelled by taskbridge" }

[log]
path = "/jobs/{{ handle.id }}/log"

[[more]]
as = "files"
when = ["succeeded"]
path = "/jobs/{{ handle.id }}/files"

[artifacts]
items = "more.files.body.files"
name = "item.name"
size = "item.size"
path = "/jobs/{{ handle.id }}/files/{{ item.name }}"

[hook]
hmac = { header = "X-Signature", secret = "hush", prefix = "sha256=" }
jobs = "[{'id': body.job}]"

[discover]
path = "/kinds"
items = "body.kinds"
detail = { path = "/kinds/{{ item.name }}" }
name = "item.name"
description = "detail.body.help"
schema = "detail.body.schema"
target = { kind = "item.name" }

[doctor]
credentials = { path = "/me" }
tool = { path = "/kinds/{{ target.kind }}" }
"#;

/// A start whose key is the job's id.
pub(crate) const KEYED: &str = r#"
[start]
method = "PUT"
path = "/jobs"
json = { key = "{{ taskbridge.key }}", kind = "{{ target.kind }}", arguments = "{{ arguments }}" }
once = "key"
duplicate = "status == 409"
handle = { id = "taskbridge.key" }

[find]
path = "/jobs/{{ taskbridge.key }}"
"#;

/// A start without a key: the job is found by a tag in the list.
pub(crate) const UNKEYED: &str = r#"
[start]
method = "POST"
path = "/jobs"
json = { key = "{{ taskbridge.key }}", kind = "{{ target.kind }}", arguments = "{{ arguments }}" }
once = "none"
ok = "status == 201"
handle = { id = "body.id" }

[find]
path = "/jobs"
items = "body.jobs"
match = "taskbridge.key in item.tags"
handle = { id = "item.id" }
next = { offset = "offset", size = 3, pages = 20 }

[list]
path = "/jobs"
items = "body.jobs"
id = "item.id"
job = "handle.id"
state = "item.state"
next = { offset = "offset", size = 3, pages = 20 }
"#;

/// Returns the fields of a backend. Later texts replace fields of earlier ones.
pub(crate) fn fields(base: &str, texts: &[&str]) -> Value {
    let mut all = Map::new();
    all.insert("base".to_owned(), base.into());
    for text in texts {
        let more: Map<String, Value> = toml::from_str(text).unwrap();
        all.extend(more);
    }
    Value::Object(all)
}

/// Checks the fields of a backend as `taskbridge check` does.
pub(crate) fn check(fields: &Value) -> Result<(), Problem> {
    let registry = Registry::new().with::<taskbridge_http::Http>();
    (registry.get("http").unwrap().check_config)(fields)
}

/// Connects a backend.
pub(crate) async fn connect(fields: Value) -> Result<Arc<dyn Backend>> {
    if let Err(problem) = check(&fields) {
        panic!("{}: {}", problem.field, problem.message);
    }
    let registry = Registry::new().with::<taskbridge_http::Http>();
    let context = ConnectContext {
        name: "engine".to_owned(),
        config_dir: Path::new("/").to_owned(),
        state_dir: Path::new("/nonexistent").to_owned(),
        program: Path::new("/nonexistent").to_owned(),
        call_timeout: Duration::from_secs(60),
    };
    (registry.get("http").unwrap().connect)(fields, context).await
}

/// Connects a backend to the engine.
pub(crate) async fn backend(nasty: &Nasty, texts: &[&str]) -> Arc<dyn Backend> {
    connect(fields(&format!("{}/api", nasty.address), texts)).await.unwrap()
}

/// Returns the kind of an error.
pub(crate) fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Returns the handle of a job of the test backends.
pub(crate) fn handle(id: &str) -> JobHandle {
    JobHandle::new(serde_json::json!({"id": id}).to_string())
}
