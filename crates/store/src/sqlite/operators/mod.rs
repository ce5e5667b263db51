//! What operators need of the store. It must not change a task.
//!
//! - `audit`: lines of the audit log. `survey`: the operators' view.
//! - `export`: the whole content, for a copy into another store.

mod audit;
#[cfg(feature = "postgres")]
mod export;
mod survey;
