//! The handle of a job: an object with the members of `start.handle`, as JSON. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use taskbridge_sdk::JobHandle;

use crate::language::{Expression, Scope};

/// Longest handle, in bytes.
const MAX_HANDLE: usize = 4096;

/// Evaluates the members of a handle.
///
/// # Errors
/// The member that has no value.
pub(crate) fn evaluate(members: &BTreeMap<String, Expression>, scope: &Scope) -> Result<JobHandle, String> {
    let mut values = BTreeMap::new();
    for (name, expression) in members {
        match expression.some(scope).map_err(|e| format!("`handle.{name}`: {e}"))? {
            Some(value @ (Value::String(_) | Value::Number(_) | Value::Bool(_))) if value != "" => {
                values.insert(name.clone(), value);
            }
            Some(_) => return Err(format!("`handle.{name}` is not a text or a number")),
            None => return Err(format!("`handle.{name}` has no value in the reply")),
        }
    }
    to_handle(&values)
}

/// Returns the handle with these members, whose order does not matter.
///
/// # Errors
/// If it is too long.
pub(crate) fn to_handle(values: &BTreeMap<String, Value>) -> Result<JobHandle, String> {
    let text = serde_json::to_string(values).map_err(|e| e.to_string())?;
    match text.len() <= MAX_HANDLE {
        true => Ok(JobHandle::new(text)),
        false => Err(format!("the handle has {} bytes, the limit is {MAX_HANDLE}", text.len())),
    }
}

/// Returns the members of a handle. `None` for a handle of another kind of backend.
pub(crate) fn parse(handle: &JobHandle) -> Option<Map<String, Value>> {
    serde_json::from_str(handle.as_str()).ok()
}
