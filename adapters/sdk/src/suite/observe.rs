//! Tests for [`crate::Backend::observe`], [`crate::Backend::group`] and [`crate::Backend::observe_all`].

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Fixture, InjectedFault, NotesJob, cancel_and_wait, claimed_item, output, poll_until, poll_until_ended,
    retry_until_some, run_to_end, start,
};
use crate::{Content, ErrorKind, JobState, Note, Observation, Subject};

/// Checks that a successful job returns its output.
pub async fn success_hands_back_the_output<F: Fixture>(fixture: &F) {
    let (backend, (job, text)) = (fixture.backend(), fixture.succeeding_job());
    let (_, observation) = run_to_end(fixture, &*backend, &job).await;
    let contains_text = |content: &Content| matches!(content, Content::Text { text: block_text } if block_text.contains(&text));
    let output = output(&observation.state);
    assert!(output.content.iter().any(contains_text), "{text:?} is not in {output:?}");
    assert!(observation.questions.is_empty(), "an ended job has no open question");
}

/// Checks that a job that ran and failed is `Failed`, and that the message gives the reason in one line.
pub async fn failure_says_why_in_one_line<F: Fixture>(fixture: &F) {
    let (backend, job) = (fixture.backend(), fixture.failing_job());
    let (_, observation) = run_to_end(fixture, &*backend, &job).await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{:?}", observation.state);
    let message = observation.message.expect("a failed job has a message");
    assert!(!message.trim().is_empty() && !message.contains('\n'), "{message:?} is not one line");
}

/// Checks that an ended job gives the same observation every time.
pub async fn ended_job_is_seen_the_same_every_time<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    for job in [fixture.succeeding_job().0, fixture.failing_job()] {
        let started = start(fixture, &*backend, &job).await;
        let observation = poll_until_ended(fixture, &*backend, &started.handle).await;
        if let Some(first) = started.first.filter(|first| first.state.has_ended()) {
            assert_eq!(first, observation);
        }
        for _ in 0..3 {
            assert_eq!(poll_until_ended(fixture, &*backend, &started.handle).await, observation);
        }
    }
}

/// Checks that a note has the same number in every observation, and that the last observation contains the
/// job's last notes.
pub async fn notes_keep_their_numbers_to_the_end<F: Fixture>(fixture: &F) {
    let Some(NotesJob { job, notes }) =
        claimed_item(fixture.claims().notes, fixture.notes_job(), "notes_job")
    else {
        return;
    };
    let backend = fixture.backend();
    let handle = start(fixture, &*backend, &job).await.handle;
    let mut notes_by_number: BTreeMap<u64, Note> = BTreeMap::new();
    let observation = retry_until_some(fixture, "the job has ended", async || {
        let observation = backend.observe(&handle).await.ok()?;
        let numbers: Vec<u64> = observation.notes.iter().map(|note| note.n).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "note numbers must increase: {numbers:?}");
        for note in &observation.notes {
            let previous = notes_by_number.entry(note.n).or_insert_with(|| note.clone());
            assert_eq!(previous, note, "a note is the same in every poll");
        }
        observation.state.has_ended().then_some(observation)
    })
    .await;
    let collected: Vec<_> = notes_by_number.into_values().map(|note| (note.level, note.data)).collect();
    assert_eq!(collected, notes, "each note has one number");
    let last: Vec<_> = observation.notes.into_iter().map(|note| (note.level, note.data)).collect();
    assert_eq!(last, notes, "the last poll returns all notes");
}

/// Checks that a job that the engine does not know is `Gone`, not an error.
pub async fn unknown_job_is_gone<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let observation =
        backend.observe(&fixture.unknown_handle()).await.expect("an unknown job is not an error");
    assert_eq!(observation.state, JobState::Gone);
}

/// Checks that a job that the engine does not list yet is not gone, whichever process polls it.
pub async fn new_job_is_never_gone<F: Fixture>(fixture: &F) {
    if !fixture.claims().faults.contains(&InjectedFault::JobUnlisted) {
        return;
    }
    let (backend, job) = (fixture.backend(), fixture.long_job());
    let handle = start(fixture, &*backend, &job).await.handle;
    fixture.inject(InjectedFault::JobUnlisted).await;
    let subject = Subject { handle: handle.clone(), watched: true, age: Duration::ZERO };
    match subject.confirm(backend.start_lag(), backend.observe(&handle).await) {
        Ok(observation) => {
            assert!(!observation.state.has_ended(), "the new job was reported as {:?}", observation.state)
        }
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    cancel_and_wait(fixture, &*backend, &handle).await;
}

/// Checks that a fault of the network or the engine is an error, never a state of the job.
pub async fn fault_of_a_look_is_an_error<F: Fixture>(fixture: &F) {
    if !fixture.claims().faults.contains(&InjectedFault::PollUnavailable) {
        return;
    }
    let (backend, (job, text)) = (fixture.backend(), fixture.succeeding_job());
    let handle = start(fixture, &*backend, &job).await.handle;
    fixture.inject(InjectedFault::PollUnavailable).await;
    match backend.observe(&handle).await {
        Ok(observation) => panic!("an unavailable engine reported the job as {:?}", observation.state),
        Err(e) => assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"),
    }
    let observation = poll_until_ended(fixture, &*backend, &handle).await;
    assert!(!output(&observation.state).content.is_empty(), "{text:?} is missing after the fault");
}

/// Checks that polling several jobs of a group returns results in the order of the handles, each equal to a
/// single poll.
pub async fn looks_at_many_answer_in_order<F: Fixture>(fixture: &F) {
    let backend = fixture.backend();
    let (succeeded, _) = run_to_end(fixture, &*backend, &fixture.succeeding_job().0).await;
    let (failed, _) = run_to_end(fixture, &*backend, &fixture.failing_job()).await;
    let all = [failed, fixture.unknown_handle(), succeeded];
    for handle in &all {
        let group = backend.group(handle);
        assert_eq!(backend.group(handle), group, "the group of a job never changes");
        let handles: Vec<_> = all.iter().filter(|other| backend.group(other) == group).cloned().collect();
        let results = backend.observe_all(&group, &Subject::watched(&handles)).await;
        assert_eq!(results.len(), handles.len());
        for (handle, result) in handles.iter().zip(results) {
            let single = backend.observe(handle).await.expect("a single poll succeeds");
            assert_eq!(result.expect("a poll of several jobs succeeds"), single, "{handle}");
        }
    }
    assert!(backend.observe_all(&backend.group(&all[0]), &[]).await.is_empty());
}

/// Checks that a renamed job has its new name in each poll by the old one, and the same end under both.
pub async fn renamed_job_answers_to_both_names<F: Fixture>(fixture: &F) {
    let (backend, Some(job)) = (fixture.backend(), fixture.renamed_job()) else { return };
    let old = start(fixture, &*backend, &job).await.handle;
    let is_renamed = |observation: &Observation| observation.renamed_to.is_some();
    let first = poll_until(fixture, &*backend, &old, "the job has a new name", is_renamed).await;
    let new = first.renamed_to.clone().expect("it has a new name");
    assert_ne!(new, old, "the new name is the old one");
    let observations =
        backend.observe_all(&backend.group(&new), &Subject::watched(std::slice::from_ref(&new))).await;
    let [Ok(by_new_name)] = &observations[..] else { panic!("a poll by the new name: {observations:?}") };
    assert_ne!(by_new_name.state, JobState::Gone, "the engine does not know the new name");
    assert_eq!(by_new_name.renamed_to, None, "the job is renamed again");
    let end = poll_until_ended(fixture, &*backend, &new).await;
    let by_old_name = poll_until_ended(fixture, &*backend, &old).await;
    assert_eq!(
        by_old_name.renamed_to.as_ref(),
        Some(&new),
        "a poll by the old name does not say the new one"
    );
    assert_eq!(Observation { renamed_to: None, ..by_old_name }, end, "the names have different ends");
}
