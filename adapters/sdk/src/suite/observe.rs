//! Tests for [`crate::Backend::observe`], [`crate::Backend::group`] and [`crate::Backend::observe_all`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Fixture, Saying, Trouble, cancel_and_wait, ended, made, output, start, until_ended, wait};
use crate::{Content, ErrorKind, JobState, Note, Subject};

/// Checks that a successful job returns its output.
pub async fn success_hands_back_the_output<F: Fixture>(fixture: &F) {
    let (backend, (job, text)) = (fixture.backend(), fixture.succeeds());
    let (_, seen) = ended(fixture, &*backend, &job).await;
    let holds = |content: &Content| matches!(content, Content::Text { text: held } if held.contains(&text));
    let output = output(&seen.state);
    assert!(output.content.iter().any(holds), "{text:?} is not in {output:?}");
    assert!(seen.questions.is_empty(), "a job that has ended asks nothing");
}

/// Checks that a job that ran and failed is `Failed`, and that the message gives the reason in one line.
pub async fn failure_says_why_in_one_line<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.fails());
    let (_, seen) = ended(fixture, &*backend, &job).await;
    assert!(matches!(seen.state, JobState::Failed(_)), "{:?}", seen.state);
    let message = seen.message.expect("a failed job has a message");
    assert!(!message.trim().is_empty() && !message.contains('\n'), "{message:?} is not one line");
}

/// Checks that an ended job gives the same observation every time.
pub async fn ended_job_is_seen_the_same_every_time<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    for job in [fixture.succeeds().0, fixture.fails()] {
        let started = start(fixture, &*backend, &job).await;
        let seen = until_ended(fixture, &*backend, &started.handle).await;
        if let Some(first) = started.first.filter(|first| first.state.has_ended()) {
            assert_eq!(first, seen);
        }
        for _ in 0..3 {
            assert_eq!(until_ended(fixture, &*backend, &started.handle).await, seen);
        }
    }
}

/// Checks that a note has the same number in every observation, and that the last observation contains the
/// job's last notes.
pub async fn notes_keep_their_numbers_to_the_end<F: Fixture>(fixture: &F) {
    let Some(Saying { job, notes }) = made(F::CLAIMS.notes, fixture.says(), "says") else { return };
    let backend = fixture.backend();
    let handle = start(fixture, &*backend, &job).await.handle;
    let mut known: BTreeMap<u64, Note> = BTreeMap::new();
    let seen = wait(fixture, "the job has ended", async || {
        let seen = backend.observe(&handle).await.ok()?;
        let numbers: Vec<u64> = seen.notes.iter().map(|note| note.n).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "the oldest first, under different numbers: {numbers:?}");
        for note in &seen.notes {
            let before = known.entry(note.n).or_insert_with(|| note.clone());
            assert_eq!(before, note, "the same in every look");
        }
        seen.state.has_ended().then_some(seen)
    })
    .await;
    let said: Vec<_> = known.into_values().map(|note| (note.level, note.data)).collect();
    assert_eq!(said, notes, "each is known under one number");
    let last: Vec<_> = seen.notes.into_iter().map(|note| (note.level, note.data)).collect();
    assert_eq!(last, notes, "the last look has them all");
}

/// Checks that a job that the engine does not know is `Gone`, not an error.
pub async fn unknown_job_is_gone<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let seen = backend.observe(&fixture.unknown()).await.expect("a job that is gone is no error");
    assert_eq!(seen.state, JobState::Gone);
}

/// Checks that a job that the engine does not list yet is not gone, whichever process polls it.
pub async fn new_job_is_never_gone<F: Fixture>(fixture: &F) {
    if !F::CLAIMS.troubles.contains(&Trouble::JobUnlisted) {
        return;
    }
    let (backend, job) = (fixture.backend(), fixture.runs_long());
    let handle = start(fixture, &*backend, &job).await.handle;
    fixture.make(Trouble::JobUnlisted).await;
    let subject = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
    match subject.confirm(backend.start_lag(), backend.observe(&handle).await) {
        Ok(seen) => assert!(!seen.state.has_ended(), "the new job was seen as {:?}", seen.state),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    cancel_and_wait(fixture, &*backend, &handle).await;
}

/// Checks that a fault of the network or the engine is an error, never a state of the job.
pub async fn fault_of_a_look_is_an_error<F: Fixture>(fixture: &F) {
    if !F::CLAIMS.troubles.contains(&Trouble::LookUnavailable) {
        return;
    }
    let (backend, (job, text)) = (fixture.backend(), fixture.succeeds());
    let handle = start(fixture, &*backend, &job).await.handle;
    fixture.make(Trouble::LookUnavailable).await;
    match backend.observe(&handle).await {
        Ok(seen) => panic!("in trouble, the job was seen as {:?}", seen.state),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    let seen = until_ended(fixture, &*backend, &handle).await;
    assert!(!output(&seen.state).content.is_empty(), "{text:?} is not there after the trouble");
}

/// Checks that polling several jobs of a group returns results in the order of the handles, each equal to a
/// single poll.
pub async fn looks_at_many_answer_in_order<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let (succeeded, _) = ended(fixture, &*backend, &fixture.succeeds().0).await;
    let (failed, _) = ended(fixture, &*backend, &fixture.fails()).await;
    let all = [failed, fixture.unknown(), succeeded];
    for handle in &all {
        let group = backend.group(handle);
        assert_eq!(backend.group(handle), group, "the group of a job never changes");
        let handles: Vec<_> = all.iter().filter(|other| backend.group(other) == group).cloned().collect();
        let seen = backend.observe_all(&group, &Subject::watched(&handles)).await;
        assert_eq!(seen.len(), handles.len());
        for (handle, seen) in handles.iter().zip(seen) {
            let single = backend.observe(handle).await.expect("a single look succeeds");
            assert_eq!(seen.expect("a look at many succeeds"), single, "{handle}");
        }
    }
    assert!(backend.observe_all(&backend.group(&all[0]), &[]).await.is_empty());
}
