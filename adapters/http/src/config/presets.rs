//! The presets of this program: backends without an address and credentials. They are merged below what the
//! user writes, table by table. It must not interpret them.

use serde_json::{Map, Value};
use taskbridge_sdk::Problem;

/// Name and text of each preset: conventions first, then engines.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("respond-async", include_str!("../../presets/respond-async.toml")),
    ("ogc-processes", include_str!("../../presets/ogc-processes.toml")),
    ("ga4gh-wes", include_str!("../../presets/ga4gh-wes.toml")),
    ("azure-operation", include_str!("../../presets/azure-operation.toml")),
    ("aip-151", include_str!("../../presets/aip-151.toml")),
    ("a2a", include_str!("../../presets/a2a.toml")),
    ("airflow-3", include_str!("../../presets/airflow-3.toml")),
    ("buildbot", include_str!("../../presets/buildbot.toml")),
    ("dagu", include_str!("../../presets/dagu.toml")),
    ("dagster", include_str!("../../presets/dagster.toml")),
    ("google-workflows", include_str!("../../presets/google-workflows.toml")),
    ("prefect-3", include_str!("../../presets/prefect-3.toml")),
    ("ray-jobs", include_str!("../../presets/ray-jobs.toml")),
    ("restate", include_str!("../../presets/restate.toml")),
    ("temporal", include_str!("../../presets/temporal.toml")),
];

/// Returns the fields of a backend with those of its preset below: a table is merged member by member, and
/// everything else of the user replaces the preset's.
///
/// # Errors
/// If there is no such preset.
pub(crate) fn complete(fields: &Value) -> Result<Value, Problem> {
    let Some(name) = fields.get("preset").and_then(Value::as_str) else { return Ok(fields.clone()) };
    let problem = |message: String| Problem { field: "preset".to_owned(), message };
    let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
        return Err(problem(format!("unknown preset `{name}` (known: `{}`)", names.join("`, `"))));
    };
    let preset: Map<String, Value> =
        toml::from_str(text).map_err(|e| problem(format!("the preset is not valid TOML: {e}")))?;
    Ok(merge(fields.clone(), Value::Object(without_other_credentials(preset, fields))))
}

/// Removes the credentials of a preset that are of another kind than the user's: a backend has one kind.
fn without_other_credentials(mut preset: Map<String, Value>, fields: &Value) -> Map<String, Value> {
    let own = fields.get("auth").and_then(Value::as_object).filter(|auth| !auth.is_empty());
    if let (Some(own), Some(Value::Object(auth))) = (own, preset.get_mut("auth")) {
        auth.retain(|kind, _| own.contains_key(kind));
    }
    preset
}

fn merge(user: Value, preset: Value) -> Value {
    match (user, preset) {
        (Value::Object(mut user), Value::Object(preset)) => {
            for (name, value) in preset {
                let merged = match user.remove(&name) {
                    Some(own) => merge(own, value),
                    None => value,
                };
                user.insert(name, merged);
            }
            Value::Object(user)
        }
        (user, _) => user,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the user writes goes before the preset, table by table; lists are not merged.
    #[test]
    fn user_fields_go_before_the_preset() {
        let user = json!({"a": {"b": 1, "c": [1]}, "d": false});
        let preset = json!({"a": {"b": 2, "c": [2, 3], "e": 4}, "d": {"f": 5}, "g": 6});
        assert_eq!(merge(user, preset), json!({"a": {"b": 1, "c": [1], "e": 4}, "d": false, "g": 6}));
    }
}
