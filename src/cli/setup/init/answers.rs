//! Fills in the template of an engine with flags, and with answers from a terminal. It must not know the
//! engines.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use super::engines::{Engine, Question};

/// Maximum length of an answer, in bytes.
const MAX_BYTES: usize = 1_000;

/// Maximum number of attempts for one question.
const MAX_ATTEMPTS: usize = 10;

/// The terminal of the user.
pub(super) struct Prompt(());

impl Prompt {
    /// Returns the terminal. `None` if input or messages are redirected: then nothing is asked.
    pub(super) fn of_terminal() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self(()))
    }

    /// Asks until the answer is valid.
    pub(super) fn ask<T>(
        &self,
        question: &str,
        default: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        let hint = default.map(|default| format!(" [{default}]")).unwrap_or_default();
        for _ in 0..MAX_ATTEMPTS {
            let mut out = io::stderr().lock();
            let _ = write!(out, "{question}{hint} ").and_then(|()| out.flush());
            drop(out);
            let mut line = String::new();
            let count = io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
            if count == 0 {
                return Err("nothing was written: the input has ended".to_owned());
            }
            let answer = match (line.trim(), default) {
                ("", Some(default)) => default,
                (answer, _) => answer,
            };
            match parse(answer) {
                Ok(value) => return Ok(value),
                Err(problem) => crate::cli::print_error(&format!("  {problem}")),
            }
        }
        Err("nothing was written: too many invalid answers".to_owned())
    }
}

/// Returns the config of an engine.
///
/// # Errors
/// If an answer is missing or not valid; the text names its flag.
pub(super) fn fill<'a>(
    engine: &Engine,
    flag: impl Fn(&str) -> Option<&'a str>,
    prompt: Option<&Prompt>,
) -> Result<String, String> {
    let mut answers = Vec::new();
    for question in engine.questions {
        answers.push((question, answer(question, flag(question.name), prompt)?));
    }
    Ok(engine.template.lines().map(|line| filled(line, &answers) + "\n").collect())
}

/// Returns the answer to a question. `None`: its flag is optional, and was not given.
fn answer(
    question: &Question,
    flag: Option<&str>,
    terminal: Option<&Prompt>,
) -> Result<Option<String>, String> {
    match (flag, question.prompt, terminal) {
        (Some(given), ..) => {
            check(question, given).map_err(|problem| format!("--{} {given}: {problem}", question.name))
        }
        (None, None, _) => return Ok(None),
        (None, Some(asked), Some(terminal)) => {
            terminal.ask(asked, question.default, |answer| check(question, answer))
        }
        (None, Some(asked), None) => match question.default {
            Some(default) => Ok(default.to_owned()),
            None => Err(format!("--{} is missing: {asked}", question.name)),
        },
    }
    .map(Some)
}

/// Returns a line of the template with the answer in its place, once: what an answer contains is no place. The
/// line of an optional flag is a comment, which becomes part of the config if the flag was given.
fn filled(line: &str, answers: &[(&Question, Option<String>)]) -> String {
    for (question, answer) in answers {
        let place = format!("@{}@", question.name);
        if !line.contains(&place) {
            continue;
        }
        let (line, value) = match answer {
            Some(answer) => (line.strip_prefix("# ").unwrap_or(line), answer.as_str()),
            None => (line, question.default.unwrap_or_default()),
        };
        // A quoted TOML string: an answer cannot add anything else to the file.
        return line.replace(&place, &toml::Value::from(value).to_string());
    }
    line.to_owned()
}

fn check(question: &Question, answer: &str) -> Result<String, String> {
    match answer {
        "" => Err("an answer is needed".to_owned()),
        _ if answer.len() > MAX_BYTES => Err(format!("at most {MAX_BYTES} bytes")),
        _ if answer.chars().any(char::is_control) => Err("control characters are not allowed".to_owned()),
        _ if !(question.is_valid)(answer) => Err(question.expected.to_owned()),
        _ => Ok(answer.to_owned()),
    }
}
