//! Selects the due rows of a claim: owners in turn (round-robin), with bounded work for any number of due
//! rows. It is pure: both stores read candidates and order them here. It must not know how rows are stored.
//!
//! The longest-due rows are read first, up to [`WINDOW`]. Fewer rows than that are all due rows, and then the
//! order of the owners is known. Otherwise the owners are visited in the index, from the one after the cursor
//! on and then from the first one, until all, [`OWNERS`] of them, or as many as the claim wants with due rows
//! were visited.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of rows that are read by due time alone.
pub(super) const WINDOW: usize = 256;
/// Maximum number of owners that one claim visits.
pub(super) const OWNERS: usize = 256;

/// A row that can be claimed.
#[derive(Clone, Debug)]
pub(super) struct Candidate<K> {
    /// Identifies the row.
    pub(super) key: K,
    pub(super) owner: String,
}

/// The owners visited after the cursor, and their rows.
pub(super) struct VisitedOwners<K> {
    /// The last visited owner, even if none of its rows is due.
    pub(super) last: String,
    /// Rows of the visited owners: in the order of the visit, and by due time for each owner.
    pub(super) rows: Vec<Candidate<K>>,
}

/// Rows in the order in which they are claimed.
#[derive(Debug)]
pub(super) struct ClaimOrder<K> {
    pub(super) rows: Vec<Candidate<K>>,
    /// Number of leading rows that were chosen by round-robin.
    round_robin_rows: usize,
    /// The next cursor if the claim takes all of those.
    next_cursor: Option<String>,
}

/// Returns the number of rows to read per owner, for this number of owners with due rows.
pub(super) fn rows_each(limit: usize, owners: usize) -> usize {
    limit.div_ceil(owners.max(1))
}

impl<K: Clone + Ord> ClaimOrder<K> {
    /// Orders the rows. If no owners were visited, `first` (the longest-due rows, by due time) contains all
    /// due rows: their owners take turns, by name, starting after the cursor. Otherwise the visited owners
    /// take turns in the order of the visit, and the other rows of `first` follow by due time.
    pub(super) fn of(
        first: Vec<Candidate<K>>,
        visited: Option<VisitedOwners<K>>,
        cursor: Option<&str>,
    ) -> Self {
        let Some(VisitedOwners { last, rows }) = visited else {
            let mut owners: BTreeMap<(bool, String), VecDeque<Candidate<K>>> = BTreeMap::new();
            for row in first {
                let before = cursor.is_some_and(|cursor| row.owner.as_str() <= cursor);
                owners.entry((before, row.owner.clone())).or_default().push_back(row);
            }
            let rows = interleave(owners.into_values().collect());
            return Self { round_robin_rows: rows.len(), rows, next_cursor: None };
        };
        let known: BTreeSet<K> = rows.iter().map(|row| row.key.clone()).collect();
        let mut owners: Vec<VecDeque<Candidate<K>>> = Vec::new();
        for row in rows {
            match owners.last_mut() {
                Some(owner) if owner.front().is_some_and(|front| front.owner == row.owner) => {
                    owner.push_back(row);
                }
                _ => owners.push(VecDeque::from([row])),
            }
        }
        let mut rows = interleave(owners);
        let round_robin_rows = rows.len();
        rows.extend(first.into_iter().filter(|row| !known.contains(&row.key)));
        Self { rows, round_robin_rows, next_cursor: Some(last) }
    }

    /// Returns the cursor after a claim whose last row has this index.
    pub(super) fn cursor_at(&self, last_taken: usize) -> Option<String> {
        match &self.next_cursor {
            Some(next_cursor) if last_taken + 1 >= self.round_robin_rows => Some(next_cursor.clone()),
            _ => self.rows.get(last_taken).map(|row| row.owner.clone()),
        }
    }
}

/// Interleaves the owners: one row of each owner, then a second one of each, and so on.
fn interleave<K>(mut owners: Vec<VecDeque<Candidate<K>>>) -> Vec<Candidate<K>> {
    let mut rows = Vec::new();
    while !owners.is_empty() {
        rows.extend(owners.iter_mut().filter_map(VecDeque::pop_front));
        owners.retain(|owner| !owner.is_empty());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Candidate<String>> {
        let row = |key: &str| Candidate { key: key.to_owned(), owner: key[..1].to_owned() };
        text.split_whitespace().map(row).collect()
    }

    fn keys(order: &ClaimOrder<String>) -> String {
        order.rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The owners after the cursor come first, and the next cursor is the owner of the last row that was
    /// taken.
    #[test]
    fn small_backlog_is_ordered_by_turn() {
        let order = ClaimOrder::of(rows("b1 a1 b2 c1 b3 a2"), None, None);
        assert_eq!(keys(&order), "a1 b1 c1 a2 b2 b3");
        assert_eq!(order.cursor_at(1).as_deref(), Some("b"));
        let order = ClaimOrder::of(rows("b1 a1 b2 c1"), None, Some("a"));
        assert_eq!(keys(&order), "b1 c1 a1 b2");
    }

    /// The remainder of a claim's limit goes to the longest-due rows.
    #[test]
    fn large_backlog_visits_owners_first() {
        let visited = VisitedOwners { last: "x".to_owned(), rows: rows("c1 c2 d1") };
        let order = ClaimOrder::of(rows("a1 a2 c1"), Some(visited), Some("b"));
        assert_eq!(keys(&order), "c1 d1 c2 a1 a2");
        assert_eq!(order.cursor_at(1).as_deref(), Some("d"));
        assert_eq!(order.cursor_at(3).as_deref(), Some("x"));
    }
}
