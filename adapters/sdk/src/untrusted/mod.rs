//! Makes data from engines and jobs safe to show and to store: sanitizes text and limits the nesting of JSON.
//! This folder must not know which engine the data comes from.

mod depth;
mod link;
mod sanitize;

pub use depth::{MAX_VALUE_DEPTH, count_values, from_json, limit_depth};
pub use link::{MAX_LINK_BYTES, is_page_link};
pub use sanitize::sanitize;
