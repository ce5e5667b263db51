//! Recorded replies of a config: what they must mean, and what they mean. Offline.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, JobHandle, JobState, Observation, Problem};

use crate::config::{Config, Recorded, RecordedCall, State, Target};
use crate::core::base_scope;
use crate::driver::reply::Reply;
use crate::identity::handle;
use crate::observe::conclude::observation;
use crate::observe::snapshot::{Snapshot, observe_table, state_of};
use crate::submit::scope::{render_target, start_scope};
use crate::submit::start::{Meaning, meaning};

/// The key of a job in recorded replies.
const KEY: &str = "tb-aaaaaaaaaaaaaaaaaaaaaaaaaa";

/// What a reply means.
#[derive(Default)]
struct Actual {
    state: Option<State>,
    handle: Option<Value>,
    error: Option<Error>,
    seen: Option<Observation>,
}

/// Tries all recorded replies.
///
/// # Errors
/// The first that means something else than it must.
pub(crate) fn check(config: &Config) -> Result<(), Problem> {
    for (n, recorded) in config.recorded.iter().enumerate() {
        let problem =
            |field: &str, message: String| Problem { field: format!("recorded[{n}]{field}"), message };
        let actual = read(config, recorded).map_err(|message| problem("", message))?;
        if let Some((field, expected, actual)) = difference(recorded, &actual) {
            let message = format!(
                "is {expected}, but by this config the reply means {actual}: correct the expressions, or what is expected"
            );
            return Err(problem(&format!(".expects.{field}"), message));
        }
    }
    Ok(())
}

/// Returns the handles of recorded polls. Their jobs ran elsewhere.
pub(crate) fn polled_handles(config: &Config) -> Vec<JobHandle> {
    let polls = config.recorded.iter().filter(|it| it.call == RecordedCall::Observe && !it.handle.is_empty());
    let handles: BTreeSet<JobHandle> =
        polls.filter_map(|it| handle::to_handle(&it.handle.clone().into_iter().collect()).ok()).collect();
    handles.into_iter().collect()
}

/// Reads a recorded reply as the backend does.
fn read(config: &Config, recorded: &Recorded) -> Result<Actual, String> {
    let reply = reply(config, recorded)?;
    match recorded.call {
        RecordedCall::Start => {
            let taskbridge = json!({
                "key": KEY, "uuid": "00000000-0000-4000-8000-000000000000", "caller": "ann",
                "asked_at": "2026-01-01T00:00:00Z", "asked_http": "Thu, 01 Jan 2026 00:00:00 GMT",
            });
            let scope = start_scope(config, &recorded.arguments, taskbridge);
            let target = Target(recorded.target.clone().into_iter().collect());
            let target = render_target(config, &target, &scope)?;
            let scope = scope.with("target", target);
            // The request itself must be renderable too.
            crate::driver::render::render(&config.start.request, &config.headers, &scope, &[])?;
            Ok(match meaning(config, &reply, &scope, false) {
                Meaning::Started(handle) => Actual { handle: handle_value(&handle), ..Actual::default() },
                Meaning::Exists => Actual::default(),
                Meaning::Failed(error) => Actual { error: Some(error), ..Actual::default() },
            })
        }
        RecordedCall::Observe => {
            let scope = base_scope(config).with("handle", &recorded.handle);
            let table = observe_table(config, &scope)?;
            crate::driver::render::render(&table.request, &config.headers, &scope, &[])?;
            let (state, word) = match state_of(config, table, &reply, &scope) {
                Ok(Some(state)) => state,
                Ok(None) => return Ok(Actual { state: Some(State::Gone), ..Actual::default() }),
                Err(error) => return Ok(Actual { error: Some(error), ..Actual::default() }),
            };
            let more: Map<String, Value> =
                recorded.more.iter().map(|(name, body)| (name.clone(), more(recorded, body))).collect();
            let scope = reply.scope(scope).with("more", more);
            let snapshot = Snapshot { state, word: word.text, scope, table, retry_after: None };
            let seen = observation(config, &JobHandle::new("{}"), &snapshot)?;
            Ok(Actual { state: Some(state), seen: Some(seen), ..Actual::default() })
        }
    }
}

fn more(recorded: &Recorded, body: &Value) -> Value {
    json!({"status": 200, "headers": recorded.headers, "body": body, "text": text(body), "items": body})
}

fn text(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        other => crate::language::plain_text(other),
    }
}

fn reply(config: &Config, recorded: &Recorded) -> Result<Reply, String> {
    let status = StatusCode::from_u16(recorded.status)
        .map_err(|_| format!("{} is not an HTTP status", recorded.status))?;
    let mut headers = HeaderMap::new();
    for (name, value) in &recorded.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` is not the name of a header"))?;
        let value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of the header `{name}` is not valid"))?;
        headers.insert(name, value);
    }
    let url = config.base.as_str().trim_end_matches('/').to_owned() + "/";
    Reply::new(status, &headers, text(&recorded.body).as_bytes(), &url)
}

fn handle_value(handle: &JobHandle) -> Option<Value> {
    handle::parse(handle).map(Value::Object)
}

/// Returns the first difference: its field, what is expected, and what the reply means.
fn difference(recorded: &Recorded, actual: &Actual) -> Option<(&'static str, String, String)> {
    let expects = &recorded.expects;
    let error = actual.error.as_ref().map(|error| format!("the error `{error}` ({})", error.kind()));
    let instead = || error.clone().unwrap_or_else(|| "nothing".to_owned());
    if let Some(kind) = &expects.error {
        let is_same = actual.error.as_ref().is_some_and(|error| kind_name(error) == kind);
        let found = actual
            .error
            .as_ref()
            .map_or("a success".to_owned(), |error| format!("`{}`: {error}", kind_name(error)));
        (!is_same).then_some(()).map(|()| ("error", format!("`{kind}`"), found))
    } else {
        error.clone().map(|error| ("error", "not written".to_owned(), error))
    }
    .or_else(|| {
        let state = expects.state?;
        let found = actual.state.map_or_else(instead, |state| format!("`{state:?}`").to_lowercase());
        (actual.state != Some(state)).then(|| ("state", format!("`{state:?}`").to_lowercase(), found))
    })
    .or_else(|| {
        let handle = Value::Object(expects.handle.clone()?);
        let found = actual.handle.as_ref().map_or_else(instead, Value::to_string);
        (actual.handle.as_ref() != Some(&handle)).then(|| ("handle", handle.to_string(), found))
    })
    .or_else(|| {
        let message = expects.message.as_ref()?;
        let found = match (&actual.error, &actual.seen) {
            (Some(error), _) => error.to_string(),
            (None, seen) => seen.as_ref().and_then(|seen| seen.message.clone()).unwrap_or_default(),
        };
        (!found.contains(message)).then(|| ("message", format!("{message:?}"), format!("{found:?}")))
    })
    .or_else(|| observed_difference(recorded, actual.seen.as_ref()?))
}

fn observed_difference(recorded: &Recorded, seen: &Observation) -> Option<(&'static str, String, String)> {
    let expects = &recorded.expects;
    let output = match &seen.state {
        JobState::Succeeded(output) | JobState::Failed(output) | JobState::Cancelled(output) => {
            output.structured.clone()
        }
        _ => None,
    };
    let structured = expects.structured.as_ref().filter(|structured| output.as_ref() != Some(*structured));
    if let Some(structured) = structured {
        return Some(("structured", structured.to_string(), output.unwrap_or_default().to_string()));
    }
    let ids: Vec<&str> = seen.questions.iter().map(|question| question.id.as_str()).collect();
    if let Some(questions) = expects.questions.as_ref().filter(|questions| **questions != ids) {
        return Some(("questions", format!("{questions:?}"), format!("{ids:?}")));
    }
    let progress: Vec<f64> =
        seen.progress.map(|it| std::iter::once(it.done).chain(it.total).collect()).unwrap_or_default();
    let expected = expects.progress.as_ref().filter(|expected| **expected != progress)?;
    Some(("progress", format!("{expected:?}"), format!("{progress:?}")))
}

fn kind_name(error: &Error) -> &'static str {
    use taskbridge_sdk::ErrorKind;
    match error.kind() {
        ErrorKind::Rejected => "rejected",
        ErrorKind::Denied => "denied",
        ErrorKind::Config => "config",
        ErrorKind::Limited { .. } => "limited",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Uncertain => "uncertain",
        ErrorKind::Unsupported => "unsupported",
    }
}
