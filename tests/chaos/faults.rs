//! What breaks when: nothing at first, then two engines alone, then everything by a script that follows from the seed, spread
//! over the calls, at most two breakages at a time, and one of an engine. How each is done; it must not judge what comes of it.

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
use crate::support::{Proxy, Random, Way};

/// How long a run is, and how often each thing breaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) calls: usize,
    pub(super) callers: usize,
    /// The calls of each of the two phases before everything breaks.
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

/// Breaks everything in turn, while calls are made.
pub(super) async fn strike_all(world: Arc<World>, load: &Load, sizes: Sizes, mut random: Random) {
    let script = script(sizes, &mut random);
    load.allow(sizes.quiet);
    load.until_over(sizes.quiet).await;
    let before = 2 * sizes.quiet;
    if sizes.quiet > 0 {
        break_engines(&world, load, before).await;
    }
    load.set_phase(Phase::AllFaults);
    let share = load.calls.saturating_sub(before) / (script.len() + 1);
    let (two, engine) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(1)));
    let mut strikes = JoinSet::new();
    load.allow(before + 2 * share);
    for (at, breakage) in script.into_iter().enumerate() {
        load.until(before + (at + 1) * share).await;
        let is_of_engine = matches!(breakage, Breakage::Hang | Breakage::Panic);
        let places = if is_of_engine { &engine } else { &two };
        let place = Arc::clone(places).acquire_owned().await.unwrap();
        load.allow(before + (at + 3) * share);
        let (world, random) = (Arc::clone(&world), Random::new(random.next()));
        strikes.spawn(async move {
            strike(&world, breakage, random).await;
            drop(place);
        });
    }
    while let Some(ended) = strikes.join_next().await {
        ended.unwrap();
    }
    if sizes.rolls > 0 {
        roll::add(&world, &mut random).await;
    }
    load.allow(load.calls);
    load.until_all_over().await;
}

/// One engine hangs and the adapter of another panics, until this many calls have ended at the healthy ones.
async fn break_engines(world: &World, load: &Load, calls: usize) {
    load.set_phase(Phase::EngineFaults);
    let hanging = world.engine(EngineName::Hanging);
    hanging.process.signal(Signal::STOP);
    load.allow(calls);
    let calls_are_over = async {
        load.until_over(calls).await;
        // Past all leases, however few calls there are.
        tokio::time::sleep(LEASE).await;
    };
    let panicking = async {
        loop {
            inject_panics(world, 2).await;
            tokio::time::sleep(LEASE).await;
        }
    };
    tokio::select! {
        () = calls_are_over => {}
        () = panicking => {}
    }
    let waiting = world.open_tasks(EngineName::Hanging).await;
    world.add("tasks at the engine that hung, before all else broke", waiting.try_into().unwrap());
    hanging.process.signal(Signal::CONT);
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

async fn strike(world: &World, breakage: Breakage, mut random: Random) {
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

/// Past its lease: others take over what it had in hand, and then it goes on with that.
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
    let how = if random.below(2) == 0 { Stop::Fast } else { Stop::Immediate };
    tokio::task::block_in_place(|| database.stop_by(how));
    tokio::time::sleep(random.millis(3_000)).await;
    tokio::task::block_in_place(|| database.run());
    world.count("restarts of the database");
}

/// One replica or all of them lose the way to the database, which falls silent or is shut.
async fn cut(world: &World, replica: &Replica, random: &mut Random) {
    let ways: Vec<&Proxy> = match random.below(2) {
        0 => vec![&replica.database],
        _ => world.replicas.iter().map(|replica| &replica.database).collect(),
    };
    let shut = random.below(2) == 0;
    for way in &ways {
        way.set(if shut { Way::Shut } else { Way::Silent });
        if shut {
            way.reset();
        }
    }
    tokio::time::sleep(Duration::from_secs(1) + random.millis(5_000)).await;
    for way in ways {
        way.set(Way::Open);
    }
    world.count("times that the way to the database was cut");
}

/// All connections that there are on one way.
fn reset(world: &World, replica: &Replica, random: &mut Random) {
    let way = match random.below(4) {
        0 => &replica.door,
        1 => &replica.database,
        2 => &world.engine(EngineName::Keyed).way,
        _ => &world.engine(EngineName::Unkeyed).way,
    };
    way.reset();
    world.count("ways whose connections were all reset");
}

/// The database has no room. It undoes what it cannot write, or gives up and comes back.
async fn fill(world: &World, random: &mut Random) {
    let mut database = world.database.lock().await;
    world.disk.fill();
    tokio::time::sleep(Duration::from_secs(2) + random.millis(3_000)).await;
    world.disk.free();
    recover(&mut database);
    world.count("times that the disk was full");
}

/// Whoever runs the database starts it again, should it have given up.
fn recover(database: &mut Postgres) {
    tokio::task::block_in_place(|| {
        if !database.is_there() {
            database.stop();
            database.run();
        }
    });
}

/// The clock of a replica's machine is set, by hours, days or years.
fn jump(world: &World, random: &mut Random) {
    let hours = [2, 24, 9_000][random.below(3) as usize] * if random.below(2) == 0 { 1 } else { -1 };
    let clock =
        world.replicas.iter().find_map(|replica| replica.clock.as_ref()).expect("one has such a clock");
    clock.set(hours * 3_600);
    world.count("times that the clock of a replica was set");
}

/// An engine accepts connections and requests, answers none, and goes on where it was.
async fn hang(world: &World, random: &mut Random) {
    let engine = world.engine(EngineName::Hanging);
    engine.process.signal(Signal::STOP);
    tokio::time::sleep(LEASE + random.millis(6_000)).await;
    engine.process.signal(Signal::CONT);
    world.count("times that an engine hung");
}

/// The adapter panics a few times.
async fn panic(world: &World, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        inject_panics(world, 1 + random.below(3)).await;
        tokio::time::sleep(LEASE / 2).await;
    }
}

/// The next polls, and each of the next other requests to the engine, make its adapter panic.
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

/// The clock of the database's machine steps ahead, and back by less: what was written while it was ahead may come later
/// by as much as it is set back.
async fn step(world: &World, random: &mut Random) {
    world.clock.step([60, 600, 3_600, 86_400][random.below(4) as usize]);
    tokio::time::sleep(LEASE + random.millis(2_000)).await;
    world.clock.step(-12 - random.below(10) as i64);
    world.count("times that the clock of the database was stepped ahead and back");
}
