//! Quotes text for shells: each quoted text is exactly one word, whatever it contains. It must not know what
//! the words are for.

use std::fmt::Write as _;

/// Quotes text as one word for any POSIX shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Quotes text as one word for bash on a single line: `$'..'`, in which a line break is written as `\n`.
pub(crate) fn line_word(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.push_str("$'");
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str(r"\\"),
            '\'' => quoted.push_str(r"\'"),
            '\n' => quoted.push_str(r"\n"),
            // Always three digits, so that a following digit is not part of the escape.
            c if c.is_ascii_control() => write!(quoted, "\\{:03o}", u32::from(c)).unwrap_or_default(),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Returns the bash command that sets these words as positional parameters.
pub(crate) fn set_arguments(words: &[String]) -> String {
    let mut line = "set --".to_owned();
    for word in words {
        line.push(' ');
        line.push_str(&line_word(word));
    }
    line
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const NASTY: [&str; 14] = [
        "",
        " ",
        "plain",
        "it's",
        "\"quoted\"",
        "$(touch /tmp/x)",
        "`id`",
        "a\nb",
        "-rf",
        "--",
        "\\",
        "\\n$'x'",
        "tab\tbell\u{7}1",
        "ä€😀\u{200b}",
    ];

    /// Returns the words as bash reads them. The separator is a byte that no text contains.
    fn read_by_bash(words: &[String]) -> Vec<String> {
        let script = format!("printf '%s\\0' {}", words.join(" "));
        let printed = Command::new("bash").args(["--noprofile", "--norc", "-c", &script]).output().unwrap();
        assert!(printed.status.success());
        let text = String::from_utf8(printed.stdout).unwrap();
        text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn quoted_text_round_trips_through_bash() {
        assert_eq!(read_by_bash(&NASTY.map(word)), NASTY);
        assert_eq!(read_by_bash(&NASTY.map(line_word)), NASTY);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_text_is_quoted_as_word(texts in prop::collection::vec("[^\0]*", 1..40)) {
            let words: Vec<_> = texts.iter().map(|text| line_word(text)).collect();
            prop_assert!(words.iter().all(|word| !word.contains('\n')));
            prop_assert_eq!(&read_by_bash(&words), &texts);
            let words: Vec<_> = texts.iter().map(|text| word(text)).collect();
            prop_assert_eq!(&read_by_bash(&words), &texts);
        }
    }
}
