//! Tests for the read-only abilities: [`crate::Logs`], [`crate::Artifacts`], [`crate::Wakeups`].

use std::sync::Arc;

use tokio::time::timeout;

use super::{Fixture, Leaving, Printing, ended, made, offered, output, start, until_ended, wait};
use crate::{Backend, ErrorKind, JobHandle, LogRequest, LogText};

/// Checks that the backend offers exactly the abilities that its fixture claims.
pub async fn abilities_are_as_claimed<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    offered(F::CLAIMS.questions, backend.questions(), "questions");
    offered(F::CLAIMS.logs, backend.logs(), "logs");
    offered(F::CLAIMS.artifacts, backend.artifacts(), "artifacts");
    offered(F::CLAIMS.wakeups, backend.wakeups(), "wakeups");
    offered(F::CLAIMS.discovery, backend.discovery(), "discovery");
    offered(F::CLAIMS.checkup, backend.checkup(), "a check-up");
    offered(F::CLAIMS.hooks, backend.hooks(), "hooks");
}

/// A job that has printed its lines and ended.
struct Printed {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    lines: Vec<String>,
}

impl Printed {
    /// Runs the job of `prints`. Returns `None` if the fixture claims no logs.
    async fn by<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        offered(F::CLAIMS.logs, backend.logs(), "logs");
        let Printing { job, lines } = made(F::CLAIMS.logs, fixture.prints(), "prints")?;
        assert!(lines.len() >= 3, "the fixture's prints() has to print at least three lines");
        let (handle, seen) = ended(fixture, &*backend, &job).await;
        output(&seen.state);
        let printed = Self { backend, handle, lines };
        // Some engines need a while to deliver the last lines.
        let last = &printed.lines[printed.lines.len() - 1];
        wait(fixture, "the last line is in the log", async || {
            printed.tail(64 * 1024, None).await.text.trim_end().ends_with(last).then_some(())
        })
        .await;
        Some(printed)
    }

    async fn tail(&self, max_bytes: usize, search: Option<String>) -> LogText {
        let logs = self.backend.logs().expect("it was offered before");
        let log =
            logs.tail(&self.handle, &LogRequest { max_bytes, search }).await.expect("the log can be read");
        assert!(log.text.len() <= max_bytes, "{} bytes, with a limit of {max_bytes}", log.text.len());
        log
    }
}

/// Checks that the end of a log contains what the job printed.
pub async fn log_holds_what_was_printed<F: Fixture>(fixture: &F) {
    let Some(printed) = Printed::by(fixture).await else { return };
    let log = printed.tail(64 * 1024, None).await;
    let held: Vec<_> = log.text.lines().collect();
    let last = held.len().saturating_sub(printed.lines.len());
    assert_eq!(held.len() - last, printed.lines.len(), "{:?} is too short", log.text);
    for (held, line) in held[last..].iter().zip(&printed.lines) {
        assert!(held.ends_with(line.as_str()), "{:?} does not end with {:?}", log.text, printed.lines);
    }
}

/// Checks that a tail has at most the requested bytes, is cut at a line start, and reports that text was left
/// out.
pub async fn log_is_bounded_and_says_so<F: Fixture>(fixture: &F) {
    let Some(printed) = Printed::by(fixture).await else { return };
    let whole = printed.tail(64 * 1024, None).await.text;
    let last = whole.lines().next_back().expect("the log is not empty");
    let log = printed.tail(last.len() + 2, None).await;
    assert_eq!((log.text.trim_end(), log.cut), (last, true));
    for max_bytes in [0, 1, last.len() / 2] {
        assert!(printed.tail(max_bytes, None).await.cut, "cut to {max_bytes} bytes");
    }
}

/// Checks that a search keeps only the lines that contain the text, regardless of case.
pub async fn log_search_keeps_the_lines_that_match<F: Fixture>(fixture: &F) {
    let Some(printed) = Printed::by(fixture).await else { return };
    for line in &printed.lines {
        for words in [line.to_uppercase(), line.to_lowercase()] {
            let text = printed.tail(64 * 1024, Some(words)).await.text;
            assert!(text.lines().any(|found| found.ends_with(line.as_str())), "{line:?} is not in {text:?}");
            for other in printed.lines.iter().filter(|other| *other != line) {
                assert!(!text.contains(other.as_str()), "{other:?} does not match and is in {text:?}");
            }
        }
    }
    assert_eq!(printed.tail(64 * 1024, Some("no line holds these words".to_owned())).await.text, "");
}

/// A job that has left its file and ended.
struct Left {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    name: String,
    bytes: Vec<u8>,
}

impl Left {
    /// Runs the job of `leaves`. Returns `None` if the fixture claims no artifacts.
    async fn by<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        offered(F::CLAIMS.artifacts, backend.artifacts(), "artifacts");
        let Leaving { job, name, bytes } = made(F::CLAIMS.artifacts, fixture.leaves(), "leaves")?;
        let (handle, seen) = ended(fixture, &*backend, &job).await;
        let artifacts = &output(&seen.state).artifacts;
        let listed = artifacts.iter().find(|artifact| artifact.name == name);
        let size = listed.unwrap_or_else(|| panic!("{name:?} is not in {artifacts:?}")).size;
        assert!(size.is_none_or(|size| size == bytes.len() as u64), "{name:?} has the size {size:?}");
        Some(Self { backend, handle, name, bytes })
    }

    async fn read(&self, name: &str, max_bytes: u64) -> crate::Result<Option<Vec<u8>>> {
        let artifacts = self.backend.artifacts().expect("it was offered before");
        Ok(artifacts.read(&self.handle, name, max_bytes).await?.map(|data| data.bytes))
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Checks that an artifact named in the output is read completely, up to exactly `max_bytes`.
pub async fn artifact_is_read_whole<F: Fixture>(fixture: &F) {
    let Some(left) = Left::by(fixture).await else { return };
    let read = left.read(&left.name, left.size()).await.expect("the artifact can be read");
    assert_eq!(read.as_ref(), Some(&left.bytes));
}

/// Checks that an artifact that the job did not leave is `None`.
pub async fn artifact_of_no_such_name_is_none<F: Fixture>(fixture: &F) {
    let Some(left) = Left::by(fixture).await else { return };
    let read = left.read("no-such-artifact", 1024).await.expect("a name that is not there is no error");
    assert_eq!(read, None);
}

/// Checks that an artifact larger than the limit is `Rejected`, and that the message contains its size.
pub async fn artifact_that_is_too_large_is_rejected_with_its_size<F: Fixture>(fixture: &F) {
    let Some(left) = Left::by(fixture).await else { return };
    let error = left.read(&left.name, left.size() - 1).await.expect_err("it is larger than allowed");
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(&left.size().to_string()), "{error} does not name the size");
}

/// Checks that a name never leads outside the files that the job left.
pub async fn artifact_name_leads_nowhere_else<F: Fixture>(fixture: &F) {
    let Some(left) = Left::by(fixture).await else { return };
    let up = "../".repeat(12);
    let names = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "/etc/passwd".to_owned(),
        format!("{up}etc/passwd"),
        format!("{}/{up}etc/passwd", left.name),
        format!("./{up}etc/passwd"),
        "%2e%2e/%2e%2e/etc/passwd".to_owned(),
        "..\\..\\etc\\passwd".to_owned(),
        format!("{}\0.txt", left.name),
    ];
    for name in names {
        match left.read(&name, 1024 * 1024).await {
            Ok(read) => assert_eq!(read, None, "{name:?} leads somewhere"),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Rejected, "{name:?}: {e}"),
        }
    }
}

/// Checks that a hint names the job that changed. Any hint may be lost, but not all of them.
pub async fn wakeup_names_the_job_that_ended<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let Some(wakeups) = offered(F::CLAIMS.wakeups, backend.wakeups(), "wakeups") else { return };
    let handle = start(fixture, &*backend, &fixture.runs_long()).await.handle;
    backend.cancel(&handle).await.expect("the engine takes the request to cancel");
    let hinted = timeout(fixture.patience(), async { while wakeups.next().await != handle {} }).await;
    assert!(hinted.is_ok(), "no hint named the job that ended");
    until_ended(fixture, &*backend, &handle).await;
}
