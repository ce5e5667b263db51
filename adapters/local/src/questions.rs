//! Questions of a job and their answers: files in `$TASKBRIDGE_QUESTIONS`. It must not decide what an answer
//! means.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, AnswerOutcome, Ask, Question};

use crate::files::{self, Draft, read_json};
use crate::store::job_dir::{JobDir, SupervisorState};

/// Maximum size of a question or answer, and of all open questions of a job together, in bytes. A parsed
/// question takes more memory than its file, and each poll reads all of them.
const MAX_TOTAL_BYTES: u64 = 1024 * 1024;

/// Maximum size of a question that is read again after its answer, in bytes. It may be a page that a person
/// is visiting.
const MAX_PAGE_BYTES: u64 = 32 * 1024;

/// Maximum size of the answer to such a question, in bytes. It contains nothing but an accept.
const MAX_PAGE_ANSWER_BYTES: u64 = 256;

/// Maximum number of open questions, which equals the limit of the server.
const MAX_OPEN: usize = 64;

/// Maximum number of files in the folder that are read.
const MAX_FILES: usize = 10_000;

/// Question as the job writes it. At most one kind of answer is set; without any, it is a form without
/// fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionFile {
    message: String,
    schema: Option<Map<String, Value>>,
    url: Option<String>,
    sampling: Option<Map<String, Value>>,
    roots: Option<EmptyObject>,
}

/// Unlimited, because an id never names another question: see [`id`].
pub(crate) const LIST_LAG: Duration = Duration::MAX;

/// The JSON value `{}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyObject {}

impl QuestionFile {
    fn into_question(self, id: String) -> Result<Question, &'static str> {
        let ask = match (self.schema, self.url, self.sampling, self.roots) {
            (None, None, None, None) => Ask::Form(json!({"type": "object", "properties": {}})),
            (Some(schema), None, None, None) => Ask::Form(schema.into()),
            (None, Some(url), None, None) => Ask::Url(url),
            (None, None, Some(request), None) => Ask::Sampling(request),
            (None, None, None, Some(EmptyObject {})) => Ask::Roots,
            _ => return Err("only one of `schema`, `url`, `sampling` and `roots` may be set"),
        };
        Ok(Question { id, message: self.message, ask })
    }
}

/// Open questions of a job, oldest first, and a message about a question that cannot be asked.
#[derive(Default)]
pub(crate) struct OpenQuestions {
    pub(crate) questions: Vec<Question>,
    pub(crate) problem: Option<String>,
}

/// Returns the questions without an answer. A job can write any number and size of them: only the oldest are
/// read, up to the limits.
pub(crate) fn list_open(dir: &JobDir) -> io::Result<OpenQuestions> {
    let mut open_questions = OpenQuestions::default();
    let (mut open_count, mut remaining_bytes) = (0, MAX_TOTAL_BYTES);
    for file in list_question_files(dir, &mut open_questions.problem)? {
        let is_answered = fs::symlink_metadata(answer_path(dir, &file.name)).is_ok();
        if is_answered && !is_visited(dir, &file)? {
            continue;
        }
        open_count += 1;
        if open_questions.questions.len() == MAX_OPEN {
            continue;
        }
        match read(dir, &file, remaining_bytes) {
            Ok(Some((question, bytes))) => {
                open_questions.questions.push(question);
                remaining_bytes = remaining_bytes.saturating_sub(bytes);
            }
            Ok(None) => {}
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                open_questions.problem =
                    Some(format!("the job's question {}.json cannot be asked: {e}", file.name));
                // If it was read, it counts, so that one poll never reads more than the limit.
                remaining_bytes = remaining_bytes.checked_sub(file.length).unwrap_or(remaining_bytes);
            }
            Err(e) => return Err(e),
        }
    }
    if open_count > MAX_OPEN {
        let too_many =
            || format!("the job asks {open_count} questions, and at most {MAX_OPEN} are open at once");
        open_questions.problem.get_or_insert_with(too_many);
    }
    Ok(open_questions)
}

/// A file that may be a question.
struct QuestionFileInfo {
    modified: SystemTime,
    name: String,
    length: u64,
}

/// Returns the files whose names are those of questions, oldest first.
fn list_question_files(dir: &JobDir, problem: &mut Option<String>) -> io::Result<Vec<QuestionFileInfo>> {
    let entries = match fs::read_dir(dir.provided_path("questions")) {
        Ok(entries) => entries,
        // The job owns the folder. If it removes it, it has no questions.
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut question_files = Vec::new();
    for (number, entry) in entries.enumerate() {
        if number == MAX_FILES {
            *problem = Some(format!(
                "the job's folder questions has more than {MAX_FILES} files, and the rest is not read"
            ));
            break;
        }
        let entry = entry?;
        let file = entry.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(".json")).filter(|name| is_name(name));
        // A question that was removed in the meantime is no longer asked.
        if let (Some(name), Ok(metadata)) = (name, entry.metadata()) {
            question_files.push(QuestionFileInfo {
                modified: metadata.modified()?,
                name: name.to_owned(),
                length: metadata.len(),
            });
        }
    }
    question_files.sort_by(|a, b| a.modified.cmp(&b.modified).then_with(|| a.name.cmp(&b.name)));
    Ok(question_files)
}

/// Reads a question and returns its size in bytes. The size must not exceed what is left for all questions.
/// Returns `None` if the question was removed in the meantime.
fn read(dir: &JobDir, file: &QuestionFileInfo, remaining_bytes: u64) -> io::Result<Option<(Question, u64)>> {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidData, message);
    if file.length > remaining_bytes && file.length <= MAX_TOTAL_BYTES {
        return Err(invalid(format!(
            "{}.json has {} bytes, and all open questions of a job may have {MAX_TOTAL_BYTES}",
            file.name, file.length
        )));
    }
    let max_bytes = if file.length > MAX_TOTAL_BYTES { MAX_TOTAL_BYTES } else { remaining_bytes };
    let Some(content) = files::read(&question_path(dir, &file.name), max_bytes)? else { return Ok(None) };
    let parsed: QuestionFile =
        taskbridge_sdk::from_json(&content.bytes).map_err(|e| invalid(e.to_string()))?;
    let question = parsed
        .into_question(id(&file.name, content.modified))
        .map_err(|message| invalid(message.to_owned()))?;
    Ok(Some((question, content.bytes.len() as u64)))
}

/// Returns true for a page that a person agreed to visit. The visit ends when the job removes its question.
fn is_visited(dir: &JobDir, file: &QuestionFileInfo) -> io::Result<bool> {
    // Both files have low limits, so that answered questions cost little.
    if file.length > MAX_PAGE_BYTES {
        return Ok(false);
    }
    let answer = match read_json::<Answer>(&answer_path(dir, &file.name), MAX_PAGE_ANSWER_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
        answer => answer?,
    };
    if !matches!(answer, Some((Answer::Accept(_), _))) {
        return Ok(false);
    }
    match read(dir, file, MAX_PAGE_BYTES) {
        Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(false),
        question => Ok(question?.is_some_and(|(question, _)| matches!(question.ask, Ask::Url(_)))),
    }
}

/// Writes an answer for the job. The first answer is final.
pub(crate) fn answer(dir: &JobDir, id: &str, answer: &Answer) -> io::Result<AnswerOutcome> {
    // Ids of earlier versions consist of the name alone.
    let name = id.split_once('.').map_or(id, |(name, _)| name);
    if !is_name(name) {
        return Ok(AnswerOutcome::TooLate);
    }
    let path = answer_path(dir, name);
    let read_stored_answer = || {
        read_json::<Answer>(&path, MAX_TOTAL_BYTES)
            .map(|found| found.map(|(read_stored_answer, _)| read_stored_answer))
    };
    let compare = |read_stored_answer: &Answer| {
        if read_stored_answer == answer { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate }
    };
    let modified_at = files::modified(&question_path(dir, name))?;
    let is_asked = modified_at.is_some_and(|at| id == name || id == self::id(name, at));
    // The file may already contain the next question, to which this answer does not belong.
    if modified_at.is_some() && !is_asked {
        return Ok(AnswerOutcome::TooLate);
    }
    if let Some(read_stored_answer) = read_stored_answer()? {
        return Ok(compare(&read_stored_answer));
    }
    let is_supervised =
        matches!(dir.supervisor_state()?, SupervisorState::Supervised { .. }) && dir.ended_at()?.is_none();
    if !is_supervised || !is_asked {
        return Ok(AnswerOutcome::TooLate);
    }
    // One line without spaces, so that a shell script can search it with grep.
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    match Draft::new(&path, &line)?.publish_first()? {
        Some(_) => Ok(AnswerOutcome::Accepted),
        None => Ok(read_stored_answer()?.as_ref().map_or(AnswerOutcome::TooLate, compare)),
    }
}

/// Returns an id from the file's name and its modification time. A question that the job writes later under
/// the same name is a new one.
fn id(name: &str, modified_at: SystemTime) -> String {
    format!("{name}.{}", modified_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())
}

fn is_name(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
}

fn question_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.provided_path("questions").join(format!("{name}.json"))
}

fn answer_path(dir: &JobDir, name: &str) -> PathBuf {
    dir.provided_path("questions").join(format!("{name}.answer.json"))
}
