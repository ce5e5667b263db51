//! What a poll shows of a job: progress, message, questions, and the result of its end. Pure.

use serde_json::{Map, Value};
use taskbridge_sdk::{
    Artifact, Content, JobHandle, JobState, Observation, Output, Progress, Question, Timestamp, one_line,
};

use super::snapshot::Snapshot;
use crate::config::{Ask, Config, State};
use crate::core::form::add_properties;
use crate::identity::handle;
use crate::language::{Expression, Scope};

/// Most questions of a job that are read.
const MAX_QUESTIONS: usize = 64;
/// Most files of a job that are listed.
const MAX_ARTIFACTS: usize = 1000;

/// Returns the observation of a snapshot.
///
/// # Errors
/// The expression that cannot be evaluated.
pub(crate) fn observation(
    config: &Config,
    handle: &JobHandle,
    snapshot: &Snapshot<'_>,
) -> Result<Observation, String> {
    let (table, scope) = (snapshot.table, &snapshot.scope);
    let text = |expression: &Option<Expression>| expression.as_ref().map_or(Ok(None), |e| e.text(scope));
    let message =
        text(&table.message)?.map(|message| one_line(&message)).filter(|message| !message.is_empty());
    let mut seen = Observation::new(JobState::Running);
    seen.since =
        table.since.as_ref().map_or(Ok(None), |since| since.some(scope))?.as_ref().and_then(timestamp);
    seen.message = message.clone();
    seen.state = match snapshot.state {
        State::Gone => return Ok(Observation::new(JobState::Gone)),
        State::Queued => JobState::Queued,
        State::Running | State::Asks => JobState::Running,
        State::Succeeded => JobState::Succeeded(output(config, snapshot, None)?),
        State::Failed => {
            let reason = reason(message, "failed", &snapshot.word);
            seen.message = Some(reason.clone());
            JobState::Failed(output(config, snapshot, Some(&reason))?)
        }
        State::Cancelled => {
            let reason = reason(message, "was cancelled", &snapshot.word);
            seen.message = Some(reason.clone());
            JobState::Cancelled(output(config, snapshot, Some(&reason))?)
        }
    };
    if let Some(progress) = &table.progress {
        let number =
            |expression: &Expression| expression.some(scope).map(|value| value.as_ref().and_then(number));
        let total = progress.total.as_ref().map_or(Ok(None), number)?;
        seen.progress = number(&progress.done)?.map(|done| Progress { done, total });
    }
    let page = text(&table.link)?;
    seen.link = page.and_then(|page| page_url(config, &page));
    if !snapshot.state.has_ended() {
        seen.retry_after = snapshot.retry_after;
        if let Some(ask) = &config.ask {
            seen.questions = questions(ask, scope)?;
        }
        if let Some(rename) = &table.rename {
            seen.renamed_to = handle::evaluate(rename, scope).ok().filter(|name| name != handle);
        }
    }
    Ok(seen)
}

/// Returns the reason of an end: that of the engine, or its word.
fn reason(message: Option<String>, verb: &str, word: &str) -> String {
    message.unwrap_or_else(|| one_line(&format!("the job {verb} (the engine reports `{word}`)")))
}

/// Returns the result of an ended job.
fn output(config: &Config, snapshot: &Snapshot<'_>, reason: Option<&str>) -> Result<Output, String> {
    let (table, scope) = (snapshot.table, &snapshot.scope);
    let mut output = Output::default();
    if let Some(structured) = &table.structured {
        output.structured = structured.some(scope)?;
    }
    if let Some(reason) = reason {
        output.content.push(Content::text(reason));
    }
    let text = table.text.as_ref().map_or(Ok(None), |text| text.text(scope))?;
    match (text, &output.structured) {
        (Some(text), _) => output.content.push(Content::text(text)),
        (None, Some(Value::String(text))) => output.content.push(Content::text(text.clone())),
        (None, Some(value)) => output.content.push(Content::text(value.to_string())),
        (None, None) if reason.is_none() => output.content.push(Content::text("The job succeeded.")),
        (None, None) => {}
    }
    if let Some(page) = table.link.as_ref().map_or(Ok(None), |link| link.text(scope))?
        && let Some(uri) = page_url(config, &page)
    {
        let (description, mime_type, size) = (Some("The job in the engine.".to_owned()), None, None);
        output.content.push(Content::ResourceLink {
            uri,
            name: "job".to_owned(),
            description,
            mime_type,
            size,
        });
    }
    output.artifacts = artifacts(config, scope)?.into_iter().map(|(artifact, _)| artifact).collect();
    Ok(output)
}

/// Returns the files that a scope shows, each with the scope of its request.
///
/// # Errors
/// The expression that cannot be evaluated.
pub(crate) fn artifacts(config: &Config, scope: &Scope) -> Result<Vec<(Artifact, Scope)>, String> {
    let Some(table) = &config.artifacts else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for item in list(&table.items, scope)?.into_iter().take(MAX_ARTIFACTS) {
        let scope = scope.clone().with("item", &item);
        let Some(name) = table.name.text(&scope)? else { continue };
        let size = table.size.as_ref().map_or(Ok(None), |size| size.some(&scope))?;
        let size = size.as_ref().and_then(number).filter(|size| *size >= 0.0).map(|size| size as u64);
        let mime_type = table.mime.as_ref().map_or(Ok(None), |mime| mime.text(&scope))?;
        found.push((Artifact { name, size, mime_type }, scope));
    }
    Ok(found)
}

/// Returns the open questions of a job.
///
/// # Errors
/// The expression that cannot be evaluated.
pub(crate) fn questions(ask: &Ask, scope: &Scope) -> Result<Vec<Question>, String> {
    let mut questions = Vec::new();
    for item in list(&ask.items, scope)? {
        let scope = scope.clone().with("item", &item);
        if let Some(matches) = &ask.matches
            && !matches.is_true(&scope)?
        {
            continue;
        }
        let id = ask.id.text(&scope)?.ok_or("`ask.id` has no value")?;
        let message = ask.message.text(&scope)?.unwrap_or_else(|| format!("The job asks `{id}`."));
        let schema = ask.schema.as_ref().map_or(Ok(None), |schema| schema.some(&scope))?;
        let mut schema = schema.unwrap_or_else(|| serde_json::json!({"type": "object", "properties": {}}));
        let is_form =
            |object: &&mut Map<String, Value>| object.get("properties").is_some_and(Value::is_object);
        let Some(object) = schema.as_object_mut().filter(is_form) else {
            return Err("`ask.schema` is not the schema of an object with `properties`".to_owned());
        };
        add_properties(object, ask.properties.as_ref(), &ask.property, &scope)?;
        questions.push(Question::form(id, message, schema));
        if questions.len() >= MAX_QUESTIONS {
            break;
        }
    }
    Ok(questions)
}

/// Returns the items of an expression that are neither undefined nor null. Undefined and null have none.
///
/// # Errors
/// If it is something else than a list.
pub(crate) fn list(items: &Expression, scope: &Scope) -> Result<Vec<Value>, String> {
    match items.some(scope)? {
        // An item that the reply lacks, as in `[body.ask]`, is none.
        Some(Value::Array(items)) => Ok(items.into_iter().filter(|item| !item.is_null()).collect()),
        None => Ok(Vec::new()),
        Some(_) => Err(format!("`{}` is not a list", items.source())),
    }
}

/// Returns the address of a page for people: absolute, or below the engine's host.
fn page_url(config: &Config, page: &str) -> Option<String> {
    let url = config.base.join(page).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.to_string())
}

fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| number.is_finite())
}

/// Reads a time: RFC 3339, or seconds or milliseconds since 1970.
fn timestamp(value: &Value) -> Option<Timestamp> {
    /// Numbers from here on are milliseconds: as seconds, they are after the year 5000.
    const MILLIS: f64 = 1e11;
    let millis = match (value.as_str(), number(value)) {
        (_, Some(number)) if number >= MILLIS => number,
        (_, Some(number)) => number * 1000.0,
        (Some(text), None) => text.trim().parse::<jiff::Timestamp>().ok()?.as_millisecond() as f64,
        (None, None) => return None,
    };
    (millis >= 0.0).then(|| Timestamp::from_millis(millis as i64))
}
