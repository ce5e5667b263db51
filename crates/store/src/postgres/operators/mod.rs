//! What operators need of the store. It must not change a task: the import only adds.
//!
//! - `audit`: lines of the audit log. `survey`: the operators' view.
//! - `import`: the whole content of another store, into an empty schema.

mod audit;
pub(super) mod import;
mod survey;
