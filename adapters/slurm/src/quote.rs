//! Texts as shells read them back: each quoted text is exactly one word, whatever it holds. It must not know what the
//! words are for.

use std::fmt::Write as _;

/// One word for any POSIX shell.
pub(crate) fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// One word for bash that never spans a line: `$'..'`, in which a line break is written as `\n`.
pub(crate) fn line_word(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.push_str("$'");
    for c in text.chars() {
        match c {
            '\\' => quoted.push_str(r"\\"),
            '\'' => quoted.push_str(r"\'"),
            '\n' => quoted.push_str(r"\n"),
            // Three digits, so that a digit behind them is not read with them.
            c if c.is_ascii_control() => write!(quoted, "\\{:03o}", u32::from(c)).unwrap_or_default(),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// The line by which bash has these words as its own arguments.
pub(crate) fn set(words: &[String]) -> String {
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

    /// What bash makes of words, each followed by a byte that no text holds.
    fn read_by_bash(words: &[String]) -> Vec<String> {
        let script = format!("printf '%s\\0' {}", words.join(" "));
        let printed = Command::new("bash").args(["--noprofile", "--norc", "-c", &script]).output().unwrap();
        assert!(printed.status.success());
        let text = String::from_utf8(printed.stdout).unwrap();
        text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
    }

    #[test]
    fn bash_reads_back_what_was_quoted() {
        assert_eq!(read_by_bash(&NASTY.map(word)), NASTY);
        assert_eq!(read_by_bash(&NASTY.map(line_word)), NASTY);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_text_is_one_word(texts in prop::collection::vec("[^\0]*", 1..40)) {
            let words: Vec<_> = texts.iter().map(|text| line_word(text)).collect();
            prop_assert!(words.iter().all(|word| !word.contains('\n')));
            prop_assert_eq!(&read_by_bash(&words), &texts);
            let words: Vec<_> = texts.iter().map(|text| word(text)).collect();
            prop_assert_eq!(&read_by_bash(&words), &texts);
        }
    }
}
