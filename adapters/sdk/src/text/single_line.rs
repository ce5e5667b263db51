//! Functions that shorten external text to one line, for use within our own messages. They must not be used
//! in place of [`crate::sanitize()`]: they replace control characters only.

/// Longest external text that is passed on, in characters.
const MAX_CHARS: usize = 500;

/// Returns the trimmed text as one line: [`short_line`] with 500 characters.
pub fn one_line(text: &str) -> String {
    short_line(text.trim(), MAX_CHARS)
}

/// Returns the first `max_chars` characters as one line, and one more as a mark if the text is longer. Each
/// control character, such as a line break, becomes a space.
pub fn short_line(text: &str, max_chars: usize) -> String {
    let replace_control = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(max_chars).map(replace_control).collect();
    if text.chars().nth(max_chars).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_becomes_short_line() {
        let line = one_line(&format!(" a\nb{}", "ä".repeat(999)));
        assert!(line.starts_with("a bä") && line.ends_with('…') && line.chars().count() == MAX_CHARS + 1);
        assert_eq!(one_line("\tas it is \n"), "as it is");
        assert_eq!((short_line("äöü", 3), short_line("äöü", 2)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
