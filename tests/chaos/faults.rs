//! What breaks when: a script by the seed, spread over the calls, at most two breakages at a time. How each is done; it must
//! not judge what comes of it.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::callers::Load;
use super::world::{LEASE, REPLICAS, Replica, World};
use crate::support::postgres::{Postgres, Stop};
use crate::support::{Proxy, Random, Way};

/// How long a run is, and how often each thing breaks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) calls: usize,
    pub(super) callers: usize,
    pub(super) kills: usize,
    pub(super) freezes: usize,
    pub(super) restarts: usize,
    pub(super) cuts: usize,
    pub(super) resets: usize,
    pub(super) fills: usize,
    pub(super) jumps: usize,
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
}

/// Breaks everything in turn, while calls are made.
pub(super) async fn strike_all(world: Arc<World>, load: &Load, sizes: Sizes, mut random: Random) {
    let script = script(sizes, &mut random);
    let share = load.calls / (script.len() + 1);
    let two = Arc::new(Semaphore::new(2));
    let mut strikes = JoinSet::new();
    load.allow(2 * share);
    for (at, breakage) in script.into_iter().enumerate() {
        load.until((at + 1) * share).await;
        let place = Arc::clone(&two).acquire_owned().await.unwrap();
        load.allow((at + 3) * share);
        let (world, random) = (Arc::clone(&world), Random::new(random.next()));
        strikes.spawn(async move {
            strike(&world, breakage, random).await;
            drop(place);
        });
    }
    while let Some(ended) = strikes.join_next().await {
        ended.unwrap();
    }
    load.allow(load.calls);
}

fn script(sizes: Sizes, random: &mut Random) -> Vec<Breakage> {
    use Breakage::{Cut, Fill, Freeze, Jump, Kill, Reset, Restart};
    let numbers = [
        (Kill, sizes.kills),
        (Freeze, sizes.freezes),
        (Restart, sizes.restarts),
        (Cut, sizes.cuts),
        (Reset, sizes.resets),
        (Fill, sizes.fills),
        (Jump, sizes.jumps),
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
        Breakage::Jump => jump(world, &mut random).await,
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
        2 => &world.keyed.way,
        _ => &world.unkeyed.way,
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

/// A machine's clock is set, by hours, days or years.
async fn jump(world: &World, random: &mut Random) {
    let hours = [2, 24, 9_000][random.below(3) as usize] * if random.below(2) == 0 { 1 } else { -1 };
    let clock =
        world.replicas.iter().find_map(|replica| replica.clock.as_ref()).expect("one has such a clock");
    tokio::fs::write(clock, format!("{:+}h", hours)).await.unwrap();
    world.count("times that a clock was set");
}
