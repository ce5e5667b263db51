//! The clients of a world: they call, cancel, answer and look, on any process, and note what they are told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge::tasks::machine::Cancel;
use taskbridge::tasks::service::{Call, Cancelled, Service, WhenFull};
use taskbridge::tasks::store::Once;
use taskbridge::tasks::task::{Origin, Owner, Spec, Task, TaskId};
use taskbridge_sdk::Answer;

use super::checks::{Expected, Told};
use super::world::{World, terms};

impl World {
    /// A client calls a tool. It notes what it is told, if it is told anything.
    pub(super) fn call(&mut self, at: usize) {
        let Some(service) = self.service(at) else { return };
        self.calls += 1;
        let (call, expected) = self.random_call();
        // Some callers go away, and some of those while the row is being written.
        let patience = if self.rng.one_in(6) { self.rng.below(20) } else { 60_000 };
        let book = Arc::clone(&self.book);
        #[allow(clippy::disallowed_methods, reason = "clients are tasks of the simulation")]
        tokio::spawn(async move {
            let owner = call.owner.clone();
            let once = call.once.as_ref().map(|once| once.key.clone());
            let answer = tokio::time::timeout(Duration::from_millis(patience), service.call(call)).await;
            if let Ok(Ok(called)) = answer {
                let id = called.into_task().id;
                book.lock().push(Told { id, owner, expected, once, ended: None, cancelled: false });
            }
        });
    }

    fn random_call(&self) -> (Call, Expected) {
        let text = format!("output-{}", self.calls);
        let slow = |most: u64| 1_000 + self.rng.below(most * 1_000);
        let (arguments, expected) = match self.rng.below(8) {
            0 => (json!({"delay_ms": 0, "text": text}), Expected::Text(text)),
            1 | 2 => (json!({"delay_ms": slow(20), "text": text}), Expected::Text(text)),
            3 => (json!({"delay_ms": slow(600), "text": text, "steps": 10}), Expected::Text(text)),
            4 => (json!({"delay_ms": slow(5), "outcome": "fail", "text": text}), Expected::Failure),
            5 => (json!({"delay_ms": slow(5), "outcome": "gone"}), Expected::Gone),
            6 => (
                json!({"delay_ms": slow(10), "text": text, "question": {"message": "go on?"}}),
                Expected::Answered,
            ),
            _ => (json!({"delay_ms": 86_400_000u64}), Expected::Endless),
        };
        let owner = Owner::new(if self.rng.one_in(3) { "ben" } else { "ana" });
        // A key stands for one call, so it comes with the arguments that go with it.
        let once = self.rng.one_in(4).then(|| format!("once-{}", self.rng.below(3)));
        let (arguments, expected) = match &once {
            Some(key) => (json!({"delay_ms": 3_000, "text": key}), Expected::Text(key.clone())),
            None => (arguments, expected),
        };
        let call = Call {
            owner: owner.clone(),
            // Tells whose call a row was made of, where more than one was.
            origin: Origin { session: Some(format!("call-{}", self.calls)), ..Origin::default() },
            tool: "work".to_owned(),
            backend: "sim".to_owned(),
            spec: Spec { target: json!({}), arguments, sealed: None },
            references: Vec::new(),
            terms: terms(),
            slots: if self.rng.one_in(5) && once.is_none() && expected != Expected::Endless {
                vec!["group:one-at-a-time".to_owned()]
            } else {
                Vec::new()
            },
            when_full: WhenFull::Queue,
            most_kept: None,
            confirm: None,
            once: once.map(|key| Once { scope: owner.as_str().to_owned(), digest: key.clone(), key }),
            plain: None,
        };
        (call, expected)
    }

    /// A client cancels one of its tasks. Endless ones are cancelled first.
    pub(super) async fn cancel(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let endless = |told: &&Told| told.expected == Expected::Endless && !told.cancelled;
        let told = self.book.lock().iter().find(endless).cloned();
        let Some(Told { id, owner, .. }) = told.or_else(|| self.any_told()) else { return };
        let mode = if self.rng.one_in(2) { Cancel::Settle } else { Cancel::Request };
        // Whether the client hears of it or not: the wish may have been written.
        self.with(&id, |told| told.cancelled = true);
        if let Some(Ok(Cancelled::Done(task) | Cancelled::AlreadyEnded(task))) =
            self.patiently(service.cancel(&owner, &id, mode)).await
        {
            self.saw(&task);
        }
    }

    /// A client answers all that its tasks ask, and looks whether it can see what is not its own.
    pub(super) async fn answer(&self, at: usize) {
        let Some(service) = self.service(at) else { return };
        let told = self.book.lock().clone();
        for Told { id, owner, ended, .. } in told {
            let other = Owner::new(if owner.as_str() == "ana" { "ben" } else { "ana" });
            if let Some(Ok(Some(_))) = self.patiently(service.get(&other, &id)).await {
                self.with(&id, |told| told.expected = Expected::Private);
            }
            let Some(Ok(seen)) = self.patiently(service.get(&owner, &id)).await else { continue };
            let Some(view) = seen.filter(|view| ended.is_none() || view.task.outcome() == ended) else {
                self.with(&id, |told| told.expected = Expected::Unseen);
                continue;
            };
            self.saw(&view.task);
            for asked in view.task.open_questions() {
                let yes = Answer::Accept(serde_json::Map::new());
                let _ = self.patiently(service.answer(&owner, &id, &asked.key, yes)).await;
            }
        }
    }

    /// A client was shown this.
    fn saw(&self, task: &Task) {
        self.with(&task.id, |told| told.ended = told.ended.or(task.outcome()));
    }

    /// Notes something of a task, for each client that was told of it.
    fn with(&self, id: &TaskId, note: impl Fn(&mut Told)) {
        self.book.lock().iter_mut().filter(|told| told.id == *id).for_each(note);
    }

    fn any_told(&self) -> Option<Told> {
        let book = self.book.lock();
        (!book.is_empty()).then(|| book[self.rng.below(book.len() as u64) as usize].clone())
    }

    fn service(&self, at: usize) -> Option<Service> {
        Some(self.serving(at)?.service.clone())
    }

    /// A client gives up after a while: its process may be dead or frozen.
    async fn patiently<T>(&self, request: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_secs(2), request).await.ok()
    }
}
