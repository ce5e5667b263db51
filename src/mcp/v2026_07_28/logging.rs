//! What tasks say as `notifications/message`, to the request that waits for one of them and asked to be told. What is
//! said of a task is decided in [`crate::mcp::heard`]; here only what is below the request's level is left out.

use super::{Call, to_wire, wire};
use crate::mcp::heard::Saying;
use crate::mcp::outlet::Outlet;

/// Tells what a task says, on the stream of the request; nothing where it did not ask for that.
pub(super) async fn tell(call: &Call<'_>, sayings: Vec<Saying>, outlet: &dyn Outlet) {
    let Some(least) = call.asker.log_level else { return };
    for Saying { level, logger, data } in sayings.into_iter().filter(|said| said.level >= least) {
        let params = wire::LoggingMessage { level, logger, data };
        outlet.send(to_wire::notification("notifications/message", params)).await;
    }
}
