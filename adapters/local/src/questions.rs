//! Questions of a job and their answers: files in `$TASKBRIDGE_QUESTIONS`. It must not decide what an answer
//! means.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Ask, Question, Taken};

use crate::files::{self, Draft, read_json};
use crate::job_dir::{JobDir, SupervisorState};

/// Maximum size of a question or answer, and of all open questions of a job together, in bytes. A parsed
/// question takes more memory than its file, and each poll reads all of them.
const LARGEST: u64 = 1024 * 1024;

/// Maximum size of a question that is read again after its answer, in bytes. It may be a page that a person
/// is visiting.
const LARGEST_PAGE: u64 = 32 * 1024;

/// Maximum size of the answer to such a question, in bytes. It contains nothing but an accept.
const SMALLEST_ANSWER: u64 = 256;

/// Maximum number of open questions, which equals the limit of the server.
const MOST_OPEN: usize = 64;

/// Maximum number of files in the folder that are read.
const MOST_FILES: usize = 10_000;

/// Question as the job writes it. At most one kind of answer is set; without any, it is a form without
/// fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionFile {
    message: String,
    schema: Option<Map<String, Value>>,
    url: Option<String>,
    sampling: Option<Map<String, Value>>,
    roots: Option<Nothing>,
}

/// Unlimited, because an id never names another question: see [`id`].
pub(crate) const LIST_LAG: Duration = Duration::MAX;

/// The JSON value `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl QuestionFile {
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

/// Open questions of a job, oldest first, and a message about a question that cannot be asked.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    pub(crate) questions: Vec<Question>,
    pub(crate) complaint: Option<String>,
}

/// Returns the questions without an answer. A job can write any number and size of them: only the oldest are
/// read, up to the limits.
pub(crate) fn open(dir: &JobDir) -> io::Result<OpenQuestions> {
    let mut open = OpenQuestions::default();
    let (mut asked, mut left) = (0, LARGEST);
    for file in written(dir, &mut open.complaint)? {
        let is_answered = fs::symlink_metadata(answer_path(dir, &file.name)).is_ok();
        if is_answered && !is_visited(dir, &file)? {
            continue;
        }
        asked += 1;
        if open.questions.len() == MOST_OPEN {
            continue;
        }
        match read(dir, &file, left) {
            Ok(Some((question, bytes))) => {
                open.questions.push(question);
                left = left.saturating_sub(bytes);
            }
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                open.complaint = Some(format!("the job's question {}.json cannot be asked: {e}", file.name));
                // If it was read, it counts, so that one poll never reads more than the limit.
                left = left.checked_sub(file.length).unwrap_or(left);
            }
            Err(e) => return Err(e),
        }
    }
    if asked > MOST_OPEN {
        let too_many = || format!("the job asks {asked} questions, and at most {MOST_OPEN} are open at once");
        open.complaint.get_or_insert_with(too_many);
    }
    Ok(open)
}

/// A file that may be a question.
struct Written {
    at: SystemTime,
    name: String,
    length: u64,
}

/// Returns the files whose names are those of questions, oldest first.
fn written(dir: &JobDir, complaint: &mut Option<String>) -> io::Result<Vec<Written>> {
    let entries = match fs::read_dir(dir.provided_path("questions")) {
        Ok(entries) => entries,
        // The job owns the folder. If it removes it, it has no questions.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for (number, entry) in entries.enumerate() {
        if number == MOST_FILES {
            *complaint = Some(format!(
                "the job's folder questions has more than {MOST_FILES} files, and the rest is not read"
            ));
            break;
        }
        let entry = entry?;
        let file = entry.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".json")).filter(|name| is_name(name));
        // A question that was removed in the meantime is no longer asked.
        if let (Some(name), Ok(metadata)) = (name, entry.metadata()) {
            found.push(Written { at: metadata.modified()?, name: name.to_owned(), length: metadata.len() });
        }
    }
    found.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

/// Reads a question and returns its size in bytes. The size must not exceed what is left for all questions.
/// Returns `None` if the question was removed in the meantime.
fn read(dir: &JobDir, file: &Written, left: u64) -> io::Result<Option<(Question, u64)>> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if file.length > left && file.length <= LARGEST {
        return Err(invalid(format!(
            "{}.json has {} bytes, and all open questions of a job may have {LARGEST}",
            file.name, file.length
        )));
    }
    let most = if file.length > LARGEST { LARGEST } else { left };
    let Some(content) = files::read(&question_path(dir, &file.name), most)? else { return Ok(None) };
    let asked: QuestionFile =
        taskbridge_sdk::from_json(&content.bytes).map_err(|e| invalid(e.to_string()))?;
    let question = asked.question(id(&file.name, content.modified)).map_err(|why| invalid(why.to_owned()))?;
    Ok(Some((question, content.bytes.len() as u64)))
}

/// Returns true for a page that a person agreed to visit. The visit ends when the job removes its question.
fn is_visited(dir: &JobDir, file: &Written) -> io::Result<bool> {
    // Both files have low limits, so that answered questions cost little.
    if file.length > LARGEST_PAGE {
        return Ok(false);
    }
    let answer = match read_json::<Answer>(&answer_path(dir, &file.name), SMALLEST_ANSWER) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
        answer => answer?,
    };
    if !matches!(answer, Some((Answer::Accept(_), _))) {
        return Ok(false);
    }
    match read(dir, file, LARGEST_PAGE) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(false),
        question => Ok(question?.is_some_and(|(question, _)| matches!(question.ask, Ask::Url(_)))),
    }
}

/// Writes an answer for the job. The first answer is final.
pub(crate) fn answer(dir: &JobDir, id: &str, answer: &Answer) -> io::Result<Taken> {
    // Ids of earlier versions consist of the name alone.
    let name = id.split_once('.').map_or(id, |(name, _)| name);
    if !is_name(name) {
        return Ok(Taken::TooLate);
    }
    let path = answer_path(dir, name);
    let earlier = || read_json::<Answer>(&path, LARGEST).map(|found| found.map(|(earlier, _)| earlier));
    let same = |earlier: &Answer| if earlier == answer { Taken::Accepted } else { Taken::TooLate };
    let written = files::modified(&question_path(dir, name))?;
    let is_asked = written.is_some_and(|at| id == name || id == self::id(name, at));
    // The file may already contain the next question, to which this answer does not belong.
    if written.is_some() && !is_asked {
        return Ok(Taken::TooLate);
    }
    if let Some(earlier) = earlier()? {
        return Ok(same(&earlier));
    }
    let listens =
        matches!(dir.supervisor_state()?, SupervisorState::Supervised { .. }) && dir.ended()?.is_none();
    if !listens || !is_asked {
        return Ok(Taken::TooLate);
    }
    // One line without spaces, so that a shell script can search it with grep.
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    match Draft::new(&path, &line)?.publish_first()? {
        Some(_) => Ok(Taken::Accepted),
        None => Ok(earlier()?.as_ref().map_or(Taken::TooLate, same)),
    }
}

/// Returns an id from the file's name and its modification time. A question that the job writes later under
/// the same name is a new one.
fn id(name: &str, written: SystemTime) -> String {
    format!("{name}.{}", written.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn question_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.provided_path("questions").join(format!("{name}.json"))
}

fn answer_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.provided_path("questions").join(format!("{name}.answer.json"))
}
