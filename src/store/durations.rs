//! How long the newest jobs of a tool took, as a store keeps it: a JSON array of milliseconds, oldest first, with the
//! median beside it.

/// How many are remembered.
const REMEMBERED: usize = 100;

/// What is kept once this duration is known as well: the array, and its median.
///
/// # Errors
/// If what was kept is no such array.
pub(super) fn with(known: Option<&str>, took: i64) -> serde_json::Result<(String, i64)> {
    let mut all: Vec<i64> = known.map(serde_json::from_str).transpose()?.unwrap_or_default();
    all.push(took);
    let newest = &all[all.len().saturating_sub(REMEMBERED)..];
    let mut sorted = newest.to_vec();
    sorted.sort_unstable();
    let median = sorted[(sorted.len() - 1) / 2];
    Ok((serde_json::Value::from(newest).to_string(), median))
}
