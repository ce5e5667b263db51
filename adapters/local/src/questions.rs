//! What a job asks, and what it is told: files in `$TASKBRIDGE_QUESTIONS`. It must not decide what an answer means.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Question, Taken};

use crate::files::Draft;
use crate::job_dir::{JobDir, Life, read_json};

/// The largest question or answer, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// A question as the job writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    message: String,
    #[serde(default = "no_fields")]
    schema: Map<String, Value>,
}

/// The form of a question that is answered by accepting or declining it.
fn no_fields() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object")), ("properties".to_owned(), json!({}))])
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
        if answer_path(dir, id).exists() {
            continue;
        }
        match read_json::<Asked>(&question_path(dir, id), LARGEST) {
            Ok(Some((Asked { message, schema }, asked))) => {
                found.push((asked, Question::form(id, message, schema.into())));
            }
            Ok(None) => {}
            Err(e) => complaint = Some(format!("the job's question {id}.json cannot be asked: {e}")),
        }
    }
    found.sort_by(|(a, p), (b, q)| a.cmp(b).then_with(|| p.id.cmp(&q.id)));
    Ok(Open { questions: found.into_iter().map(|(_, question)| question).collect(), complaint })
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
