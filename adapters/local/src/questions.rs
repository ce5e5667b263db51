//! What a job asks, and what it is told: files in `$TASKBRIDGE_QUESTIONS`. It must not decide what an answer means.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Ask, Question, Taken};

use crate::files::Draft;
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

/// `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Asked {
    fn question(self, id: &str) -> Result<Question, &'static str> {
        let ask = match (self.schema, self.url, self.sampling, self.roots) {
            (None, None, None, None) => Ask::Form(json!({"type": "object", "properties": {}})),
            (Some(schema), None, None, None) => Ask::Form(schema.into()),
            (None, Some(url), None, None) => Ask::Url(url),
            (None, None, Some(request), None) => Ask::Sampling(request),
            (None, None, None, Some(Nothing {})) => Ask::Roots,
            _ => return Err("it must have one of `schema`, `url`, `sampling` and `roots`"),
        };
        Ok(Question { id: id.to_owned(), message: self.message, ask })
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
        let name = entry?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".json")).filter(|id| is_id(id))
        else {
            continue;
        };
        let read = read_json::<Asked>(&question_path(dir, id), LARGEST);
        let question = read.map(|read| read.map(|(asked, written)| (written, asked.question(id))));
        let answered = answer_path(dir, id).exists();
        let mut complain = |why: &dyn Display| {
            complaint = Some(format!("the job's question {id}.json cannot be asked: {why}"));
        };
        match question {
            Ok(Some((written, Ok(question)))) if !answered || is_visited(dir, &question)? => {
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
fn is_visited(dir: &JobDir, question: &Question) -> io::Result<bool> {
    let Ask::Url(_) = question.ask else { return Ok(false) };
    let answer = read_json::<Answer>(&answer_path(dir, &question.id), LARGEST)?;
    Ok(matches!(answer, Some((Answer::Accept(_), _))))
}

/// Hands an answer to the job. The first one stands.
pub(crate) fn answer(dir: &JobDir, id: &str, answer: &Answer) -> io::Result<Taken> {
    if !is_id(id) {
        return Ok(Taken::TooLate);
    }
    let path = answer_path(dir, id);
    let earlier = || read_json::<Answer>(&path, LARGEST).map(|found| found.map(|(earlier, _)| earlier));
    let same = |earlier: &Answer| if earlier == answer { Taken::Accepted } else { Taken::TooLate };
    if let Some(earlier) = earlier()? {
        return Ok(same(&earlier));
    }
    let listens = matches!(dir.life()?, Life::Supervised { .. }) && dir.ended()?.is_none();
    if !listens || !question_path(dir, id).exists() {
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

fn is_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn question_path(dir: &JobDir, id: &str) -> PathBuf {
    dir.told("questions").join(format!("{id}.json"))
}

fn answer_path(dir: &JobDir, id: &str) -> PathBuf {
    dir.told("questions").join(format!("{id}.answer.json"))
}
