//! [`excerpt`]: the head and the tail of a text that is too long to show. It must not know where the full
//! text can be read.

/// Fraction of an excerpt that the tail gets. The reason of a failure is usually at the end.
const TAIL_SHARE: (usize, usize) = (3, 4);

/// Returns the head and the tail of a text that has more than `max_bytes` bytes, cut at character boundaries.
/// A line between them contains the number of omitted bytes and `full_text_hint`, which describes where to
/// read them. Returns `None` if the text fits.
///
/// The result has at most `max_bytes` bytes, including the line between them, unless that line alone is
/// longer.
pub fn excerpt(text: &str, max_bytes: usize, full_text_hint: &str) -> Option<String> {
    if text.len() <= max_bytes {
        return None;
    }
    let gap = |left_out: usize| format!("\n[... {left_out} bytes left out; {full_text_hint} ...]\n");
    let content_bytes = max_bytes.saturating_sub(gap(text.len()).len());
    let tail = content_bytes * TAIL_SHARE.0 / TAIL_SHARE.1;
    let head = &text[..text.floor_char_boundary(content_bytes - tail)];
    let tail = &text[text.ceil_char_boundary(text.len() - tail)..];
    Some(format!("{head}{}{tail}", gap(text.len() - head.len() - tail.len())))
}

/// Returns true if these bytes are mostly UTF-8 text: they contain no NUL, and at most one character in ten
/// is invalid.
pub fn is_mostly_text(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let invalid = text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count();
    !bytes.contains(&0) && invalid * 10 <= text.chars().count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn excerpt_keeps_head_and_tail() {
        let text = format!("first{}last", "x".repeat(1000));
        let short = excerpt(&text, 200, "read the log").unwrap();
        assert!(short.starts_with("first") && short.ends_with("last"), "{short}");
        assert!(short.contains(" bytes left out; read the log ...]\n"), "{short}");
        assert_eq!(excerpt("fits", 4, ""), None);
    }

    #[test]
    fn binary_bytes_are_not_text() {
        assert!(is_mostly_text(b"plain") && is_mostly_text("Grüße".as_bytes()) && is_mostly_text(b""));
        assert!(is_mostly_text(b"a latin-1 caf\xe9 among words"));
        assert!(!is_mostly_text(b"\x7fELF\x02\x01\x01\x00\x00") && !is_mostly_text(&[0xff; 20]));
    }

    proptest! {
        #[test]
        fn excerpt_fits_its_limit(text in ".{0,400}", max in 60_usize..300) {
            let short = excerpt(&text, max, "w");
            prop_assert_eq!(short.is_some(), text.len() > max);
            prop_assert!(short.is_none_or(|short| short.len() <= max));
        }
    }
}
