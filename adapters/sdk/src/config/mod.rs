//! Helpers for the fields of a backend's config: secrets and addresses. They must not read the config, the
//! environment or the network.

mod addresses;
mod local_address;
mod secret;

pub use addresses::{is_forbidden_address, is_metadata_name, is_private_address};
pub use local_address::is_local_address;
pub use secret::Secret;
