//! Durations in config syntax: `25s`, `5m`, `1h 30m`, `7d`. They are limited to a hundred years, so that
//! adding one to a time cannot overflow.

use std::fmt;
use std::time::Duration;

use humantime_serde::re::humantime::parse_duration;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    humantime_serde::serialize(duration, to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_str(InWords)
}

/// Deserializes an optional duration.
pub(super) fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    deserialize(from).map(Some)
}

struct InWords;

impl Visitor<'_> for InWords {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"25s\", \"5m\", \"1h 30m\" or \"7d\", at most a hundred years")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        match parse_duration(text) {
            Ok(duration) if duration <= LONGEST => Ok(duration),
            _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
        }
    }
}
