//! The names that a start and a search see. It must not send anything.

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, JobSpec, Result};

use crate::config::{Config, Target};
use crate::core::{Http, base_scope};
use crate::language::{JsonTemplate, Scope};

impl Http {
    /// Returns the scope of a start: the arguments by name, `arguments`, `target`, `vars` and `taskbridge`.
    ///
    /// # Errors
    /// `Config` if the target does not have the shape that the backend asks for; `Rejected` if it cannot be
    /// rendered with these arguments.
    pub(crate) fn start_scope(&self, job: &JobSpec) -> Result<Scope> {
        let arguments = job.arguments.as_object().cloned().unwrap_or_default();
        let scope = start_scope(&self.config, &arguments, taskbridge(job));
        let target: Target = job.parse_target()?;
        let target = render_target(&self.config, &target, &scope).map_err(Error::rejected)?;
        Ok(scope.with("target", target))
    }
}

/// Returns the scope of a start without `target`.
pub(crate) fn start_scope(config: &Config, arguments: &Map<String, Value>, taskbridge: Value) -> Scope {
    let by_name = arguments.iter().fold(Scope::default(), |scope, (name, value)| scope.with(name, value));
    by_name.extended(&base_scope(config)).with("arguments", arguments).with("taskbridge", taskbridge)
}

/// Returns the target of a job: the defaults, and the tool's fields with the arguments in place.
///
/// # Errors
/// The field that is missing or cannot be rendered.
pub(crate) fn render_target(
    config: &Config,
    target: &Target,
    scope: &Scope,
) -> Result<Map<String, Value>, String> {
    let mut rendered = Map::new();
    for (name, field) in &config.target {
        let value = match target.0.get(name) {
            Some(value) => {
                let template: JsonTemplate = serde_json::from_value(value.clone())
                    .map_err(|e| format!("the target's `{name}` is not valid: {e}"))?;
                template
                    .render(scope)
                    .map_err(|e| format!("the target's `{name}` cannot be rendered: {e}"))?
            }
            None => field.default.clone(),
        };
        match value {
            Some(value) => drop(rendered.insert(name.clone(), value)),
            None if field.required => return Err(format!("the target's `{name}` has no value")),
            None => {}
        }
    }
    Ok(rendered)
}

/// Returns what templates see as `taskbridge`.
fn taskbridge(job: &JobSpec) -> Value {
    let caller = job.on_behalf_of.as_ref().map_or("", |person| person.name.as_str());
    let asked_at = job.first_attempt_at;
    let http_date = jiff::Timestamp::from_millisecond(asked_at.as_millis())
        .map(|at| at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string())
        .unwrap_or_default();
    let mut values = json!({
        "key": job.key.as_str(), "uuid": job.key.as_uuid(), "caller": caller,
        "asked_at": asked_at.to_string(), "asked_http": http_date,
    });
    if let Some(trace) = &job.trace {
        values["traceparent"] = trace.parent.as_str().into();
    }
    values
}
