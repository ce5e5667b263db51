//! Parses and formats times and sizes in Slurm's notation. Pure.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Parses a time limit: `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`,
/// `days-hours:minutes` or `days-hours:minutes:seconds`. Returns `None` for any other text, and for
/// `UNLIMITED`.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<u64>().ok())?
    };
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let units: &[u64] = match (days, parts.len()) {
        (Some(_), 1) => &[HOUR],
        (Some(_), 2) => &[HOUR, MINUTE],
        (None, 1) => &[MINUTE],
        (None, 2) => &[MINUTE, 1],
        (_, 3) => &[HOUR, MINUTE, 1],
        _ => return None,
    };
    let mut seconds = days.unwrap_or(0).checked_mul(DAY)?;
    for (part, unit) in parts.iter().zip(units) {
        seconds = seconds.checked_add(part.checked_mul(*unit)?)?;
    }
    Some(Duration::from_secs(seconds))
}

/// Parses a used time in sacct's format, `[days-][hours:]minutes:seconds[.fraction]`.
pub(crate) fn used_time(text: &str) -> Option<Duration> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let with_hours = if text.matches(':').count() == 1 && !text.contains('-') {
        format!("0:{text}")
    } else {
        text.to_owned()
    };
    let millis = format!("{:0<3}", fraction.chars().take(3).collect::<String>());
    Some(time(&with_hours)? + Duration::from_millis(millis.parse().unwrap_or(0)))
}

/// Parses a size in bytes: a number with the unit `K`, `M`, `G`, `T` or `P`, or in `M` without a unit.
/// Ignores the suffix that sacct adds for per-node or per-CPU amounts (`n` or `c`).
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(['n', 'c']);
    let text = text
        .strip_suffix(['B', 'b'])
        .filter(|rest| rest.ends_with(|c: char| c.is_ascii_alphabetic()))
        .unwrap_or(text);
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, unit) if unit.is_ascii_alphabetic() => (&text[..at], unit.to_ascii_uppercase()),
        _ => (text, 'M'),
    };
    let power = match unit {
        'K' => 1,
        'M' => 2,
        'G' => 3,
        'T' => 4,
        'P' => 5,
        _ => return None,
    };
    let is_numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = is_numeric.then(|| digits.parse().ok())??;
    let bytes = number * 1024f64.powi(power);
    // A size above 10^18 bytes is not plausible.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    (bytes <= 1e18).then_some(bytes as u64)
}

/// Formats a size for people: `1.5 GB`, where a kilobyte is 1024 bytes, as in Slurm.
pub(crate) fn size_in_words(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "the value is rounded for display")]
    let mut size = bytes as f64;
    for unit in ["bytes", "KB", "MB", "GB"] {
        if size < 1024.0 {
            return if unit == "bytes" || size.fract() < 0.05 {
                format!("{size:.0} {unit}")
            } else {
                format!("{size:.1} {unit}")
            };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TB")
}

/// Formats a time for people and for Slurm: `1-02:03:04`, without the days if there are none.
pub(crate) fn time_in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / DAY, seconds % DAY / HOUR, seconds % HOUR / MINUTE);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % MINUTE);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_sbatch_does() {
        for (text, seconds) in [
            ("5", Some(300)),
            ("5:30", Some(330)),
            ("1:00:00", Some(3600)),
            ("2-1", Some(2 * 86400 + 3600)),
            ("2-1:30", Some(2 * 86400 + 5400)),
            ("2-1:30:15", Some(2 * 86400 + 5415)),
            ("UNLIMITED", None),
            ("", None),
            ("-5", None),
            ("1:", None),
            ("1h", None),
            ("+5", None),
            ("99999999999999999999", None),
            ("99999999999999999-0", None),
        ] {
            assert_eq!(time(text), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(used_time("00:01.500"), Some(Duration::from_millis(1500)));
        assert_eq!(used_time("1-02:03:04"), time("1-02:03:04"));
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("10", Some(10 << 20)),
            ("10M", Some(10 << 20)),
            ("4G", Some(4 << 30)),
            ("4Gn", Some(4 << 30)),
            ("4GB", Some(4 << 30)),
            ("1.5g", Some(3 << 29)),
            ("1844K", Some(1844 << 10)),
            ("0", Some(0)),
            ("", None),
            ("G", None),
            ("-1G", None),
            ("4X", None),
            ("1e9", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!(
            [0, 1500, 10 << 20, 3 << 29].map(size_in_words),
            ["0 bytes", "1.5 KB", "10 MB", "1.5 GB"].map(str::to_owned)
        );
    }

    proptest! {
        #[test]
        fn a_written_time_is_read_back(seconds in 0u64..10_000_000) {
            let written = Duration::from_secs(seconds);
            prop_assert_eq!(time(&time_in_words(written)), Some(written));
        }

        #[test]
        fn nothing_that_is_read_panics(text in "\\PC*") {
            let _ = (time(&text), used_time(&text), size(&text));
        }
    }
}
