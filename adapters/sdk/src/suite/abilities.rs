//! Tests for the read-only abilities: [`crate::Logs`], [`crate::Artifacts`], [`crate::Wakeups`].

use std::sync::Arc;

use tokio::time::timeout;

use super::{
    ArtifactJob, Fixture, LogJob, claimed_ability, claimed_item, output, poll_until_ended, retry_until_some,
    run_to_end, start,
};
use crate::{Abilities, Backend, ErrorKind, JobHandle, LogRequest, LogText};

/// Checks that the backend offers exactly the abilities that its fixture claims.
pub async fn abilities_are_as_claimed<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let Abilities { questions, logs, artifacts, wakeups, discovery, checkup, hooks } = backend.abilities();
    claimed_ability(fixture.claims().questions, questions, "questions");
    claimed_ability(fixture.claims().logs, logs, "logs");
    claimed_ability(fixture.claims().artifacts, artifacts, "artifacts");
    claimed_ability(fixture.claims().wakeups, wakeups, "wakeups");
    claimed_ability(fixture.claims().discovery, discovery, "discovery");
    claimed_ability(fixture.claims().checkup, checkup, "checkup");
    claimed_ability(fixture.claims().hooks, hooks, "hooks");
}

/// A job that has printed its lines and ended.
struct FinishedLogJob {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    lines: Vec<String>,
}

impl FinishedLogJob {
    /// Runs the job of `log_job`. Returns `None` if the fixture claims no logs.
    async fn run<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        claimed_ability(fixture.claims().logs, backend.abilities().logs, "logs");
        let LogJob { job, lines } = claimed_item(fixture.claims().logs, fixture.log_job(), "log_job")?;
        assert!(lines.len() >= 3, "the job of the fixture's log_job() must print at least three lines");
        let (handle, observation) = run_to_end(fixture, &*backend, &job).await;
        output(&observation.state);
        let finished = Self { backend, handle, lines };
        // Some engines need a while to deliver the last lines.
        let last = &finished.lines[finished.lines.len() - 1];
        retry_until_some(fixture, "the last line is in the log", async || {
            finished.tail(64 * 1024, None).await.text.trim_end().ends_with(last).then_some(())
        })
        .await;
        Some(finished)
    }

    async fn tail(&self, max_bytes: usize, search: Option<String>) -> LogText {
        let logs = self.backend.abilities().logs.expect("logs are claimed");
        let log =
            logs.tail(&self.handle, &LogRequest { max_bytes, search }).await.expect("the log can be read");
        assert!(log.text.len() <= max_bytes, "{} bytes, with a limit of {max_bytes}", log.text.len());
        log
    }
}

/// Checks that the end of a log contains what the job printed.
pub async fn log_holds_what_was_printed<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedLogJob::run(fixture).await else { return };
    let log = finished.tail(64 * 1024, None).await;
    let log_lines: Vec<_> = log.text.lines().collect();
    let tail_start = log_lines.len().saturating_sub(finished.lines.len());
    assert_eq!(log_lines.len() - tail_start, finished.lines.len(), "{:?} is too short", log.text);
    for (log_line, line) in log_lines[tail_start..].iter().zip(&finished.lines) {
        assert!(log_line.ends_with(line.as_str()), "{:?} does not end with {:?}", log.text, finished.lines);
    }
}

/// Checks that a tail has at most the requested bytes, is cut at a line start, and reports that text was left
/// out.
pub async fn log_is_bounded_and_says_so<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedLogJob::run(fixture).await else { return };
    let full_log = finished.tail(64 * 1024, None).await.text;
    let last = full_log.lines().next_back().expect("the log is not empty");
    let log = finished.tail(last.len() + 2, None).await;
    assert_eq!((log.text.trim_end(), log.cut), (last, true));
    for max_bytes in [0, 1, last.len() / 2] {
        assert!(finished.tail(max_bytes, None).await.cut, "cut to {max_bytes} bytes");
    }
}

/// Checks that a search keeps only the lines that contain the text, regardless of case.
pub async fn log_search_keeps_the_lines_that_match<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedLogJob::run(fixture).await else { return };
    for line in &finished.lines {
        for search in [line.to_uppercase(), line.to_lowercase()] {
            let text = finished.tail(64 * 1024, Some(search)).await.text;
            assert!(text.lines().any(|found| found.ends_with(line.as_str())), "{line:?} is not in {text:?}");
            for other in finished.lines.iter().filter(|other| *other != line) {
                assert!(
                    !text.contains(other.as_str()),
                    "{other:?} does not match the search, but is in {text:?}"
                );
            }
        }
    }
    assert_eq!(finished.tail(64 * 1024, Some("no line holds these words".to_owned())).await.text, "");
}

/// A job that has left its file and ended.
struct FinishedArtifactJob {
    backend: Arc<dyn Backend>,
    handle: JobHandle,
    name: String,
    bytes: Vec<u8>,
}

impl FinishedArtifactJob {
    /// Runs the job of `artifact_job`. Returns `None` if the fixture claims no artifacts.
    async fn run<F: Fixture>(fixture: &F) -> Option<Self> {
        let backend = fixture.backend();
        claimed_ability(fixture.claims().artifacts, backend.abilities().artifacts, "artifacts");
        let ArtifactJob { job, name, bytes } =
            claimed_item(fixture.claims().artifacts, fixture.artifact_job(), "artifact_job")?;
        let (handle, observation) = run_to_end(fixture, &*backend, &job).await;
        let artifacts = &output(&observation.state).artifacts;
        let listed_artifact = artifacts.iter().find(|artifact| artifact.name == name);
        let size = listed_artifact.unwrap_or_else(|| panic!("{name:?} is not in {artifacts:?}")).size;
        assert!(size.is_none_or(|size| size == bytes.len() as u64), "{name:?} has the size {size:?}");
        Some(Self { backend, handle, name, bytes })
    }

    async fn read(&self, name: &str, max_bytes: u64) -> crate::Result<Option<Vec<u8>>> {
        let artifacts = self.backend.abilities().artifacts.expect("artifacts are claimed");
        Ok(artifacts.read(&self.handle, name, max_bytes).await?.map(|data| data.bytes))
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Checks that an artifact named in the output is read completely, up to exactly `max_bytes`.
pub async fn artifact_is_read_whole<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedArtifactJob::run(fixture).await else { return };
    let content = finished.read(&finished.name, finished.size()).await.expect("the artifact can be read");
    assert_eq!(content.as_ref(), Some(&finished.bytes));
}

/// Checks that an artifact that the job did not leave is `None`.
pub async fn artifact_of_no_such_name_is_none<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedArtifactJob::run(fixture).await else { return };
    let content = finished.read("no-such-artifact", 1024).await.expect("an unknown name is not an error");
    assert_eq!(content, None);
}

/// Checks that an artifact larger than the limit is `Rejected`, and that the message contains its size.
pub async fn artifact_that_is_too_large_is_rejected_with_its_size<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedArtifactJob::run(fixture).await else { return };
    let error = finished
        .read(&finished.name, finished.size() - 1)
        .await
        .expect_err("a read beyond the limit is an error");
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(&finished.size().to_string()), "{error} does not name the size");
}

/// Checks that a name never leads outside the files that the job left.
pub async fn artifact_name_leads_nowhere_else<F: Fixture>(fixture: &F) {
    let Some(finished) = FinishedArtifactJob::run(fixture).await else { return };
    let up = "../".repeat(12);
    let names = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "/etc/passwd".to_owned(),
        format!("{up}etc/passwd"),
        format!("{}/{up}etc/passwd", finished.name),
        format!("./{up}etc/passwd"),
        "%2e%2e/%2e%2e/etc/passwd".to_owned(),
        "..\\..\\etc\\passwd".to_owned(),
        format!("{}\0.txt", finished.name),
    ];
    for name in names {
        match finished.read(&name, 1024 * 1024).await {
            Ok(content) => assert_eq!(content, None, "{name:?} leads outside the job's files"),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Rejected, "{name:?}: {e}"),
        }
    }
}

/// Checks that a hint names the job that changed. Any hint may be lost, but not all of them.
pub async fn wakeup_names_the_job_that_ended<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let Some(wakeups) = claimed_ability(fixture.claims().wakeups, backend.abilities().wakeups, "wakeups")
    else {
        return;
    };
    let handle = start(fixture, &*backend, &fixture.long_job()).await.handle;
    backend.cancel(&handle).await.expect("the engine accepts the request to cancel");
    let result = timeout(fixture.timeout(), async { while wakeups.next().await != handle {} }).await;
    assert!(result.is_ok(), "no hint named the job that ended");
    poll_until_ended(fixture, &*backend, &handle).await;
}
