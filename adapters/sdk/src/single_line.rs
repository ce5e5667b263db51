//! Functions that shorten external text to one line, for use within our own messages.

/// Longest external text that is passed on, in characters.
const LONGEST: usize = 500;

/// Returns the text as one line of at most 500 characters.
pub fn one_line(text: &str) -> String {
    short_line(text.trim(), LONGEST)
}

/// Returns the text as one line of at most `longest` characters, with a mark if more was cut off.
pub fn short_line(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(longest).map(plain).collect();
    if text.chars().nth(longest).is_some() {
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
        assert!(line.starts_with("a bä") && line.ends_with('…') && line.chars().count() == LONGEST + 1);
        assert_eq!(one_line("\tas it is \n"), "as it is");
        assert_eq!((short_line("äöü", 3), short_line("äöü", 2)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
