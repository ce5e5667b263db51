//! Handles POST, GET and DELETE of the endpoint, and the metadata documents: reads bodies, runs a handler,
//! and writes its answer as one response or as a stream.

pub(super) mod batch;
pub(super) mod body;
pub(super) mod cross_replica;
pub(super) mod exchange;
pub(super) mod get;
pub(super) mod post;
pub(super) mod stream;
pub(super) mod unauthenticated_body;
pub(super) mod well_known;
