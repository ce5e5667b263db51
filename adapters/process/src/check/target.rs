//! Checks a target offline, with the schema from the program's manifest. It must not start a program.

use serde_json::Value;
use taskbridge_sdk::Problem;

use crate::config::schema::violations;
use crate::config::{Config, Target};

/// Returns the errors of a target.
pub(crate) fn check(config: &Config, target: &Target) -> Vec<Problem> {
    let Some(schema) = &config.schemas.target else { return Vec::new() };
    let violations = violations("", schema, &Value::Object(target.0.clone()));
    violations.into_iter().map(|(field, message)| Problem { field, message }).collect()
}
