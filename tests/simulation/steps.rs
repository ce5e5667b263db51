//! The steps of a world: calls, kills, and faults of the engines, the store and the clocks. It must not
//! check anything.

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskbridge_sdk::sim::{Fault, Operation};

use super::node::{LEASE, Node};
use super::world::{Machine, World};

const HOUR: i64 = 3_600_000;

impl World {
    /// Runs one random step, and then waits for a while.
    pub(super) async fn step(&mut self) -> Result<(), String> {
        let at = self.any_machine();
        match self.rng.below(30) {
            0..=5 => self.call(at),
            6 | 7 => self.cancel(at).await,
            8 | 9 => self.answer(at).await,
            10 => self.with_points(at, |points, rng| points.die_in(1 + rng.below(30))),
            11 => self.with_points(at, |points, _| points.freeze(true)),
            12 | 13 => self.with_points(at, |points, _| points.freeze(false)),
            14..=16 => self.inject(),
            17 | 18 => self.start_node(at).await,
            19 | 20 => self.call_and_wait(at),
            21 => self.operate(at).await,
            22 => (0..12).for_each(|_| self.call(at)),
            23 | 24 if self.plan.rough => self.inject_rough_fault(at),
            25 if self.plan.skew => self.change_config(at),
            26 if self.plan.steps => self.step_store_clock(),
            27 if self.plan.long_outages => self.cause_long_outage(at).await?,
            _ => {}
        }
        let pause_ms = [0, 5, 100, 1_000, 8_000, 20_000][self.rng.below(6) as usize];
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        Ok(())
    }

    fn any_machine(&self) -> usize {
        self.rng.below(self.machines.len() as u64) as usize
    }

    /// Injects a random fault that only replicas have.
    pub(super) fn inject_replica_fault(&self) {
        let at = self.any_machine();
        let Machine { node, clock, store_faults, .. } = &self.machines[at];
        match self.rng.below(20) {
            0 | 1 => clock.set_randomly(&self.rng),
            2 => store_faults.cut(&self.rng),
            3 => self.machines.iter().for_each(|machine| machine.store_faults.cut(&self.rng)),
            4 => store_faults.clear(),
            5 | 6 => self.machines.iter().for_each(|machine| machine.store_faults.clear()),
            7 | 8 => store_faults.lose_replies(&self.rng),
            9 | 10 => store_faults.delay_reply(&self.rng),
            11 => node.iter().for_each(Node::stop),
            _ => {}
        }
    }

    /// Injects a fault into the engine that has all of them.
    fn inject(&self) {
        let random_duration = |max_seconds: u64| Duration::from_secs(1 + self.rng.below(max_seconds));
        let fault = match self.rng.below(8) {
            0 | 1 => Fault::LostReply,
            2 => Fault::LostBefore,
            3 if self.plan.long_outages && self.rng.one_in(3) => {
                Fault::Limited(Duration::from_secs(4 * 3600))
            }
            3 => Fault::Limited(random_duration(20)),
            4 => Fault::Outage,
            5 => Fault::Slow(random_duration(20)),
            6 => Fault::Late(random_duration(LEASE.as_secs() * 3)),
            _ => {
                self.engines[0].sim.set_outage(self.rng.one_in(2));
                return;
            }
        };
        use Operation::{Answer, Cancel, Find, Observe, Start};
        let operation = [Start, Start, Find, Observe, Cancel, Answer][self.rng.below(6) as usize];
        self.engines[0].sim.inject(operation, fault);
    }

    /// Injects a fault beyond those of the simulated engine.
    fn inject_rough_fault(&self, at: usize) {
        let faults = &self.engines[1].faults;
        let is_cut = &self.machines[at].is_cut;
        match self.rng.below(8) {
            0 | 1 => faults.hang(true),
            2 => faults.hang(false),
            3 => faults.crash(1 + self.rng.below(4)),
            4 | 5 => self.engines[0].faults.degrade_polls(self.rng.below(4), self.rng.below(4)),
            6 => is_cut[self.rng.below(3) as usize].store(true, Ordering::Relaxed),
            _ => is_cut.iter().for_each(|cut| cut.store(false, Ordering::Relaxed)),
        }
    }

    /// Changes the engines in a machine's config; a running process reloads it.
    fn change_config(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        for is_configured in &mut machine.configured {
            *is_configured = !self.rng.one_in(3);
        }
        let configured = machine.configured;
        let names = self.engines.iter().map(|engine| engine.name);
        let configured_names: Vec<_> =
            names.zip(configured).filter_map(|(name, configured)| configured.then_some(name)).collect();
        machine.node.iter().for_each(|node| node.reload(|name| configured_names.contains(&name)));
    }

    fn step_store_clock(&mut self) {
        let choices = [0, 0, 40_000, -40_000, HOUR, -HOUR];
        self.set_store_clock(choices[self.rng.below(6) as usize]);
    }

    /// Stops all processes, the engine or a connection to the store for longer than the deadlines.
    async fn cause_long_outage(&mut self, at: usize) -> Result<(), String> {
        let minutes = [20, 50, 200][self.rng.below(3) as usize];
        match self.rng.below(3) {
            0 => self.engines[0].sim.set_outage(true),
            1 => self.machines.iter_mut().for_each(|machine| machine.node = None),
            _ => self.machines[at].store_faults.cut(&self.rng),
        }
        // Checks often enough to see each task before it is deleted.
        for _ in 0..minutes / 5 {
            tokio::time::sleep(Duration::from_secs(300)).await;
            self.check_now().await?;
        }
        self.engines[0].sim.set_outage(false);
        self.machines[at].store_faults.clear();
        Ok(())
    }
}
