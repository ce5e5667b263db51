//! An artifact of a task, as a file to save. A browser never renders it.

use axum::http::StatusCode;
use axum::response::Response;

use super::Request;
use crate::console::Result;
use crate::console::request::count;
use crate::console::respond::{self, Refusal};
use crate::mcp::features::resources::{self, Body, ReadError};
use crate::tasks::task::TaskId;

pub(super) async fn answer(request: &Request<'_>, id: &TaskId, name: &str) -> Result<Response> {
    let _permit = count(request.console, request.visitor)?;
    let (context, reads) = (request.context(), &request.console.parts.bridge.reads);
    let uri = resources::artifact_uri(id, name);
    match resources::read(context, reads, &request.visitor.principal, &uri).await {
        Ok(contents) => Ok(match contents.body {
            Body::Text(text) => respond::attachment(name, text),
            Body::Bytes(bytes) => respond::attachment(name, bytes),
        }),
        Err(ReadError::NotFound) => Err(Refusal::not_found()),
        Err(ReadError::Store(error)) => Err(error.into()),
        Err(problem) => Err(Refusal::plain(StatusCode::BAD_GATEWAY, format!("{problem}."))),
    }
}
