//! The newest job durations of a tool, as a store keeps them: a JSON array of milliseconds, oldest first,
//! and their median.

/// Number of durations to keep.
const MAX_DURATIONS: usize = 100;

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
