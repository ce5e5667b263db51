//! `resources/subscribe` and `resources/unsubscribe`: the subscriptions of a session. Its listening stream
//! reports the changes.

use serde_json::{Map, Value};

use super::{SessionCall, from_wire};
use crate::mcp::features::dialect::Dialect as _;
use crate::mcp::features::resources::{self, ReadError};
use crate::mcp::features::results::internal_error::store_error;
use crate::mcp::wire::jsonrpc::Outcome;
use crate::sessions::SessionChange;

/// `resources/subscribe`: from now on the session's listening stream reports changes of the resource.
pub(super) async fn subscribe(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    let settings = call.bridge.context.settings();
    let (limit, max_bytes) = (settings.limits.max_followed_resources, settings.limits.max_url_bytes);
    if uri.len() > max_bytes {
        let length = uri.len();
        let message = format!(
            "the address has {length} bytes, and one that is followed may have {max_bytes} (max_url_bytes in [limits])"
        );
        return Err(from_wire::invalid(message));
    }
    if !resources::exists(call.context(), call.reads(), call.principal(), uri).await.map_err(store_error)? {
        return Err(resources::serve::read_error(call, uri, &ReadError::NotFound));
    }
    if !call.set(SessionChange::Subscribe(uri.to_owned(), limit)).await? {
        call.bridge.context.audit.limit_exceeded("max_followed_resources");
        let message = format!(
            "this session is subscribed to {limit} resources, and there may be no more (max_followed_resources in [limits]): \
             unsubscribe from one first"
        );
        return Err(from_wire::invalid(message));
    }
    Ok(Value::Object(Map::new()))
}

/// `resources/unsubscribe`: an unknown subscription is not an error.
pub(super) async fn unsubscribe(call: &SessionCall<'_>, params: &Value) -> Outcome {
    let uri = from_wire::text(params, "uri", "the address of a resource")?;
    call.set(SessionChange::Unsubscribe(uri.to_owned())).await?;
    Ok(Value::Object(Map::new()))
}
