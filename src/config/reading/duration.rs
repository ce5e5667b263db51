//! Durations in config syntax: `25s`, `5m`, `1h 30m`, `7d`. They are limited to a hundred years, so that
//! adding one to a time cannot overflow.

use std::fmt;
use std::time::Duration;

use humantime_serde::re::humantime::parse_duration;
use schemars::JsonSchema;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The text of a duration, for `#[serde(with = ...)]`. In a schema it is a string.
#[derive(JsonSchema)]
#[schemars(with = "String", inline)]
pub(in crate::config) enum DurationText {}

impl DurationText {
    pub(in crate::config) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        humantime_serde::serialize(duration, serializer)
    }

    pub(in crate::config) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

/// Deserializes an optional duration.
pub(in crate::config) fn optional<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    DurationText::deserialize(deserializer).map(Some)
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"25s\", \"5m\", \"1h 30m\" or \"7d\", at most a hundred years")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        match parse_duration(text) {
            Ok(duration) if duration <= MAX_DURATION => Ok(duration),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}
