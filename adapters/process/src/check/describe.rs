//! [`describe`]: what a program says about itself, without a config. It must not initialize it.

use taskbridge_sdk::{ConnectContext, Error, Result, from_json, one_line};

use crate::config::Endpoint;
use crate::core::{launch, wrong_field};
use crate::driver::error::Failure;
use crate::driver::link::Link;
use crate::driver::transport::service::Service;
use crate::protocol::{Description, Empty, ErrorObject, VERSION};

/// Asks a program or a service for its description. A program is started for it, and ended.
///
/// # Errors
/// `Unavailable` if it cannot be reached or does not answer; `Config` if it speaks another version or cannot
/// describe itself; `Denied` if a service refuses the proof.
pub async fn describe(endpoint: &Endpoint, context: &ConnectContext) -> Result<Description> {
    let (params, limit) = (Empty {}, context.call_timeout);
    let answer = match endpoint {
        Endpoint::Child(child) => Link::ask(launch(child, context)?, "describe", &params, limit).await,
        Endpoint::Service(service) => {
            let service = Service::new(service, &context.config_dir, limit).map_err(wrong_field)?;
            Link::ask(service, "describe", &params, limit).await
        }
    };
    let answer = answer.map_err(|failure| match failure {
        Failure::NotSent(error) => error,
        Failure::Lost(reason) => Error::unavailable(format!("`describe` has no answer: {reason}")),
        Failure::Refused(error) if error.code == ErrorObject::UNKNOWN_METHOD => {
            Error::config("the program does not know the method `describe`")
        }
        Failure::Refused(error) => {
            let message = one_line(&error.message);
            error.data.error(&message).unwrap_or_else(|| Error::config(message))
        }
    })?;
    let description: Description = from_json(answer.get().as_bytes())
        .map_err(|e| Error::config(format!("the answer to `describe` is invalid: {e}")))?;
    match description.protocol {
        VERSION => Ok(description),
        other => {
            Err(Error::config(format!("the program speaks version {other} of the protocol, not {VERSION}")))
        }
    }
}
