//! The newest job durations of a tool, as a store keeps them: a JSON array of milliseconds, oldest first. The
//! column `median` beside it is for older programs: this one computes all values from the array.

use std::time::Duration;

use taskbridge_core::tasks::pace::usual::{MAX_DURATIONS, UsualDuration};

/// Adds a duration. Returns the new array and its median.
///
/// # Errors
/// If the stored text is not such an array.
pub(super) fn add(stored: Option<&str>, took: i64) -> serde_json::Result<(String, i64)> {
    let mut all: Vec<i64> = stored.map(serde_json::from_str).transpose()?.unwrap_or_default();
    all.push(took);
    let newest = &all[all.len().saturating_sub(MAX_DURATIONS)..];
    let mut sorted = newest.to_vec();
    sorted.sort_unstable();
    let median = sorted[(sorted.len() - 1) / 2];
    Ok((serde_json::Value::from(newest).to_string(), median))
}

/// Returns the usual duration of a stored array.
///
/// # Errors
/// If the stored text is not such an array.
pub(super) fn usual(stored: &str) -> serde_json::Result<Option<UsualDuration>> {
    let all: Vec<i64> = serde_json::from_str(stored)?;
    let durations = all.into_iter().map(|millis| Duration::from_millis(u64::try_from(millis).unwrap_or(0)));
    Ok(UsualDuration::of(durations))
}
