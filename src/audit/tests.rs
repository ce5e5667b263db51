//! Tests of the lines that the [`Auditor`] passes to its writer.

use super::*;
use crate::auth::{Identity, Principal};
use crate::clock::System;
use crate::store::suite::ManualClock;
use crate::tasks::task::TaskId;

/// Returns an auditor, a receiver of its lines, and its clock.
fn auditor() -> (Auditor, mpsc::UnboundedReceiver<WriterMessage>, Arc<ManualClock>) {
    let clock = ManualClock::at(taskbridge_sdk::Timestamp::from_millis(0));
    let dependencies = AuditDependencies {
        seal: Seal::new(&[7; 32], System::entropy()),
        clock: Arc::clone(&clock) as _,
        entropy: System::entropy(),
        replica: "here".to_owned(),
    };
    let (queue, lines) = mpsc::unbounded_channel();
    (Auditor { queue: Some(queue), ..Auditor::off(dependencies) }, lines, clock)
}

/// Returns the request context of a caller with this name.
fn request(name: &str) -> Arc<RequestContext> {
    let who = Arc::new(Identity::named(name));
    let principal =
        Principal { owner: Owner::new(name), identified: true, identity: who, ..Principal::anonymous() };
    Arc::new(RequestContext::of(&principal))
}

/// Returns the lines since the last call.
fn take_lines(lines: &mut mpsc::UnboundedReceiver<WriterMessage>) -> Vec<Value> {
    let mut handed = Vec::new();
    while let Ok(WriterMessage::Line(line)) = lines.try_recv() {
        handed.push(serde_json::from_str(&line).unwrap());
    }
    handed
}

/// The summary of a window is written during another caller's request, and has no caller of its own.
#[test]
fn alert_summary_names_no_other_caller() {
    let (auditor, mut lines, clock) = auditor();
    let (owner, id) = (Owner::new("mallory"), TaskId::from_wire("guessed"));
    request("mallory").sync_scope(|| {
        (0..1_000).for_each(|_| auditor.record(AuditEvent::NotFound { owner: &owner, id: &id }));
    });
    take_lines(&mut lines);
    clock.advance(Duration::from_secs(61));
    let ann = request("ann");
    // The line about her own event does not matter here.
    ann.sync_scope(|| {
        auditor.write_limited(Kind::LookupFailed, auditor.entry(Kind::LookupFailed, "not_found"), "ann")
    });
    let lines = take_lines(&mut lines);
    let [over, own] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&over["outcome"], &over["detail"]["subject"]), (&json!("over"), &json!("owner mallory")));
    assert_eq!(over["detail"]["count"], 1_000);
    for member in ["who", "from", "request"] {
        assert_eq!(over.get(member), None, "{over}");
    }
    assert_eq!(own["who"]["name"], "ann");
}

/// Ten events of a client's own tasks are logged per minute, then one alert.
#[test]
fn client_task_events_are_rate_limited() {
    let (auditor, mut lines, _) = auditor();
    let owner = Owner::new("ann");
    let [task, theirs] = ["task", "theirs"].map(TaskId::from_wire);
    let client_task = |question, stage| AuditEvent::ClientTask {
        owner: &owner,
        task: &task,
        question,
        theirs: &theirs,
        stage,
    };
    request("ann").sync_scope(|| {
        for _ in 0..500 {
            for stage in ["Working", "InputRequired"] {
                auditor.record(client_task("one", stage));
            }
        }
        auditor.record(client_task("two", "Working"));
    });
    let lines = take_lines(&mut lines);
    let count_of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((count_of("client.task"), count_of("suspicion")), (10 + 1, 1));
}
