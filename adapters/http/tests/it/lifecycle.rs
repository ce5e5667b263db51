//! Starts, polls and cancellations beyond the behaviour suite: what each reply means, engines that lag or
//! rename, and how many requests many jobs take.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{
    Answer as Reply, AnswerOutcome, Backend, Delivery, ErrorKind, JobKey, JobSpec, JobState, Subject,
};

use crate::nasty::{Answer, Fault, Nasty};
use crate::world::{COMMON, KEYED, UNKEYED, backend, connect, fields, handle, kind};

fn long_job() -> JobSpec {
    job(json!({"kind": "long"}), json!({}))
}

fn again(job: &JobSpec) -> JobSpec {
    JobSpec { may_exist: true, ..job.clone() }
}

/// What a reply to a start proves decides what the server does next: the table of `driver::error`.
#[tokio::test]
async fn start_reply_means_what_it_proves() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED]).await;
    for (status, first, repeated) in [
        (400, ErrorKind::Rejected, ErrorKind::Rejected),
        (404, ErrorKind::Rejected, ErrorKind::Rejected),
        (405, ErrorKind::Rejected, ErrorKind::Rejected),
        (413, ErrorKind::Rejected, ErrorKind::Rejected),
        (422, ErrorKind::Rejected, ErrorKind::Rejected),
        (401, ErrorKind::Denied, ErrorKind::Denied),
        (403, ErrorKind::Denied, ErrorKind::Denied),
        (408, ErrorKind::Uncertain, ErrorKind::Unavailable),
        (302, ErrorKind::Uncertain, ErrorKind::Unavailable),
        (500, ErrorKind::Uncertain, ErrorKind::Unavailable),
        (502, ErrorKind::Uncertain, ErrorKind::Unavailable),
        (504, ErrorKind::Uncertain, ErrorKind::Unavailable),
        // The config cites that this engine sends it before it accepts.
        (503, ErrorKind::Unavailable, ErrorKind::Unavailable),
    ] {
        let job = long_job();
        nasty.fault("PUT /api/jobs", Fault::Before(status));
        assert_eq!(kind(backend.start(&job).await), first, "{status}");
        nasty.fault("PUT /api/jobs", Fault::Before(status));
        assert_eq!(kind(backend.start(&again(&job)).await), repeated, "{status}");
    }
    nasty.fault("PUT /api/jobs", Fault::Before(429));
    let after = Some(Duration::from_secs(7));
    assert_eq!(kind(backend.start(&long_job()).await), ErrorKind::Limited { after });
    assert!(nasty.engine.lock().jobs.is_empty());
}

/// Without a citation, 503 is what a gateway sends when the engine resets after it took the request.
#[tokio::test]
async fn uncited_503_is_uncertain() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED, "not_accepted = \"false\""]).await;
    nasty.fault("PUT /api/jobs", Fault::After(503));
    let job = long_job();
    assert_eq!(kind(backend.start(&job).await), ErrorKind::Uncertain);
    assert_eq!(backend.start(&again(&job)).await.unwrap().handle, handle(job.key.as_str()));
    assert_eq!(nasty.engine.lock().jobs.len(), 1);
}

/// An error after the engine accepted the job: with a key it is sent again, without one it is searched for.
#[tokio::test]
async fn error_after_acceptance_never_makes_a_second_job() {
    for (start, line) in [(KEYED, "PUT /api/jobs"), (UNKEYED, "POST /api/jobs")] {
        let nasty = Nasty::start().await;
        let backend = backend(&nasty, &[COMMON, start]).await;
        for fault in [Fault::After(500), Fault::After(502), Fault::ReplyLost, Fault::After(200)] {
            let job = long_job();
            nasty.fault(line, fault);
            let first = backend.start(&job).await;
            if let Err(error) = first {
                assert_eq!(error.kind(), ErrorKind::Uncertain, "{line} {fault:?}");
            }
            let started = backend.start(&again(&job)).await.unwrap();
            assert_eq!(backend.find(&job).await.unwrap(), Some(started), "{line} {fault:?}");
            let engine = nasty.engine.lock();
            assert_eq!(engine.jobs.iter().filter(|made| made.key == job.key.as_str()).count(), 1);
        }
    }
}

/// A page of a proxy is no reply of the engine, whatever its status.
#[tokio::test]
async fn page_of_a_proxy_proves_nothing() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED]).await;
    nasty.fault("PUT /api/jobs", Fault::Page(200));
    let job = long_job();
    assert_eq!(kind(backend.start(&job).await), ErrorKind::Uncertain);
    let started = backend.start(&again(&job)).await.unwrap();
    for status in [200, 404, 410] {
        nasty.fault("GET /api/jobs/", Fault::Page(status));
        let result = backend.observe(&started.handle).await;
        assert!(result.is_err(), "{status}: {result:?}");
    }
    nasty.fault("GET /api/jobs/", Fault::Page(404));
    assert!(backend.find(&job).await.is_err());
    backend.cancel(&started.handle).await.unwrap();
}

/// Nothing was sent to an engine that refuses connections.
#[tokio::test]
async fn refused_connection_starts_nothing() {
    let address = {
        let nasty = Nasty::start().await;
        nasty.address.clone()
    };
    let backend = connect(fields(&format!("{address}/api"), &[COMMON, KEYED])).await.unwrap();
    // The listener closes when its task has ended.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match backend.start(&long_job()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => break,
            other => assert!(tokio::time::Instant::now() < deadline, "{other:?}"),
        }
        tokio::task::yield_now().await;
    }
}

/// A list that lags does not show a new job: the search is uncertain, and no second job is started.
#[tokio::test]
async fn lagging_list_starts_no_second_job() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, UNKEYED]).await;
    let job = long_job();
    nasty.fault("POST /api/jobs", Fault::ReplyLost);
    assert_eq!(kind(backend.start(&job).await), ErrorKind::Uncertain);
    nasty.engine.lock().unlisted = 1;
    for _ in 0..3 {
        let error = backend.start(&again(&job)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Uncertain && !error.is_final(), "{error}");
    }
    nasty.engine.lock().unlisted = 0;
    assert_eq!(backend.start(&again(&job)).await.unwrap().handle, handle("j1"));
    assert_eq!(nasty.engine.lock().jobs.len(), 1);
}

/// An engine with neither a key nor a search: a lost reply ends the task at once, and says where to look.
#[tokio::test]
async fn lost_reply_without_search_is_final() {
    let nasty = Nasty::start().await;
    let mut fields = fields(&format!("{}/api", nasty.address), &[COMMON, UNKEYED]);
    fields.as_object_mut().unwrap().remove("find");
    let backend = connect(fields).await.unwrap();
    nasty.fault("POST /api/jobs", Fault::ReplyLost);
    let job = long_job();
    for error in [backend.start(&job).await.unwrap_err(), backend.start(&again(&job)).await.unwrap_err()] {
        assert!(error.kind() == ErrorKind::Uncertain && error.is_final(), "{error}");
        assert!(error.to_string().contains("look there"), "{error}");
    }
    assert_eq!(nasty.engine.lock().jobs.len(), 1);
}

/// A queue item becomes a build: each poll by the old name returns the new one.
#[tokio::test]
async fn queue_item_is_renamed_to_its_build() {
    let nasty = Nasty::start().await;
    let start = r#"
        [start]
        method = "POST"
        path = "/queue"
        json = { key = "{{ taskbridge.key }}" }
        once = "none"
        handle = { item = "body.item" }
        [[observe]]
        if = "handle.item is defined"
        path = "/queue/{{ handle.item }}"
        state = "'queued'"
        rename = { build = "body.build" }
        [[observe]]
        path = "/builds/{{ handle.build }}"
        state = "body.state"
        [cancel]
        method = "POST"
        path = "/builds/{{ handle.build }}/stop"
    "#;
    let backend = connect(fields(&format!("{}/api", nasty.address), &[start])).await.unwrap();
    nasty.script("POST /api/queue", Answer::json(201, &json!({"item": 7})));
    nasty.script("GET /api/queue/7", Answer::json(200, &json!({"build": null})));
    nasty.script("GET /api/builds/12", Answer::json(200, &json!({"state": "running"})));
    let item = backend.start(&job(json!({}), json!({}))).await.unwrap().handle;
    let queued = backend.observe(&item).await.unwrap();
    assert_eq!((queued.state, queued.renamed_to), (JobState::Queued, None));
    nasty.script("GET /api/queue/7", Answer::json(200, &json!({"build": 12})));
    for _ in 0..2 {
        let renamed = backend.observe(&item).await.unwrap().renamed_to.unwrap();
        assert_eq!(renamed.as_str(), r#"{"build":12}"#);
        assert_eq!(backend.observe(&renamed).await.unwrap().state, JobState::Running);
    }
}

/// An engine that cannot stop jobs says so, and one that rewrites results is looked at before.
#[tokio::test]
async fn cancel_says_what_the_engine_cannot() {
    let nasty = Nasty::start().await;
    let backend_without = backend(&nasty, &[COMMON, KEYED, "cancel = false"]).await;
    let long = backend_without.start(&long_job()).await.unwrap().handle;
    assert_eq!(kind(backend_without.cancel(&long).await), ErrorKind::Unsupported);
    let looks = r#"
        [cancel]
        method = "POST"
        path = "/jobs/{{ handle.id }}/cancel"
        look_first = true
    "#;
    let backend = backend(&nasty, &[COMMON, KEYED, looks]).await;
    let done = backend.start(&job(json!({"kind": "succeed"}), json!({}))).await.unwrap().handle;
    taskbridge_sdk::suite::polling::poll_until_ended(&*backend, &done).await;
    backend.cancel(&done).await.unwrap();
    assert_eq!(nasty.seen("POST /api/jobs/").len(), 0);
    backend.cancel(&long).await.unwrap();
    assert_eq!(nasty.seen("POST /api/jobs/").len(), 1);
}

/// A job that cannot be stopped yet is not asked to: the cancellation fails, so that it is repeated.
#[tokio::test]
async fn cancel_waits_for_a_job_that_cannot_be_stopped_yet() {
    let nasty = Nasty::start().await;
    for (wait, requests) in [("body.state is defined", 0), ("body.state is undefined", 1)] {
        let cancel = format!(
            "[cancel]\nmethod = \"POST\"\npath = \"/jobs/{{{{ handle.id }}}}/cancel\"\nlook_first = true\nwait = \"{wait}\"\n"
        );
        let backend = backend(&nasty, &[COMMON, KEYED, &cancel]).await;
        let job = backend.start(&long_job()).await.unwrap().handle;
        let cancelled = backend.cancel(&job).await;
        assert_eq!(
            cancelled.err().map(|error| error.kind()),
            (requests == 0).then_some(ErrorKind::Unavailable)
        );
        assert_eq!(nasty.seen("POST /api/jobs/").len(), requests, "{wait}");
    }
}

/// With `look_first`, an answer to a job that has ended, or to a question that is not open, is too late, and is
/// not sent.
#[tokio::test]
async fn answer_to_ended_job_is_not_sent() {
    let nasty = Nasty::start().await;
    for (look_first, requests) in [(true, 0), (false, 1)] {
        let answers = format!(
            "[answer]\nlook_first = {look_first}\nmethod = \"POST\"\npath = \"/jobs/{{{{ handle.id }}}}/answers/{{{{ question }}}}\"\n"
        );
        let backend = backend(&nasty, &[COMMON, KEYED, &answers]).await;
        let before = nasty.seen("POST /api/jobs/").len();
        let handle = backend.start(&job(json!({"kind": "succeed"}), json!({}))).await.unwrap().handle;
        taskbridge_sdk::suite::polling::poll_until_ended(&*backend, &handle).await;
        let reply = Reply::Accept(serde_json::Map::new());
        let outcome = backend.abilities().questions.unwrap().answer(&handle, "q1", &reply).await;
        if look_first {
            assert_eq!(outcome.unwrap(), AnswerOutcome::TooLate);
        }
        assert_eq!(nasty.seen("POST /api/jobs/").len() - before, requests, "{look_first}");
        let asking = backend.start(&job(json!({"kind": "ask"}), json!({}))).await.unwrap().handle;
        let first = |seen: &taskbridge_sdk::Observation| seen.questions.first().cloned();
        taskbridge_sdk::suite::polling::poll_until(&*backend, &asking, "a question", first).await;
        for (question, is_late) in [("q2", true), ("q1", false)] {
            let reply = Reply::Accept(serde_json::Map::new());
            let outcome = backend.abilities().questions.unwrap().answer(&asking, question, &reply).await;
            let expected = if is_late { AnswerOutcome::TooLate } else { AnswerOutcome::Accepted };
            assert_eq!(outcome.unwrap(), expected, "{look_first}");
        }
        let sent = nasty.seen("POST /api/jobs/").len() - before - requests;
        assert_eq!(sent, if look_first { 1 } else { 2 });
    }
}

/// Many running jobs take the pages of one list, and no request each. A list of three pages is used again
/// until something changes.
#[tokio::test]
async fn many_jobs_take_one_list() {
    let nasty = Nasty::start().await;
    let without_questions = |mut fields: Value| {
        fields.as_object_mut().unwrap().retain(|name, _| name != "ask" && name != "answer");
        fields
    };
    let fields = without_questions(fields(&format!("{}/api", nasty.address), &[COMMON, UNKEYED]));
    let backend = connect(fields).await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..20 {
        let handle = backend.start(&long_job()).await.unwrap().handle;
        jobs.push(Subject { handle, watched: false, age: Duration::ZERO });
    }
    let count = || nasty.seen("GET /api/jobs").len();
    let group = backend.group(&jobs[0].handle);
    for _ in 0..3 {
        for result in backend.observe_all(&group, &jobs).await {
            assert_eq!(result.unwrap().state, JobState::Queued);
        }
    }
    // 20 jobs are 7 pages of 3, which are kept for 42 s.
    assert_eq!(count(), 7);
    backend.cancel(&jobs[0].handle).await.unwrap();
    let results = backend.observe_all(&group, &jobs).await;
    assert!(matches!(results[0].as_ref().unwrap().state, JobState::Cancelled(_)));
    assert_eq!(results.iter().flatten().filter(|seen| seen.state == JobState::Queued).count(), 19);
    // The list again, and the ended job with its details.
    assert_eq!(count(), 15);
}

/// A reply's `Retry-After` is the soonest next poll, and an unknown word is `unknown`.
#[tokio::test]
async fn poll_keeps_the_wait_of_the_engine() {
    let nasty = Nasty::start().await;
    let backend = backend(&nasty, &[COMMON, KEYED]).await;
    let body = json!({"state": "MELTING", "questions": []});
    nasty.script("GET /api/jobs/x", Answer::json(200, &body).with_header("retry-after", "9"));
    let seen = backend.observe(&handle("x")).await.unwrap();
    assert_eq!((seen.state, seen.retry_after), (JobState::Running, Some(Duration::from_secs(9))));
    nasty.script("GET /api/jobs/y", Answer::json(200, &json!({"questions": []})));
    assert_eq!(kind(backend.observe(&handle("y")).await), ErrorKind::Unavailable);
}

/// A key that the engine forgets has an age.
#[tokio::test]
async fn key_has_an_age() {
    let nasty = Nasty::start().await;
    let backend_forever = backend(&nasty, &[COMMON, KEYED]).await;
    assert_eq!(backend_forever.key_lifetime(), None);
    let short = KEYED.replace("once = \"key\"", "once = \"key\"\nkey_lasts = \"5m\"");
    let backend = backend(&nasty, &[COMMON, &short]).await;
    assert_eq!(backend.key_lifetime(), Some(Duration::from_secs(270)));
}

/// Hooks prove themselves by a token or by Standard Webhooks, and can name our key.
#[tokio::test]
async fn hooks_have_three_proofs() {
    let nasty = Nasty::start().await;
    let token = "[hook]\ntoken = { header = \"X-Token\", secret = \"hush\" }\nkeys = \"[path]\"\n";
    let backend_token = backend(&nasty, &[COMMON, KEYED, token]).await;
    let key = JobKey::from_bytes([7; 16]);
    let read = |backend: &dyn Backend, headers: &[(&str, &str)], body: &[u8]| {
        let delivery = Delivery { headers, body, path: key.as_str() };
        backend.abilities().hooks.unwrap().read(&delivery)
    };
    let event = read(&*backend_token, &[("x-token", "hush")], b"").unwrap();
    assert_eq!((event.keys, event.jobs), (vec![key.clone()], Vec::new()));
    assert_eq!(read(&*backend_token, &[("x-token", "hus")], b""), None);
    let webhooks =
        "[hook]\nstandard_webhooks = { secret = \"whsec_aHVzaA==\" }\njobs = \"[{'id': body.job}]\"\n";
    let backend = backend(&nasty, &[COMMON, KEYED, webhooks]).await;
    let (body, now) = (br#"{"job":"j1"}"#, jiff::Timestamp::now().as_second());
    for (at, is_accepted) in [(now, true), (now - 4000, false)] {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(b"hush").unwrap();
        mac.update(format!("msg_1.{at}.").as_bytes());
        mac.update(body);
        let signature = format!("v1,wrong v1,{}", data_encoding::BASE64.encode(&mac.finalize().into_bytes()));
        let at = at.to_string();
        let headers = [
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", at.as_str()),
            ("webhook-signature", signature.as_str()),
        ];
        let event = read(&*backend, &headers, body);
        assert_eq!(event.is_some(), is_accepted);
        if let Some(event) = event {
            assert_eq!((event.jobs, event.id.as_deref()), (vec![handle("j1")], Some("msg_1")));
        }
    }
}
