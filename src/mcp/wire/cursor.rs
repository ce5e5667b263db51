//! Cursors of lists. They are sealed, so that clients cannot forge them. A cursor is valid for one list and
//! one owner, or for one list and all callers. It is only a position: the list still checks what the caller
//! may see.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::seal::{Purpose, Seal};
use crate::tasks::store::Position;
use crate::tasks::task::{Owner, Task, TaskId};

#[derive(Serialize, Deserialize)]
struct SealedCursor<T> {
    list: String,
    /// `None` if all callers can use the cursor: a page with it may be cached and shared.
    owner: Option<Owner>,
    at: T,
}

/// Returns the cursor for a position in `list`.
pub fn seal<T: Serialize>(seal: &Seal, list: &str, owner: &Owner, at: T) -> String {
    seal.seal(Purpose::Cursor, &SealedCursor { list: list.to_owned(), owner: Some(owner.clone()), at })
}

/// Returns the position of a cursor, or `None` if it does not belong to this list and this owner.
pub fn open<T: DeserializeOwned>(seal: &Seal, list: &str, owner: &Owner, cursor: &str) -> Option<T> {
    let payload: SealedCursor<T> = seal.open(Purpose::Cursor, cursor)?;
    (payload.list == list && payload.owner.as_ref() == Some(owner)).then_some(payload.at)
}

/// Returns the cursor for a position in `list` that all callers can use.
pub fn seal_for_all<T: Serialize>(seal: &Seal, list: &str, at: T) -> String {
    seal.seal(Purpose::Cursor, &SealedCursor { list: list.to_owned(), owner: None, at })
}

/// Returns the position of such a cursor, or `None` if it does not belong to this list.
pub fn open_for_all<T: DeserializeOwned>(seal: &Seal, list: &str, cursor: &str) -> Option<T> {
    let payload: SealedCursor<T> = seal.open(Purpose::Cursor, cursor)?;
    (payload.list == list && payload.owner.is_none()).then_some(payload.at)
}

/// Returns the cursor for the tasks after this one in its owner's list.
pub fn after(sealer: &Seal, list: &str, task: &Task) -> String {
    seal(sealer, list, &task.owner, (task.created_at.as_millis(), task.id.as_str()))
}

/// Returns the position of a cursor in an owner's list of tasks.
pub fn position(sealer: &Seal, list: &str, owner: &Owner, cursor: &str) -> Option<Position> {
    let (millis, id): (i64, String) = open(sealer, list, owner, cursor)?;
    Some(Position { created_at: Timestamp::from_millis(millis), id: TaskId::from_wire(id) })
}
