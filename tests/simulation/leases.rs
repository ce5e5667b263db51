//! Who holds which row and which group until when, as the store gave them: shared by all processes of a world. What goes
//! against it is kept as a breach.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge::tasks::store::{Group, Holder};
use taskbridge_sdk::{JobHandle, JobKey, Timestamp};

use super::node::LEASE;

/// The leases of a world.
#[derive(Default)]
pub(super) struct Leases {
    rows: Mutex<HashMap<JobKey, Held>>,
    groups: Mutex<HashMap<Group, Held>>,
    breaches: Mutex<Vec<String>>,
    /// Until then, nobody knows who holds what: the store's clock was set.
    unknown_until: Mutex<Option<Timestamp>>,
}

#[derive(Clone)]
struct Held {
    by: Holder,
    until: Timestamp,
}

impl Held {
    fn is_anothers(&self, holder: &Holder, now: Timestamp) -> bool {
        self.by != *holder && self.until > now
    }
}

impl Leases {
    /// The store's clock was set at this moment: leases end earlier or later than they would have. Who is killed then
    /// is followed by others soon, and rows are kept by their versions alone.
    pub(super) fn clock_was_set(&self, now: Timestamp) {
        *self.unknown_until.lock() = Some(now + 4 * LEASE);
        self.rows.lock().clear();
        self.groups.lock().clear();
    }

    fn is_unknown(&self, now: Timestamp) -> bool {
        self.unknown_until.lock().is_some_and(|until| now < until)
    }

    /// A row was given to this holder.
    pub(super) fn take(&self, key: &JobKey, holder: &Holder, now: Timestamp, lease: Duration) {
        let held = Held { by: holder.clone(), until: now + lease };
        let before = self.rows.lock().insert(key.clone(), held);
        if self.is_unknown(now) {
            return;
        }
        if let Some(before) = before.filter(|before| before.is_anothers(holder, now)) {
            let Held { by, until } = before;
            self.report(format!("{holder:?} was given a row that {by:?} holds until {until}"));
        }
    }

    /// This holder gave a row back.
    pub(super) fn release(&self, key: &JobKey, holder: &Holder) {
        let mut rows = self.rows.lock();
        if rows.get(key).is_some_and(|held| held.by == *holder) {
            rows.remove(key);
        }
    }

    /// This holder watches these groups and no others. A store need not renew what has two thirds of its lease left.
    pub(super) fn watch(&self, groups: &[Group], holder: &Holder, now: Timestamp, lease: Duration) {
        let mut held = self.groups.lock();
        held.retain(|group, held| held.by != *holder || groups.contains(group));
        for group in groups {
            let watches = Held { by: holder.clone(), until: now + lease * 2 / 3 };
            let before = held.insert(group.clone(), watches);
            if let Some(before) =
                before.filter(|before| before.is_anothers(holder, now) && !self.is_unknown(now))
            {
                let Held { by, until } = before;
                self.report(format!("{holder:?} was given {group:?} that {by:?} watches until {until}"));
            }
        }
    }

    /// This holder watches no group any more.
    pub(super) fn leave(&self, holder: &Holder) {
        self.groups.lock().retain(|_, held| held.by != *holder);
    }

    /// This holder gave everything back.
    pub(super) fn let_go(&self, holder: &Holder) {
        self.rows.lock().retain(|_, held| held.by != *holder);
        self.groups.lock().retain(|_, held| held.by != *holder);
    }

    /// Somebody is about to do something to the job of this key.
    pub(super) fn act(&self, key: &str, holder: &Holder, now: Timestamp, what: &str) {
        let rows = self.rows.lock();
        let held = rows.iter().find(|(row, _)| row.as_str() == key).map(|(_, held)| held);
        if !self.is_unknown(now) && held.is_none_or(|held| held.by != *holder || held.until <= now) {
            let by = held.map(|held| (held.by.clone(), held.until));
            self.report(format!(
                "{holder:?} is about to {what} for the row of {key}, which it does not hold ({by:?})"
            ));
        }
    }

    /// Somebody asks for jobs of one group, and these are not of it.
    pub(super) fn report_strangers(&self, strangers: &[&JobHandle]) {
        if !strangers.is_empty() {
            self.report(format!("{strangers:?} are looked at in a group that they are not of"));
        }
    }

    /// The holders that hold a row now.
    pub(super) fn holders(&self) -> Vec<Holder> {
        self.rows.lock().values().map(|held| held.by.clone()).collect()
    }

    /// The first breach.
    pub(super) fn breach(&self) -> Option<String> {
        self.breaches.lock().first().cloned()
    }

    /// Keeps a breach.
    pub(super) fn report(&self, breach: String) {
        self.breaches.lock().push(breach);
    }
}
