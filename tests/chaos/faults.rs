//! The faults and their schedule: none at first, then two engines only, then everything, by a script that
//! follows from the seed and is spread over the calls. At most two faults are active at a time, and at most
//! one of an engine. It must not judge the results.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use taskbridge_sdk::sim::{Fault, Operation};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::load::{Load, Phase};
use super::plan::EngineName;
use super::roll;
use super::world::{LEASE, REPLICAS, Replica, World};
use crate::support::postgres::{Postgres, Stop};
use crate::support::{Proxy, ProxyMode, Random};

/// The length of a run, and the number of faults of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) calls: usize,
    pub(super) callers: usize,
    /// The number of calls in each of the two phases before all faults.
    pub(super) quiet: usize,
    pub(super) kills: usize,
    pub(super) freezes: usize,
    pub(super) restarts: usize,
    pub(super) cuts: usize,
    pub(super) resets: usize,
    pub(super) fills: usize,
    pub(super) jumps: usize,
    pub(super) hangs: usize,
    pub(super) panics: usize,
    pub(super) steps: usize,
    pub(super) rolls: usize,
}

#[derive(Clone, Copy, Debug)]
enum Breakage {
    Kill,
    Freeze,
    Restart,
    Cut,
    Reset,
    Fill,
    Jump,
    Hang,
    Panic,
    Step,
    Roll,
}

/// Injects all faults in turn while calls are made.
pub(super) async fn inject_all(world: Arc<World>, load: &Load, sizes: Sizes, mut random: Random) {
    let script = script(sizes, &mut random);
    load.allow(sizes.quiet);
    load.wait_until_ended(sizes.quiet).await;
    let calls_before = 2 * sizes.quiet;
    if sizes.quiet > 0 {
        break_engines(&world, load, calls_before).await;
    }
    load.set_phase(Phase::AllFaults);
    let calls_per_fault = load.calls.saturating_sub(calls_before) / (script.len() + 1);
    let (all_permits, engine_permits) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(1)));
    let mut running_faults = JoinSet::new();
    load.allow(calls_before + 2 * calls_per_fault);
    for (at, breakage) in script.into_iter().enumerate() {
        load.wait_until_started(calls_before + (at + 1) * calls_per_fault).await;
        let is_engine_fault = matches!(breakage, Breakage::Hang | Breakage::Panic);
        let permits = if is_engine_fault { &engine_permits } else { &all_permits };
        let permit = Arc::clone(permits).acquire_owned().await.unwrap();
        load.allow(calls_before + (at + 3) * calls_per_fault);
        let (world, random) = (Arc::clone(&world), Random::new(random.next()));
        running_faults.spawn(async move {
            inject(&world, breakage, random).await;
            drop(permit);
        });
    }
    while let Some(result) = running_faults.join_next().await {
        result.unwrap();
    }
    if sizes.rolls > 0 {
        roll::add(&world, &mut random).await;
    }
    load.allow(load.calls);
    load.wait_until_all_ended().await;
}

/// Hangs one engine and makes the adapter of another panic, until this number of calls have ended at the
/// healthy engines.
async fn break_engines(world: &World, load: &Load, calls: usize) {
    load.set_phase(Phase::EngineFaults);
    let hanging_engine = world.engine(EngineName::Hanging);
    hanging_engine.process.signal(Signal::STOP);
    load.allow(calls);
    let wait_for_calls = async {
        load.wait_until_ended(calls).await;
        // Longer than all leases, no matter how few calls there are.
        tokio::time::sleep(LEASE).await;
    };
    let repeat_panics = async {
        loop {
            inject_panics(world, 2).await;
            tokio::time::sleep(LEASE).await;
        }
    };
    tokio::select! {
        () = wait_for_calls => {}
        () = repeat_panics => {}
    }
    let open_tasks = world.open_tasks(EngineName::Hanging).await;
    world.add("tasks at the engine that hung, before all else broke", open_tasks.try_into().unwrap());
    hanging_engine.process.signal(Signal::CONT);
}

fn script(sizes: Sizes, random: &mut Random) -> Vec<Breakage> {
    use Breakage::{Cut, Fill, Freeze, Hang, Jump, Kill, Panic, Reset, Restart, Roll, Step};
    let numbers = [
        (Kill, sizes.kills),
        (Freeze, sizes.freezes),
        (Restart, sizes.restarts),
        (Cut, sizes.cuts),
        (Reset, sizes.resets),
        (Fill, sizes.fills),
        (Jump, sizes.jumps),
        (Hang, sizes.hangs),
        (Panic, sizes.panics),
        (Step, sizes.steps),
        (Roll, sizes.rolls),
    ];
    let mut script: Vec<Breakage> =
        numbers.into_iter().flat_map(|(breakage, times)| std::iter::repeat_n(breakage, times)).collect();
    for at in (1..script.len()).rev() {
        script.swap(at, random.below(at as u64 + 1) as usize);
    }
    script
}

async fn inject(world: &World, breakage: Breakage, mut random: Random) {
    let replica = &world.replicas[random.below(REPLICAS as u64) as usize];
    match breakage {
        Breakage::Kill => kill(world, replica, &mut random).await,
        Breakage::Freeze => freeze(world, replica, &mut random).await,
        Breakage::Restart => restart(world, &mut random).await,
        Breakage::Cut => cut(world, replica, &mut random).await,
        Breakage::Reset => reset(world, replica, &mut random),
        Breakage::Fill => fill(world, &mut random).await,
        Breakage::Jump => jump(world, &mut random),
        Breakage::Hang => hang(world, &mut random).await,
        Breakage::Panic => panic(world, &mut random).await,
        Breakage::Step => step(world, &mut random).await,
        Breakage::Roll => roll::roll(world, &mut random).await,
    }
}

async fn kill(world: &World, replica: &Replica, random: &mut Random) {
    let mut server = replica.server.lock().await;
    replica.kill(&mut server);
    world.count("replicas killed");
    tokio::time::sleep(random.millis(3_000)).await;
    replica.start(&mut server, world).await;
}

/// Freezes a replica past its lease: others take over its work, and then it continues with stale state.
async fn freeze(world: &World, replica: &Replica, random: &mut Random) {
    let server = replica.server.lock().await;
    let server = server.as_ref().expect("it runs while nobody else does something to it");
    server.signal(Signal::STOP);
    tokio::time::sleep(LEASE + Duration::from_millis(500) + random.millis(4_000)).await;
    server.signal(Signal::CONT);
    world.count("replicas frozen");
}

async fn restart(world: &World, random: &mut Random) {
    let mut database = world.database.lock().await;
    let mode = if random.below(2) == 0 { Stop::Fast } else { Stop::Immediate };
    tokio::task::block_in_place(|| database.stop_with(mode));
    tokio::time::sleep(random.millis(3_000)).await;
    tokio::task::block_in_place(|| database.run());
    world.count("restarts of the database");
}

/// Cuts the connection of one or all replicas to the database, which becomes silent or refuses connections.
async fn cut(world: &World, replica: &Replica, random: &mut Random) {
    let proxies: Vec<&Proxy> = match random.below(2) {
        0 => vec![&replica.database_proxy],
        _ => world.replicas.iter().map(|replica| &replica.database_proxy).collect(),
    };
    let refuse_connections = random.below(2) == 0;
    for proxy in &proxies {
        proxy.set(if refuse_connections { ProxyMode::Shut } else { ProxyMode::Silent });
        if refuse_connections {
            proxy.reset();
        }
    }
    tokio::time::sleep(Duration::from_secs(1) + random.millis(5_000)).await;
    for proxy in proxies {
        proxy.set(ProxyMode::Open);
    }
    world.count("times that the way to the database was cut");
}

/// Resets all open connections of one proxy.
fn reset(world: &World, replica: &Replica, random: &mut Random) {
    let proxy = match random.below(4) {
        0 => &replica.client_proxy,
        1 => &replica.database_proxy,
        2 => &world.engine(EngineName::Keyed).proxy,
        _ => &world.engine(EngineName::Unkeyed).proxy,
    };
    proxy.reset();
    world.count("ways whose connections were all reset");
}

/// Fills the database's disk. The database rolls back what it cannot write, or stops and recovers.
async fn fill(world: &World, random: &mut Random) {
    let mut database = world.database.lock().await;
    world.disk.fill();
    tokio::time::sleep(Duration::from_secs(2) + random.millis(3_000)).await;
    world.disk.free();
    recover(&mut database);
    world.count("times that the disk was full");
}

/// Restarts the database if it has stopped, as its operator would.
fn recover(database: &mut Postgres) {
    tokio::task::block_in_place(|| {
        if !database.is_running() {
            database.stop();
            database.run();
        }
    });
}

/// Sets the clock of a replica's machine by hours, days or years.
fn jump(world: &World, random: &mut Random) {
    let hours = [2, 24, 9_000][random.below(3) as usize] * if random.below(2) == 0 { 1 } else { -1 };
    let clock =
        world.replicas.iter().find_map(|replica| replica.clock.as_ref()).expect("one has such a clock");
    clock.set(hours * 3_600);
    world.count("times that the clock of a replica was set");
}

/// Hangs an engine: it accepts connections and requests, answers none, and later continues.
async fn hang(world: &World, random: &mut Random) {
    let engine = world.engine(EngineName::Hanging);
    engine.process.signal(Signal::STOP);
    tokio::time::sleep(LEASE + random.millis(6_000)).await;
    engine.process.signal(Signal::CONT);
    world.count("times that an engine hung");
}

/// Makes the adapter panic a few times.
async fn panic(world: &World, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        inject_panics(world, 1 + random.below(3)).await;
        tokio::time::sleep(LEASE / 2).await;
    }
}

/// Makes the adapter panic at this number of polls, and at the next request of each other kind.
async fn inject_panics(world: &World, polls: u64) {
    let client = &world.engine(EngineName::Crashing).client;
    for _ in 0..polls {
        client.inject(Operation::Observe, Fault::Panic).await.unwrap();
    }
    for operation in [Operation::Start, Operation::Cancel, Operation::Answer, Operation::Find] {
        client.inject(operation, Fault::Panic).await.unwrap();
    }
    world.add("panics of the adapter that were injected", polls + 4);
}

/// Steps the clock of the database's machine ahead, and back by less. Due times that were written
/// while it was ahead can come late by the amount that it is set back.
async fn step(world: &World, random: &mut Random) {
    world.clock.step([60, 600, 3_600, 86_400][random.below(4) as usize]);
    tokio::time::sleep(LEASE + random.millis(2_000)).await;
    world.clock.step(-12 - random.below(10) as i64);
    world.count("times that the clock of the database was stepped ahead and back");
}
