//! A rolling change of config: the replicas get a backend with its tools one after another, and lose it
//! again one after another. It must not judge the results.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use super::plan::EngineName;
use super::world::{Replica, World};
use crate::support::Random;

/// Time limit for a replica to apply a config.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Adds the backend to all replicas, and removes it from all after a while.
pub(super) async fn roll(world: &World, random: &mut Random) {
    let _config_guard = world.config.lock().await;
    add(world, random).await;
    tokio::time::sleep(Duration::from_secs(1) + random.millis(1_000)).await;
    for replica in &world.replicas {
        // A reload keeps a removed backend connected for its tasks. Only a new process is without it.
        let mut server = replica.server.lock().await;
        replica.configure(world, false);
        replica.restart(&mut server, world).await;
    }
    let open_tasks = world.open_tasks(EngineName::Added).await;
    world.add("tasks whose backend no replica had", open_tasks.try_into().unwrap());
    tokio::time::sleep(random.millis(2_000)).await;
    world.count("rolling changes of the config");
}

/// Adds the backend to all replicas that do not have it, by a reload or a restart.
pub(super) async fn add(world: &World, random: &mut Random) {
    for replica in &world.replicas {
        let mut server = replica.server.lock().await;
        if random.below(2) == 0 {
            reload(replica, server.as_ref().expect("it runs while nobody else does something to it"), world)
                .await;
        } else {
            replica.configure(world, true);
            replica.restart(&mut server, world).await;
        }
    }
}

/// Makes a running replica reload its config.
async fn reload(replica: &Replica, server: &crate::support::Server, world: &World) {
    let count_reloads =
        || replica.count_logged(world, "config applied") + replica.count_logged(world, "config read again");
    let reloads_before = count_reloads();
    replica.configure(world, true);
    server.signal(Signal::HUP);
    let deadline = Instant::now() + RELOAD_TIMEOUT;
    while count_reloads() == reloads_before {
        assert!(Instant::now() < deadline, "a replica does not apply its config");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    world.count("configs applied by a reload");
}
