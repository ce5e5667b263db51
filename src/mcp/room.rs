//! [`Room`]: the memory of what is large and on its way: bodies that come in slowly, and answers that are taken slowly. There is
//! so much of it in this process, and nobody has it all. It must not know what is in them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use parking_lot::Mutex;

use super::whose::Whose;

/// What is no larger is not counted here: the connections bound it.
pub(super) const SMALL: usize = 64 * 1024;

/// Somebody may have one part of this many.
const PARTS: usize = 4;

/// What is taken. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Room(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    taken: HashMap<Whose, usize>,
    in_all: usize,
}

/// One caller's way to the room.
pub(super) struct Part {
    pub(super) room: Room,
    pub(super) whose: Whose,
    /// How much room there is in all.
    pub(super) most: usize,
}

/// Room for something. Dropped, there is room for something else.
pub(super) struct Spot {
    room: Room,
    whose: Whose,
    bytes: usize,
}

impl Room {
    /// Room for so many bytes, where there are `most`. `None` if there is not enough, or this caller has too much of it: one thing
    /// each finds room however large it is, and so does one in all.
    pub(super) fn take(&self, whose: Whose, bytes: usize, most: usize) -> Option<Spot> {
        let mut state = self.0.lock();
        let theirs = state.taken.get(&whose).copied().unwrap_or(0);
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(bytes) <= most;
        if !fits(theirs, most / PARTS) || !fits(state.in_all, most) {
            return None;
        }
        state.in_all += bytes;
        state.taken.insert(whose, theirs + bytes);
        Some(Spot { room: self.clone(), whose, bytes })
    }
}

impl Part {
    /// Room for so many bytes; see [`Room::take`].
    pub(super) fn take(&self, bytes: usize) -> Option<Spot> {
        self.room.take(self.whose, bytes, self.most)
    }
}

impl Spot {
    /// The same for something that is so long after all. It is there already, so that nothing is refused.
    pub(super) fn resized(mut self, bytes: usize) -> Self {
        let mut state = self.room.0.lock();
        state.in_all = state.in_all - self.bytes + bytes;
        if let Some(theirs) = state.taken.get_mut(&self.whose) {
            *theirs = *theirs - self.bytes + bytes;
        }
        drop(state);
        self.bytes = bytes;
        self
    }

    /// The same bytes, with this spot for as long as they are anywhere.
    pub(super) fn hold(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Held { bytes, _spot: self })
    }
}

struct Held<B> {
    bytes: B,
    _spot: Spot,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Held<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let mut state = self.room.0.lock();
        state.in_all -= self.bytes;
        if let Some(theirs) = state.taken.get_mut(&self.whose) {
            *theirs -= self.bytes;
            if *theirs == 0 {
                state.taken.remove(&self.whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_has_a_quarter_of_the_room_and_all_together_have_no_more_than_there_is() {
        let room = Room::default();
        let take = |name: &str, bytes| room.take(Whose::named(name), bytes, 400);
        let ann = [take("ann", 60).unwrap(), take("ann", 40).unwrap()];
        assert!(take("ann", 1).is_none());
        let bob = take("bob", 250).expect("one thing finds room however large it is");
        assert!(take("bob", 1).is_none());
        assert!(take("cid", 60).is_none(), "there is no more");
        let cid = take("cid", 50).unwrap();
        drop(ann);
        assert!(take("ann", 100).is_some());
        let ann = take("ann", 10).unwrap().resized(100);
        assert!(take("ann", 1).is_none(), "it is longer than it was thought to be");
        drop(ann);
        let sent = bob.hold(vec![7; 250]);
        let part = sent.slice(3..5);
        drop((sent, cid));
        assert!(take("bob", 1).is_none(), "a part of it is there still");
        drop(part);
        let state = room.0.lock();
        assert!(state.in_all == 0 && state.taken.is_empty(), "nothing is kept of who has gone");
    }
}
