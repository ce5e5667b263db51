//! A plugin: it reads calls, executes them in the simulated engine, and replies, with faults and with the
//! effects of planted bugs of a host.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use taskbridge_sdk::{Backend, Error, JobKey, JobSpec, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::super::bugs::Bug;
use super::super::rng::Rng;
use super::faults::{Fault, PluginFaults};
use super::messages::{Call, Observe, OfJob, Start, entry, line, reply};
use super::{LIMIT, PluginEngine};

/// What a run does next.
enum Next {
    Write(Vec<u8>),
    Die,
}

type Sender = mpsc::UnboundedSender<Next>;

/// The plugin of one process and one engine.
pub(super) struct Plugin {
    backend: Arc<dyn Backend>,
    is_keyed: bool,
    faults: Arc<PluginFaults>,
    rng: Arc<Rng>,
    bug: Option<Bug>,
    /// True until the first message, which has no fault.
    is_new: AtomicBool,
    /// Calls without a reply, by id, for [`Bug::LateReplyTakenForNext`].
    open: Mutex<BTreeMap<u64, (String, Instant)>>,
}

impl Plugin {
    pub(super) fn new(engine: PluginEngine<'_>, rng: Arc<Rng>, bug: Option<Bug>) -> Self {
        Self {
            backend: engine.sim.backend(),
            is_keyed: engine.is_keyed,
            faults: engine.faults,
            rng,
            bug,
            is_new: AtomicBool::new(true),
            open: Mutex::default(),
        }
    }

    /// Runs until it dies or its input ends. Calls in progress end with it.
    pub(super) async fn run(self: Arc<Self>, input: DuplexStream, mut output: DuplexStream) {
        let mut lines = BufReader::new(input).lines();
        let (sender, mut next) = mpsc::unbounded_channel();
        let mut calls: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        let wakeups = self.backend.abilities().wakeups.expect("the simulated engine gives hints");
        self.open.lock().clear();
        loop {
            tokio::select! {
                biased;
                Some(next) = next.recv() => {
                    let Next::Write(bytes) = next else { return };
                    if output.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                read = lines.next_line() => match read {
                    Ok(Some(text)) => {
                        let call = serde_json::from_str(&text).expect("the host writes messages");
                        calls.push(self.serve(call, sender.clone()).boxed());
                    }
                    _ => return,
                },
                Some(()) = calls.next(), if !calls.is_empty() => {}
                handle = wakeups.next() => {
                    let hint = json!({"jsonrpc": "2.0", "method": "changed", "params": {"jobs": [handle]}});
                    if !self.faults.loses_hint(&self.rng) && output.write_all(&line(&hint)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn serve(&self, call: Call, sender: Sender) {
        let is_first = self.is_new.swap(false, Ordering::Relaxed);
        let fault = self.faults.next(&self.rng, is_first);
        self.open.lock().insert(call.id, (call.method.clone(), Instant::now() + LIMIT));
        let send = |next| drop(sender.send(next));
        match fault {
            Some(Fault::DieBefore) => return send(Next::Die),
            Some(Fault::LostRequest) => return,
            Some(Fault::LateRequest(time)) if call.method == "start" => sleep(time).await,
            Some(Fault::LateRequest(_)) => return,
            _ => {}
        }
        let result = self.execute(&call).await;
        match fault {
            Some(Fault::DieAfter) => return send(Next::Die),
            Some(Fault::LostReply) => return,
            Some(Fault::LateReply(time) | Fault::Slow(time)) => sleep(time).await,
            _ => {}
        }
        let id = self.id_of_reply(call.id);
        let message = line(&reply(id, &result));
        match fault {
            Some(Fault::HalfReply) => {
                send(Next::Write(message[..message.len() / 2].to_owned()));
                send(Next::Die);
            }
            Some(Fault::Twice) => {
                send(Next::Write(message.clone()));
                send(Next::Write(message));
            }
            Some(Fault::Garbage) => {
                let stranger = line(&reply(id + 100_000, &Ok(Value::Null)));
                for bytes in [b"garbage\n[]\n{}\n".to_vec(), stranger, message, b"{\"id\":null}\n".to_vec()] {
                    send(Next::Write(bytes));
                }
            }
            _ => send(Next::Write(message)),
        }
    }

    /// Returns the id of a reply. With a planted bug, a late one gets the id of the next call of its method.
    fn id_of_reply(&self, id: u64) -> u64 {
        let mut open = self.open.lock();
        let Some((method, deadline)) = open.remove(&id) else { return id };
        if self.bug != Some(Bug::LateReplyTakenForNext) || deadline > Instant::now() {
            return id;
        }
        let next = open.iter().find(|(_, call)| call.0 == method && call.1 > Instant::now());
        next.map_or(id, |(next, _)| *next)
    }

    async fn execute(&self, call: &Call) -> Result<Value> {
        match call.method.as_str() {
            "initialize" => Ok(self.initialize()),
            "start" => {
                let started = self.backend.start(&self.job_to_start(params(call))).await;
                started.map(value)
            }
            "find" => self.backend.find(&params::<Start>(call).into()).await.map(value),
            "observe_all" => {
                let params: Observe = params(call);
                let observations = self.backend.observe_all(&params.group, &params.subjects()).await;
                Ok(observations.into_iter().map(entry).collect())
            }
            "cancel" => self.backend.cancel(&params::<OfJob>(call).handle).await.map(|()| Value::Null),
            "answer" => {
                let OfJob { handle, question, answer } = params(call);
                let (Some(question), Some(answer)) = (question, answer) else {
                    return Err(Error::rejected("an answer has a question"));
                };
                let questions = self.backend.abilities().questions.expect("the engine takes answers");
                questions.answer(&handle, &question, &answer).await.map(value)
            }
            other => Err(Error::rejected(format!("no method {other}"))),
        }
    }

    fn initialize(&self) -> Value {
        let is_keyed = self.is_keyed || self.bug == Some(Bug::ProgramTakenForKeyed);
        let once = if is_keyed { "key" } else { "none" };
        json!({"protocol": 1, "once": once, "abilities": ["answer", "changed"]})
    }

    fn job_to_start(&self, start: Start) -> JobSpec {
        let mut job = JobSpec::from(start);
        if self.bug == Some(Bug::RetryUnderNewKey) && job.may_exist {
            let mut bytes = [0; 16];
            taskbridge_core::clock::Entropy::fill(&*self.rng, &mut bytes);
            job.key = JobKey::from_bytes(bytes);
        }
        // A plugin without keys does not look whether the job exists.
        job.may_exist &= self.is_keyed;
        job
    }
}

fn params<T: DeserializeOwned>(call: &Call) -> T {
    serde_json::from_value(call.params.clone()).expect("the host writes valid params")
}

fn value(result: impl serde::Serialize) -> Value {
    serde_json::to_value(result).expect("a result can be written")
}
