//! The messages of the adapter protocol, version 1, as docs/adapter-protocol.md describes them. Plain data.
//! Most shapes are those of the sdk. It must not know how messages travel.

mod error;
mod messages;
mod schema;
mod session;

pub use error::{ErrorData, ErrorObject, Kind};
pub use messages::*;
pub use schema::schema;
pub use session::{Description, InitializeResult, Once};
