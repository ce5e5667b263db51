//! What a running job says of itself: the lines that it appends to `$TASKBRIDGE_EVENTS`. It must not know more of the
//! job than this file.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use taskbridge_sdk::Progress;

use crate::files;

/// How much of the file's end is looked at, so that a look costs the same however much a job says.
const WINDOW: u64 = 8 * 1024;

/// The longest message that is passed on, in characters.
const LONGEST: usize = 300;

/// The last that a job said of each.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) progress: Option<Progress>,
    pub(crate) message: Option<String>,
}

/// Reads the end of the file. A job that has said nothing, and a file that is none, are alike.
pub(crate) fn read(path: &Path) -> Said {
    window(path).map(|text| parse(&text)).unwrap_or_default()
}

fn window(path: &Path) -> io::Result<String> {
    let mut file = files::open_regular(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    file.take(WINDOW).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Only whole lines count: the last one may still be on its way, and the first of a window may be cut.
fn parse(text: &str) -> Said {
    let mut said = Said::default();
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    for line in whole.lines().rev() {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let message = match word {
            "message" => rest,
            "progress" => {
                let (numbers, message) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
                let Some(progress) = progress(numbers) else { continue };
                said.progress.get_or_insert(progress);
                message
            }
            _ => continue,
        };
        if said.message.is_none() && !message.trim().is_empty() {
            said.message = Some(one_line(message));
        }
        if said.progress.is_some() && said.message.is_some() {
            break;
        }
    }
    said
}

/// `3/9`, or `3` where the total is not known.
fn progress(text: &str) -> Option<Progress> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    match text.split_once('/') {
        Some((done, total)) => Some(Progress { done: number(done)?, total: Some(number(total)?) }),
        None => Some(Progress { done: number(text)?, total: None }),
    }
}

/// Text as a message: one line, and not too long.
pub(crate) fn one_line(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.trim().chars().take(LONGEST).map(plain).collect();
    if text.trim().chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(done: f64, total: Option<f64>, message: &str) -> Said {
        let message = (!message.is_empty()).then(|| message.to_owned());
        Said { progress: Some(Progress { done, total }), message }
    }

    #[test]
    fn the_last_of_each_counts() {
        assert_eq!(parse(""), Said::default());
        assert_eq!(parse("progress 1/9 one\nprogress 2/9\n"), said(2.0, Some(9.0), "one"));
        assert_eq!(parse("progress 0.5 half\nmessage now this\n"), said(0.5, None, "now this"));
        assert_eq!(
            parse("progress 3/9 x\nprogress 4/"),
            said(3.0, Some(9.0), "x"),
            "an unfinished line waits"
        );
        assert_eq!(parse("progress 3/9 x\nprogress nan\nprogress -1\nhello\n\n"), said(3.0, Some(9.0), "x"));
    }

    #[test]
    fn a_long_file_is_read_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        assert_eq!(read(&path), Said::default());
        let lines: String = (0..9999).map(|n| format!("progress {n}/9999 step {n}\n")).collect();
        std::fs::write(&path, lines).unwrap();
        assert_eq!(read(&path), said(9998.0, Some(9999.0), "step 9998"));
        assert_eq!(one_line(&"ä".repeat(999)).chars().count(), LONGEST + 1);
    }
}
