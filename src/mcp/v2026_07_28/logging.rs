//! Sends the log messages of a task as `notifications/message`, to the request that waits for it and set a
//! log level. [`crate::mcp::heard`] decides which messages a task has; this module only drops those below the
//! request's level.

use super::{Call, to_wire, wire};
use crate::mcp::heard::Saying;
use crate::mcp::outlet::Outlet;

/// Sends log messages on the stream of the request, or none if the request set no level.
pub(super) async fn tell(call: &Call<'_>, sayings: Vec<Saying>, outlet: &dyn Outlet) {
    let Some(least) = call.asker.log_level else { return };
    for Saying { level, logger, data } in sayings.into_iter().filter(|said| said.level >= least) {
        let params = wire::LoggingMessage { level, logger, data };
        outlet.send(to_wire::notification("notifications/message", params)).await;
    }
}
