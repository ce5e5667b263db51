//! A duration in a config: text such as `90s`. It must not know what it is for.

use std::time::Duration;

use serde::Deserializer;

/// Reads a duration such as `1m 30s`, of at most a year.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration: Duration = humantime_serde::deserialize(deserializer)?;
    match duration <= Duration::from_secs(366 * 86_400) {
        true => Ok(duration),
        false => Err(serde::de::Error::custom("the longest duration is a year")),
    }
}

/// Reads a duration that is not always there.
pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    deserialize(deserializer).map(Some)
}
