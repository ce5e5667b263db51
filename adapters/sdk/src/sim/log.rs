//! Selects the part of a job's lines that a reader gets. Pure functions.

use crate::{LogRequest, LogText};

/// Returns the end of `lines` that matches the request.
pub(super) fn end(lines: &[String], request: &LogRequest) -> LogText {
    let lines = lines.iter().map(String::as_str);
    match &request.search {
        None => tail(lines, request.max_bytes),
        Some(needle) => {
            let needle = needle.to_lowercase();
            tail(lines.filter(|line| line.to_lowercase().contains(&needle)), request.max_bytes)
        }
    }
}

/// Returns the last whole lines that fit into `max_bytes`. If the last line alone does not fit, returns its
/// end.
fn tail<'a>(lines: impl DoubleEndedIterator<Item = &'a str>, max_bytes: usize) -> LogText {
    let (mut selected, mut bytes, mut cut) = (Vec::new(), 0, false);
    for line in lines.rev() {
        if bytes + line.len() + 1 > max_bytes {
            cut = true;
            if selected.is_empty() && max_bytes > 0 {
                let mut start = line.len() + 1 - max_bytes;
                while !line.is_char_boundary(start) {
                    start += 1;
                }
                selected.push(&line[start..]);
            }
            break;
        }
        bytes += line.len() + 1;
        selected.push(line);
    }
    let text = selected.iter().rev().flat_map(|line| [*line, "\n"]).collect();
    LogText { text, cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_never_exceeds_its_bytes() {
        let lines = ["one", "zwei äöü", "three"];
        for max_bytes in 0..30 {
            let log = tail(lines.into_iter(), max_bytes);
            assert!(log.text.len() <= max_bytes, "{max_bytes}: {log:?}");
            assert_eq!(log.cut, max_bytes < 22, "{max_bytes}: {log:?}");
            assert!("one\nzwei äöü\nthree\n".ends_with(&log.text), "{max_bytes}: {log:?}");
        }
    }
}
