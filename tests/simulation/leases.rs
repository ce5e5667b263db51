//! The leases of rows and groups, as the store granted them, shared by all processes of a world. Violations
//! are kept as breaches.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_core::tasks::store::{Group, Holder};
use taskbridge_sdk::{JobHandle, JobKey, Timestamp};

use super::node::LEASE;

/// The leases of a world.
#[derive(Default)]
pub(super) struct Leases {
    rows: Mutex<HashMap<JobKey, LeaseEntry>>,
    groups: Mutex<HashMap<Group, LeaseEntry>>,
    breaches: Mutex<Vec<String>>,
    /// Until then the lease owners are unknown, because the store's clock was set.
    unknown_until: Mutex<Option<Timestamp>>,
}

#[derive(Clone)]
struct LeaseEntry {
    by: Holder,
    until: Timestamp,
}

impl LeaseEntry {
    fn is_held_by_other(&self, holder: &Holder, now: Timestamp) -> bool {
        self.by != *holder && self.until > now
    }
}

impl Leases {
    /// Forgets all leases because the store's clock was set, which makes leases end earlier or later.
    /// Replacements of killed processes can come early then, and only the versions protect rows.
    pub(super) fn clock_was_set(&self, now: Timestamp) {
        *self.unknown_until.lock() = Some(now + 4 * LEASE);
        self.rows.lock().clear();
        self.groups.lock().clear();
    }

    fn is_unknown(&self, now: Timestamp) -> bool {
        self.unknown_until.lock().is_some_and(|until| now < until)
    }

    /// Records that a row was leased to this holder.
    pub(super) fn take(&self, key: &JobKey, holder: &Holder, now: Timestamp, lease: Duration) {
        let entry = LeaseEntry { by: holder.clone(), until: now + lease };
        let previous = self.rows.lock().insert(key.clone(), entry);
        if self.is_unknown(now) {
            return;
        }
        if let Some(previous) = previous.filter(|previous| previous.is_held_by_other(holder, now)) {
            let LeaseEntry { by, until } = previous;
            self.report(format!("{holder:?} was given a row that {by:?} holds until {until}"));
        }
    }

    /// Records that this holder released a row.
    pub(super) fn release(&self, key: &JobKey, holder: &Holder) {
        let mut rows = self.rows.lock();
        if rows.get(key).is_some_and(|entry| entry.by == *holder) {
            rows.remove(key);
        }
    }

    /// Records that this holder watches exactly these groups. A store need not renew a lease with two thirds
    /// of it left.
    pub(super) fn watch(&self, groups: &[Group], holder: &Holder, now: Timestamp, lease: Duration) {
        let mut group_leases = self.groups.lock();
        group_leases.retain(|group, entry| entry.by != *holder || groups.contains(group));
        for group in groups {
            let watches = LeaseEntry { by: holder.clone(), until: now + lease * 2 / 3 };
            let previous = group_leases.insert(group.clone(), watches);
            if let Some(previous) =
                previous.filter(|previous| previous.is_held_by_other(holder, now) && !self.is_unknown(now))
            {
                let LeaseEntry { by, until } = previous;
                self.report(format!("{holder:?} was given {group:?} that {by:?} watches until {until}"));
            }
        }
    }

    /// Records that this holder watches no group any more.
    pub(super) fn release_groups(&self, holder: &Holder) {
        self.groups.lock().retain(|_, entry| entry.by != *holder);
    }

    /// Records that this holder released everything.
    pub(super) fn release_all(&self, holder: &Holder) {
        self.rows.lock().retain(|_, entry| entry.by != *holder);
        self.groups.lock().retain(|_, entry| entry.by != *holder);
    }

    /// Checks that this holder owns the row of this key before it acts on the job.
    pub(super) fn check_holder(&self, key: &str, holder: &Holder, now: Timestamp, action: &str) {
        let rows = self.rows.lock();
        let entry = rows.iter().find(|(row, _)| row.as_str() == key).map(|(_, entry)| entry);
        if !self.is_unknown(now) && entry.is_none_or(|entry| entry.by != *holder || entry.until <= now) {
            let by = entry.map(|entry| (entry.by.clone(), entry.until));
            self.report(format!(
                "{holder:?} is about to {action} for the row of {key}, which it does not hold ({by:?})"
            ));
        }
    }

    /// Reports jobs that are polled with a group to which they do not belong.
    pub(super) fn report_foreign_jobs(&self, foreign_jobs: &[&JobHandle]) {
        if !foreign_jobs.is_empty() {
            self.report(format!("{foreign_jobs:?} are looked at in a group that they are not of"));
        }
    }

    /// Returns the holders of rows.
    pub(super) fn holders(&self) -> Vec<Holder> {
        self.rows.lock().values().map(|entry| entry.by.clone()).collect()
    }

    /// Returns the first breach.
    pub(super) fn breach(&self) -> Option<String> {
        self.breaches.lock().first().cloned()
    }

    /// Stores a breach.
    pub(super) fn report(&self, breach: String) {
        self.breaches.lock().push(breach);
    }
}
