//! Places in lists, as clients hold them: sealed, so that nobody can make one up, and good for one list of one owner,
//! or of everybody.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use crate::seal::{Purpose, Seal};
use crate::tasks::store::Position;
use crate::tasks::task::{Owner, Task, TaskId};

#[derive(Serialize, Deserialize)]
struct Place<T> {
    list: String,
    /// `None` for a list that is the same for everybody: a page of it may be kept and handed on to others.
    owner: Option<Owner>,
    at: T,
}

/// The cursor for a place in `list`.
pub fn seal<T: Serialize>(seal: &Seal, list: &str, owner: &Owner, at: T) -> String {
    seal.seal(Purpose::Cursor, &Place { list: list.to_owned(), owner: Some(owner.clone()), at })
}

/// The place that a cursor stands for; `None` if it is not a cursor of this list and this owner.
pub fn open<T: DeserializeOwned>(seal: &Seal, list: &str, owner: &Owner, cursor: &str) -> Option<T> {
    let place: Place<T> = seal.open(Purpose::Cursor, cursor)?;
    (place.list == list && place.owner.as_ref() == Some(owner)).then_some(place.at)
}

/// The cursor for a place in a list that is the same for everybody.
pub fn seal_for_all<T: Serialize>(seal: &Seal, list: &str, at: T) -> String {
    seal.seal(Purpose::Cursor, &Place { list: list.to_owned(), owner: None, at })
}

/// The place that such a cursor stands for; `None` if it is not a cursor of this list.
pub fn open_for_all<T: DeserializeOwned>(seal: &Seal, list: &str, cursor: &str) -> Option<T> {
    let place: Place<T> = seal.open(Purpose::Cursor, cursor)?;
    (place.list == list && place.owner.is_none()).then_some(place.at)
}

/// The cursor for what comes after this task in its owner's list.
pub fn after(by: &Seal, list: &str, task: &Task) -> String {
    seal(by, list, &task.owner, (task.created_at.as_millis(), task.id.as_str()))
}

/// The place in an owner's list of tasks that such a cursor stands for.
pub fn position(by: &Seal, list: &str, owner: &Owner, cursor: &str) -> Option<Position> {
    let (millis, id): (i64, String) = open(by, list, owner, cursor)?;
    Some(Position { created_at: Timestamp::from_millis(millis), id: TaskId::from_wire(id) })
}
