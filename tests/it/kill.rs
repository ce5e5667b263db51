//! Crash test: `kill -9` of the real server at random moments under load. Every task id that a client
//! received exists afterwards. No call has two jobs, every job's result arrives, and a terminal state never
//! changes.
//!
//! Jobs run outside of the server, so that they can be counted. Commands append a line to a file of their
//! own. Simulated engines run as separate processes and keep a journal. Engine calls are often cut off
//! half-way. `$TASKBRIDGE_KILLS` sets the number of kills, `$TASKBRIDGE_KILL_SEED` the seed.

#![allow(clippy::print_stdout, reason = "the figures are part of the test's output")]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::{BASICS, Client, Fault, PROGRAM, Random, SimProcess, TestDir, knob, text};

/// Number of concurrent clients of one server.
const CALLERS: u64 = 6;

/// Maximum number of calls between two kills, which bounds the jobs to wait for at the end.
const CALLS_PER_LIFE: usize = 60;

/// Maximum life of a server after it listens, in milliseconds.
const LIFE_MS: u64 = 500;

/// Timeout of the last result after the last kill.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A command on this machine.
    Command,
    /// A job of an engine with idempotency keys.
    Keyed,
    /// A job of an engine without idempotency keys.
    Unkeyed,
}

/// One call: its request and what the client knows about it.
#[derive(Clone, Debug)]
struct Call {
    kind: Kind,
    /// The call has an idempotency key and is repeated until its task is known.
    repeated: bool,
    /// A caller is making this call.
    busy: bool,
    task: Option<String>,
    /// The status in which its task ended, once a client has seen it.
    end_status: Option<String>,
}

/// What the clients know. A call's number is its index here.
#[derive(Default)]
struct CallRecords {
    calls: Vec<Call>,
    /// Calls that may still be made before the next kill.
    remaining_calls: usize,
}

impl CallRecords {
    /// Returns the next call: a repeatable one whose reply was lost, or else a new one.
    fn next(&mut self, random: &mut Random) -> Option<(usize, Call)> {
        self.remaining_calls = self.remaining_calls.checked_sub(1)?;
        let lost = self.calls.iter().position(|call| call.repeated && !call.busy && call.task.is_none());
        let number = lost.unwrap_or_else(|| {
            let kind = [Kind::Command, Kind::Keyed, Kind::Unkeyed][random.below(3) as usize];
            let repeated = random.below(2) == 0;
            self.calls.push(Call { kind, repeated, busy: false, task: None, end_status: None });
            self.calls.len() - 1
        });
        self.calls[number].busy = true;
        Some((number, self.calls[number].clone()))
    }

    /// Returns the calls whose task is known.
    fn known_tasks(&self) -> Vec<(usize, Call, String)> {
        let calls = self.calls.iter().enumerate();
        calls.filter_map(|(number, call)| Some((number, call.clone(), call.task.clone()?))).collect()
    }
}

/// Returns the text that identifies a call: the name of its file and the output of its job.
fn name(number: usize) -> String {
    format!("call-{number}")
}

async fn start_call(client: &Client, number: usize, call: &Call) -> Result<String, Fault> {
    let name = name(number);
    let delay_ms = 20 + number % 7 * 90;
    let (tool, arguments) = match call.kind {
        Kind::Command => ("command", json!({"file": name})),
        Kind::Keyed => ("keyed", json!({"text": name, "delay_ms": delay_ms})),
        Kind::Unkeyed => ("unkeyed", json!({"text": name, "delay_ms": delay_ms})),
    };
    match call.repeated {
        true => client.start_once(&name, tool, arguments).await,
        false => client.start(tool, arguments).await,
    }
}

/// Reads a task of a call. A terminal status that was seen before must not change.
async fn check_task(
    client: &Client,
    records: &Mutex<CallRecords>,
    (number, call, task): (usize, Call, String),
) -> Result<(), Fault> {
    let current = client.get(&task).await?;
    let status = current["status"].as_str().unwrap().to_owned();
    if let Some(previous) = &call.end_status {
        assert_eq!(&status, previous, "the task of call {number} had ended: {current}");
    }
    if ["completed", "failed", "cancelled"].contains(&status.as_str()) {
        records.lock().calls[number].end_status = Some(status);
    }
    Ok(())
}

/// Makes one call, if one is still allowed, and reads another task.
async fn step(client: &Client, records: &Mutex<CallRecords>, random: &mut Random) -> Result<(), Fault> {
    let next = records.lock().next(random);
    if let Some((number, call)) = next {
        let started = start_call(client, number, &call).await;
        let mut records = records.lock();
        records.calls[number].busy = false;
        records.calls[number].task = Some(started?);
    }
    let mut known = records.lock().known_tasks();
    if known.is_empty() {
        return Ok(());
    }
    let index = random.below(known.len() as u64) as usize;
    check_task(client, records, known.swap_remove(index)).await
}

/// Makes and reads tasks until the server is gone.
async fn caller(client: Client, records: Arc<Mutex<CallRecords>>, mut random: Random) {
    loop {
        match step(&client, &records, &mut random).await {
            Ok(()) => {}
            Err(Fault::Lost(_)) => return,
            Err(fault) => panic!("a request was not answered as it should be: {fault:?}"),
        }
    }
}

fn config(keyed: &SimProcess, unkeyed: &SimProcess) -> String {
    format!(
        r#"{BASICS}
[reconciler]
lease = "2s"
quickest_look = "20ms"
slowest_look = "1s"

[backends.machine]
kind = "local"
working_dir = "runs"

[backends.keyed]
kind = "sim"
address = "{}"

[backends.unkeyed]
kind = "sim"
address = "{}"

[tools.command]
backend = "machine"
target.command = ["sh", "-c", "echo ran >>\"$0\"; sleep 0.1; echo \"$0\"", "{{{{ file }}}}"]
parameters.file.type = "string"

[tools.keyed]
backend = "keyed"
target = {{}}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"

[tools.unkeyed]
backend = "unkeyed"
target = {{}}
settle_window = "5s"
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#,
        keyed.address, unkeyed.address
    )
}

/// Counts at the end of the test.
#[derive(Default, Debug)]
struct Totals {
    tasks: usize,
    reported: usize,
    commands: usize,
    keyed: usize,
    unkeyed: usize,
    uncertain: usize,
}

/// After repeated kills every reported task exists with its result, and no job has run twice.
#[tokio::test(flavor = "multi_thread")]
async fn kills_lose_and_repeat_no_job() {
    let kills: u64 = knob("TASKBRIDGE_KILLS", 8);
    let seed: u64 = knob("TASKBRIDGE_KILL_SEED", 1);
    println!("kill: {kills} kills, replay with TASKBRIDGE_KILL_SEED={seed}");
    let mut random = Random::new(seed);
    let dir = TestDir::new("");
    let (keyed, unkeyed) = (SimProcess::start(&dir, "keyed"), SimProcess::start(&dir, "unkeyed"));
    std::fs::write(dir.config(), config(&keyed, &unkeyed)).unwrap();
    std::fs::create_dir(dir.path("runs")).unwrap();

    let records = Arc::new(Mutex::new(CallRecords::default()));
    let mut session: Option<Client> = None;
    for kill in 1..=kills {
        let mut server = dir.launch();
        if kill % 5 == 0 {
            // Killed before it listens or just then: startup must survive a kill too.
            tokio::time::sleep(random.millis(150)).await;
            server.kill();
            continue;
        }
        // Sometimes two servers share the file, as several stdio servers do.
        let mut servers = vec![server];
        if random.below(3) == 0 {
            servers.push(dir.launch());
        }
        records.lock().remaining_calls = CALLS_PER_LIFE;
        let mut callers = JoinSet::new();
        for server in &mut servers {
            server.wait_until_it_listens();
            // A session also survives its server and works with another one.
            let client = match &session {
                Some(session) => session.at(server.url()),
                None => Client::open(server.url()).await.unwrap(),
            };
            for _ in 0..CALLERS {
                callers.spawn(caller(client.clone(), Arc::clone(&records), Random::new(random.next())));
            }
            session = Some(client);
        }
        for server in &mut servers {
            tokio::time::sleep(random.millis(LIFE_MS)).await;
            server.kill();
        }
        while let Some(ended) = callers.join_next().await {
            ended.expect("a caller ends when its server is gone");
        }
    }

    let mut server = dir.serve();
    let client = session.expect("some server lived").at(server.url());
    let started_at = Instant::now();
    let totals =
        tokio::time::timeout(DRAIN_TIMEOUT, collect_totals(&client, &records, &dir, &keyed, &unkeyed)).await;
    let totals = totals.expect("the results arrive in time");
    let mut check = std::process::Command::new(PROGRAM);
    dir.prepare(check.args(["store", "check", "--config"]).arg(dir.config()));
    let checked = dir.run(check).await;
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    println!("kill: {totals:?}, settled within {:.1} s", started_at.elapsed().as_secs_f64());
    assert!(
        totals.reported > 0 && totals.commands > 0 && totals.keyed > 0 && totals.unkeyed > 0,
        "{totals:?}"
    );
    assert_eq!(server.stop(), Some(0), "it stops when it is told to");
}

/// Waits for every task that was created, and compares the tasks with the replies and with the jobs that
/// ran.
async fn collect_totals(
    client: &Client,
    records: &Mutex<CallRecords>,
    dir: &TestDir,
    keyed: &SimProcess,
    unkeyed: &SimProcess,
) -> Totals {
    // A client that lost a reply repeats the call, and gets the task of the first call if one was created.
    let lost: Vec<_> = {
        let records = records.lock();
        let calls = records.calls.iter().enumerate().filter(|(_, call)| call.repeated && call.task.is_none());
        calls.map(|(number, call)| (number, call.clone())).collect()
    };
    for (number, call) in lost {
        let task = start_call(client, number, &call).await.unwrap();
        records.lock().calls[number].task = Some(task);
    }

    let tasks: HashSet<String> =
        client.list().await.unwrap().iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect();
    let known = records.lock().known_tasks();
    let distinct: HashSet<&String> = known.iter().map(|(_, _, task)| task).collect();
    assert_eq!(distinct.len(), known.len(), "two calls were told the same task");
    let missing: Vec<_> = distinct.iter().filter(|task| !tasks.contains(**task)).collect();
    assert!(missing.is_empty(), "tasks that were told are not listed: {missing:?}");

    let mut totals = Totals { tasks: tasks.len(), reported: known.len(), ..Totals::default() };
    for (number, call, task) in known {
        let result = client.result(&task).await;
        check_task(client, records, (number, call.clone(), task)).await.expect("it exists");
        match result {
            Ok(result) => {
                assert_eq!(text(&result).trim_end(), name(number), "the result of {call:?}");
                assert_ne!(result["isError"], true, "{result}");
            }
            // The outcome of a start whose reply was lost is unknowable for an engine without keys.
            Err(Fault::Refused { message, .. }) if call.kind == Kind::Unkeyed => {
                assert!(message.contains("uncertain"), "call {number} ended so: {message}");
                totals.uncertain += 1;
            }
            Err(fault) => panic!("call {number} ({call:?}) has no result: {fault:?}"),
        }
    }
    // Also waits for tasks that were committed but never reported to a client: their jobs count below.
    let mut uncertain = 0;
    for task in &tasks {
        if let Err(fault) = client.result(task).await {
            assert!(
                matches!(&fault, Fault::Refused { message, .. } if message.contains("uncertain")),
                "{fault:?}"
            );
            uncertain += 1;
        }
    }
    totals.uncertain = totals.uncertain.max(uncertain);

    for entry in std::fs::read_dir(dir.path("runs")).unwrap() {
        let file = entry.unwrap().path();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ran\n", "{} ran more than once", file.display());
        totals.commands += 1;
    }
    totals.keyed = count_distinct_starts(keyed);
    totals.unkeyed = count_distinct_starts(unkeyed);
    // Every job belongs to a task. Every task has a job, except uncertain ones, which may have one.
    let jobs = totals.commands + totals.keyed + totals.unkeyed;
    assert!(jobs <= totals.tasks && totals.tasks <= jobs + totals.uncertain, "{jobs} jobs: {totals:?}");
    totals
}

/// Returns the number of an engine's jobs, whose keys must be distinct.
fn count_distinct_starts(engine: &SimProcess) -> usize {
    let started = engine.started();
    let keys: HashSet<&String> = started.iter().collect();
    assert_eq!(keys.len(), started.len(), "a key was started twice: {started:?}");
    started.len()
}
