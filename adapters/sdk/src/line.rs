//! Words of somebody else as a line within a sentence of ours.

/// The longest part of an engine's words that is passed on, in characters.
const LONGEST: usize = 500;

/// Text as one line, and not too long.
pub fn one_line(text: &str) -> String {
    short_line(text.trim(), LONGEST)
}

/// Text as one line of at most so many characters, with a mark where more was cut off.
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
    fn long_words_become_one_short_line() {
        let line = one_line(&format!(" a\nb{}", "ä".repeat(999)));
        assert!(line.starts_with("a bä") && line.ends_with('…') && line.chars().count() == LONGEST + 1);
        assert_eq!(one_line("\tas it is \n"), "as it is");
        assert_eq!((short_line("äöü", 3), short_line("äöü", 2)), ("äöü".to_owned(), "äö…".to_owned()));
    }
}
