//! [`Problem`]: one error in a config file, with a message that includes the fix.

use std::fmt;
use std::path::PathBuf;

/// One error in a config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` if the error is about the whole file.
    pub line: Option<usize>,
    /// The field, such as `tools.hash_tree.backend`; empty if the error is about the whole file.
    pub field: String,
    /// The error and its fix.
    pub message: String,
}

/// All errors in a config file, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Returns the most similar known name, if one is similar enough to suggest.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(name.len()) / 5)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "`a`, `b`, `c`"
pub(in crate::config) fn quoted_list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Formats the error for an unknown name.
pub(in crate::config) fn unknown_name(what: &str, name: &str, known: &[&str]) -> String {
    let hint = nearest(name, known.iter().copied()).map(|candidate| format!("; did you mean `{candidate}`?"));
    let choices = match known {
        [] => format!("there is no {what}"),
        _ => format!("known: {}", quoted_list(known.iter().copied())),
    };
    format!("unknown {what} `{name}`{} ({choices})", hint.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A misspelled field suggests a known one only if they are similar.
    #[test]
    fn field_suggestion_must_be_near() {
        assert_eq!(nearest("lisen", ["listen", "allowed_hosts"]), Some("listen"));
        assert_eq!(nearest("Listne", ["listen"]), Some("listen"));
        assert_eq!(nearest("port", ["listen", "page_size"]), None);
    }
}
