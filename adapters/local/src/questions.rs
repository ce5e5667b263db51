//! What a job asks, and what it is told: files in `$TASKBRIDGE_QUESTIONS`. It must not decide what an answer means.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Ask, Question, Taken};

use crate::files::{self, Draft};
use crate::job_dir::{JobDir, Life, read_json};

/// The largest question or answer, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// A question as the job writes it: what is wanted is one of the options, and a form without fields if none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    message: String,
    schema: Option<Map<String, Value>>,
    url: Option<String>,
    sampling: Option<Map<String, Value>>,
    roots: Option<Nothing>,
}

/// An id never names another question: see [`id`].
pub(crate) const LIST_LAG: Duration = Duration::MAX;

/// `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Asked {
    fn question(self, id: String) -> Result<Question, &'static str> {
        let ask = match (self.schema, self.url, self.sampling, self.roots) {
            (None, None, None, None) => Ask::Form(json!({"type": "object", "properties": {}})),
            (Some(schema), None, None, None) => Ask::Form(schema.into()),
            (None, Some(url), None, None) => Ask::Url(url),
            (None, None, Some(request), None) => Ask::Sampling(request),
            (None, None, None, Some(Nothing {})) => Ask::Roots,
            _ => return Err("it must have one of `schema`, `url`, `sampling` and `roots`"),
        };
        Ok(Question { id, message: self.message, ask })
    }
}

/// What a job waits to be told, oldest first, and what is wrong with a question that cannot be asked.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) questions: Vec<Question>,
    pub(crate) complaint: Option<String>,
}

/// The questions without an answer.
pub(crate) fn open(dir: &JobDir) -> io::Result<Open> {
    let mut found: Vec<(SystemTime, Question)> = Vec::new();
    let mut complaint = None;
    let entries = match fs::read_dir(dir.told("questions")) {
        Ok(entries) => entries,
        // The folder is the job's: if it removes it, it asks nothing.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Open::default());
        }
        Err(e) => return Err(e),
    };
    for entry in entries {
        let file = entry?.file_name();
        let Some(name) =
            file.to_str().and_then(|file| file.strip_suffix(".json")).filter(|name| is_name(name))
        else {
            continue;
        };
        let read = read_json::<Asked>(&question_path(dir, name), LARGEST);
        let question = read.map(|read| read.map(|(asked, at)| (at, asked.question(id(name, at)))));
        let answered = answer_path(dir, name).exists();
        let mut complain = |why: &dyn Display| {
            complaint = Some(format!("the job's question {name}.json cannot be asked: {why}"));
        };
        match question {
            Ok(Some((written, Ok(question)))) if !answered || is_visited(dir, name, &question)? => {
                found.push((written, question));
            }
            _ if answered => {}
            Ok(Some((_, Ok(_))) | None) => {}
            Ok(Some((_, Err(why)))) => complain(&why),
            Err(e) => complain(&e),
        }
    }
    found.sort_by(|(a, p), (b, q)| a.cmp(b).then_with(|| p.id.cmp(&q.id)));
    Ok(Open { questions: found.into_iter().map(|(_, question)| question).collect(), complaint })
}

/// True if it is a page that somebody agreed to visit: the visit is over once the job removes its question.
fn is_visited(dir: &JobDir, name: &str, question: &Question) -> io::Result<bool> {
    let Ask::Url(_) = question.ask else { return Ok(false) };
    let answer = read_json::<Answer>(&answer_path(dir, name), LARGEST)?;
    Ok(matches!(answer, Some((Answer::Accept(_), _))))
}

/// Hands an answer to the job. The first one stands.
pub(crate) fn answer(dir: &JobDir, id: &str, answer: &Answer) -> io::Result<Taken> {
    // Ids of earlier versions are names alone.
    let name = id.split_once('.').map_or(id, |(name, _)| name);
    if !is_name(name) {
        return Ok(Taken::TooLate);
    }
    let path = answer_path(dir, name);
    let earlier = || read_json::<Answer>(&path, LARGEST).map(|found| found.map(|(earlier, _)| earlier));
    let same = |earlier: &Answer| if earlier == answer { Taken::Accepted } else { Taken::TooLate };
    let written = files::modified(&question_path(dir, name))?;
    let is_asked = written.is_some_and(|at| id == name || id == self::id(name, at));
    // The file may hold the next question by now, which this answer was not given to.
    if written.is_some() && !is_asked {
        return Ok(Taken::TooLate);
    }
    if let Some(earlier) = earlier()? {
        return Ok(same(&earlier));
    }
    let listens = matches!(dir.life()?, Life::Supervised { .. }) && dir.ended()?.is_none();
    if !listens || !is_asked {
        return Ok(Taken::TooLate);
    }
    // One line without blanks, so that a shell script can look for what it needs with grep.
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    match Draft::new(&path, &line)?.publish_first()? {
        Some(_) => Ok(Taken::Accepted),
        None => Ok(earlier()?.as_ref().map_or(Taken::TooLate, same)),
    }
}

/// The file's name and when it was written: what a job writes later under the same name is another question.
fn id(name: &str, written: SystemTime) -> String {
    format!("{name}.{}", written.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn question_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.told("questions").join(format!("{name}.json"))
}

fn answer_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.told("questions").join(format!("{name}.answer.json"))
}
