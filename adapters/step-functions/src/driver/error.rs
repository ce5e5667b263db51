//! Translation of failed AWS calls to errors of the sdk. [`meaning`] is the whole table. A message must not
//! contain a secret: AWS may quote a session token in a message about a signature, and a task token in the
//! response to a `SendTask` call, so these messages are never passed on.

use std::error::Error as StdError;
use std::time::Duration;

use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sfn::config::http::HttpResponse;
use aws_sdk_sfn::error::{ConnectorError, ProvideErrorMetadata, SdkError};
use hyper_util::client::legacy::Error as ClientError;
use taskbridge_sdk::{Error, ErrorKind, find_cause, one_line, root_cause};

/// Failed call: the error for the caller, and the code from AWS if it answered. The code is empty if the
/// answer has none.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Option<String>,
    pub(crate) error: Error,
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

/// Whether a call that may have taken effect can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The call only reads, or repeating it has no further effect.
    Safe,
    /// The caller must first learn that the outcome is uncertain.
    Unsafe,
}

/// Meaning of an error code from AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Rejected,
    Denied,
    /// Denied, with a message that may quote a secret.
    CredentialsRejected,
    Config,
    Limited,
    /// The call had no effect.
    Unavailable,
    /// The call may have had an effect.
    Unknown,
}

/// Returns the meaning of an error of Step Functions, or of one that all AWS services share. An unknown code
/// is classified by its HTTP status.
pub(crate) fn meaning(code: &str, status: u16) -> Meaning {
    match code {
        "InvalidExecutionInput"
        | "InvalidName"
        | "ValidationException"
        | "ValidationError"
        | "SerializationException"
        | "ExecutionAlreadyExists"
        | "ExecutionDoesNotExist"
        | "InvalidOutput"
        | "InvalidToken"
        | "TaskDoesNotExist"
        | "TaskTimedOut" => Meaning::Rejected,
        "AccessDeniedException"
        | "AccessDenied"
        | "NotAuthorized"
        | "OptInRequired"
        | "KmsAccessDeniedException"
        | "UnauthorizedOperation" => Meaning::Denied,
        "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "RequestExpired"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "RequestTimeTooSkewed" => Meaning::CredentialsRejected,
        "StateMachineDoesNotExist"
        | "StateMachineDeleting"
        | "StateMachineTypeNotSupported"
        | "InvalidArn"
        | "ActivityDoesNotExist"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.NonExistentQueue"
        | "ResourceNotFound"
        | "ResourceNotFoundException"
        | "KmsInvalidStateException"
        | "UnknownOperationException"
        | "InvalidAction" => Meaning::Config,
        "ThrottlingException"
        | "Throttling"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "BandwidthLimitExceeded"
        | "LimitExceededException"
        | "SlowDown"
        | "ExecutionLimitExceeded"
        | "KmsThrottlingException" => Meaning::Limited,
        "ServiceUnavailable" | "ServiceUnavailableException" => Meaning::Unavailable,
        _ => match status {
            401 | 403 => Meaning::Denied,
            404 => Meaning::Config,
            429 => Meaning::Limited,
            400..=499 => Meaning::Rejected,
            503 => Meaning::Unavailable,
            _ => Meaning::Unknown,
        },
    }
}

impl Failure {
    /// Translates the error of a call of `operation`.
    pub(crate) fn of<E>(operation: &str, repeat: Repeat, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        if let Some(error) = credentials_error(operation, &error) {
            return Self { code: None, error };
        }
        let (Some(response), Some(service)) = (error.raw_response(), error.as_service_error()) else {
            return Self { code: None, error: no_response_error(operation, repeat, error) };
        };
        // A code may have a namespace prefix and a URL suffix.
        let code = service.code().unwrap_or_default();
        let code =
            code.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
        // A message about a call with a token may quote the token.
        let aws_message = service.message().filter(|_| !operation.starts_with("SendTask"));
        let text = one_line(aws_message.unwrap_or_default());
        let status = response.status().as_u16();
        let label = if code.is_empty() { format!("HTTP status {status}") } else { code.clone() };
        let message = match text.as_str() {
            "" => format!("{operation}: {label}"),
            text => format!("{operation}: {label}: {text}"),
        };
        let delay = || {
            retry_after(response.headers().get("retry-after"), response.headers().get("x-amz-retry-after"))
        };
        let error = match meaning(&code, status) {
            Meaning::Rejected => Error::rejected(message),
            Meaning::Denied => Error::denied(message),
            Meaning::CredentialsRejected => Error::denied(format!(
                "{operation}: AWS rejected the credentials ({label}): check that they have not expired, that they belong \
                 to this account, and that this machine's clock is right"
            )),
            Meaning::Config => Error::config(message),
            Meaning::Limited => Error::limited(delay(), message),
            Meaning::Unavailable => Error::unavailable(message),
            Meaning::Unknown => ambiguous_error(repeat, message),
        };
        Self { code: Some(code), error }
    }

    /// Returns true if the credentials themselves are invalid, as opposed to their permissions.
    pub(crate) fn is_credentials_error(&self) -> bool {
        match &self.code {
            Some(code) => meaning(code, 0) == Meaning::CredentialsRejected,
            None => matches!(self.error.kind(), ErrorKind::Denied),
        }
    }

    /// Returns true if the credentials were valid and have expired.
    pub(crate) fn is_expired_session(&self) -> bool {
        self.is("ExpiredTokenException") || self.is("ExpiredToken")
    }

    /// Turns the failure into `Unavailable`, for an expired session that can be replaced. AWS checked only
    /// the credentials, so the call had no effect.
    pub(crate) fn into_retryable(self) -> Self {
        let error = Error::unavailable("the AWS session has expired; the next attempt uses a new one");
        Self { error, ..self }
    }

    /// Returns true if AWS answered with this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

/// Returns the error of a call that may have taken effect.
fn ambiguous_error(repeat: Repeat, message: String) -> Error {
    match repeat {
        Repeat::Safe => Error::unavailable(message),
        Repeat::Unsafe => Error::uncertain(message),
    }
}

/// Returns the error of a call without a response, or with one that cannot be parsed.
fn no_response_error<E>(operation: &str, repeat: Repeat, error: SdkError<E, HttpResponse>) -> Error
where
    E: StdError + Send + Sync + 'static,
{
    let not_sent = find_cause::<ClientError>(&error).is_some_and(ClientError::is_connect);
    let reason = root_cause(&error);
    let mapped_error = match &error {
        SdkError::ConstructionFailure(_) => {
            Error::config(format!("{operation}: the request cannot be built: {reason}"))
        }
        SdkError::DispatchFailure(_) if not_sent => {
            Error::unavailable(format!("{operation}: AWS cannot be reached: {reason}"))
        }
        SdkError::TimeoutError(_) => ambiguous_error(repeat, format!("{operation}: timed out")),
        SdkError::ResponseError(_) => {
            ambiguous_error(repeat, format!("{operation}: the response cannot be parsed: {reason}"))
        }
        _ => ambiguous_error(repeat, format!("{operation}: the connection failed: {reason}")),
    };
    mapped_error.caused_by(error)
}

/// Returns the error of a call that was not sent for lack of credentials, or `None` for any other failure.
/// The message of a provider goes only to the operator's log, because it can quote the output of a program.
fn credentials_error<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> Option<Error>
where
    E: StdError + Send + Sync + 'static,
{
    find_cause::<CredentialsError>(error).map(|error| missing_credentials_error(operation, error))
}

/// Returns the error for missing credentials, with a fix.
pub(crate) fn missing_credentials_error(operation: &str, error: &CredentialsError) -> Error {
    if let Some(refusal) = imds_refusal(error) {
        return Error::denied(format!(
            "{operation}: no AWS credentials were found: {refusal}; attach a role to this machine and let it use the metadata \
             service, or set `profile` or AWS_ACCESS_KEY_ID"
        ));
    }
    let cause = root_cause(error);
    let (kind, message) = match error {
        CredentialsError::CredentialsNotLoaded(_) => (
            ErrorKind::Denied,
            "no AWS credentials were found: set `profile`, or the environment variables of the AWS tools",
        ),
        CredentialsError::InvalidConfiguration(_) => (
            ErrorKind::Config,
            "the configuration of AWS credentials is invalid: fix the profile in `~/.aws/config`; `aws sts get-caller-identity` shows details",
        ),
        error
            if matches!(error, CredentialsError::ProviderTimedOut(_))
                || find_cause::<ConnectorError>(error).is_some() =>
        {
            (ErrorKind::Unavailable, "the provider of the AWS credentials cannot be reached")
        }
        _ => (
            ErrorKind::Denied,
            "the AWS credentials cannot be loaded: renew them if they have expired (`aws sso login`); \
             `aws sts get-caller-identity` shows details",
        ),
    };
    Error::new(kind, format!("{operation}: {message}")).caused_by(cause)
}

/// Returns why the metadata service of this machine (IMDS) gave no credentials. Its errors contain whole
/// responses, which are not for people.
fn imds_refusal(error: &CredentialsError) -> Option<String> {
    let service = "the metadata service of this machine (IMDS)";
    match find_cause::<ImdsError>(error)? {
        ImdsError::ErrorResponse(response) => {
            Some(format!("{service} answered HTTP {}", response.response().status().as_u16()))
        }
        // A disabled service issues no tokens.
        ImdsError::FailedToLoadToken(_) => {
            find_cause::<TokenError>(error).map(|_| format!("{service} gives no session token"))
        }
        _ => None,
    }
}

/// Returns the delay that AWS requests: one header has seconds, the other milliseconds. The latter takes
/// precedence.
fn retry_after(seconds: Option<&str>, millis: Option<&str>) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (millis.and_then(number), seconds.and_then(number)) {
        (Some(millis), _) => Some(Duration::from_millis(millis)),
        (None, seconds) => seconds.map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_sfn::error::ErrorMetadata;
    use aws_sdk_sfn::operation::start_execution::StartExecutionError;

    fn failure_with_code(
        code: &str,
        status: u16,
        message: &str,
        headers: &[(&'static str, &'static str)],
    ) -> Failure {
        let metadata = ErrorMetadata::builder().code(code).message(message).build();
        let mut response = HttpResponse::new(status.try_into().unwrap(), "".into());
        for (name, value) in headers {
            response.headers_mut().insert(*name, *value);
        }
        let error = SdkError::service_error(StartExecutionError::generic(metadata), response);
        Failure::of("StartExecution", Repeat::Unsafe, error)
    }

    #[test]
    fn each_code_means_one_thing() {
        for (code, status, kind) in [
            ("InvalidExecutionInput", 400, ErrorKind::Rejected),
            ("ValidationException", 400, ErrorKind::Rejected),
            ("AccessDeniedException", 400, ErrorKind::Denied),
            ("ExpiredTokenException", 400, ErrorKind::Denied),
            ("UnrecognizedClientException", 400, ErrorKind::Denied),
            ("com.amazonaws.swf.service.v2.model#StateMachineDoesNotExist", 400, ErrorKind::Config),
            ("StateMachineTypeNotSupported", 400, ErrorKind::Config),
            ("ThrottlingException:http://internal.amazon.com/", 400, ErrorKind::Limited { after: None }),
            ("ExecutionLimitExceeded", 400, ErrorKind::Limited { after: None }),
            ("ServiceUnavailable", 503, ErrorKind::Unavailable),
            ("InternalFailure", 500, ErrorKind::Uncertain),
            ("SomethingNew", 400, ErrorKind::Rejected),
            ("SomethingNew", 403, ErrorKind::Denied),
            ("SomethingNew", 502, ErrorKind::Uncertain),
            ("", 503, ErrorKind::Unavailable),
            ("", 429, ErrorKind::Limited { after: None }),
        ] {
            let failure = failure_with_code(code, status, "words", &[]);
            assert_eq!(failure.error.kind(), kind, "{code} {status}");
            assert!(!failure.error.to_string().contains('#'), "{}", failure.error);
        }
        let failure = failure_with_code("InvalidName", 400, "Bad name", &[]);
        assert!(failure.is("InvalidName") && !failure.is("InvalidArn"));
        assert_eq!(failure.error.to_string(), "StartExecution: InvalidName: Bad name");
    }

    /// `retry-after` is in seconds, `x-amz-retry-after` in milliseconds. A date is ignored.
    #[test]
    fn retry_after_reads_both_headers() {
        for (header, after) in
            [("retry-after", Duration::from_secs(3)), ("x-amz-retry-after", Duration::from_millis(3))]
        {
            let kind = failure_with_code("Throttling", 400, "", &[(header, "3")]).error.kind();
            assert_eq!(kind, ErrorKind::Limited { after: Some(after) });
        }
        let unparsable =
            failure_with_code("Throttling", 400, "", &[("retry-after", "Fri, 31 Dec 1999")]).error.kind();
        assert_eq!(unparsable, ErrorKind::Limited { after: None });
    }

    /// A message of AWS that can quote a token is left out of the error. The error code is kept.
    #[test]
    fn error_message_hides_quoted_token() {
        let message = "The Canonical String should have been 'x-amz-security-token:S3CRET'";
        let failure = failure_with_code("InvalidSignatureException", 403, message, &[]);
        let text = format!("{} {:?}", failure.error, failure.error);
        assert!(!text.contains("S3CRET") && text.contains("InvalidSignatureException"), "{text}");
        let credentials = CredentialsError::not_loaded("nothing there");
        let error: SdkError<StartExecutionError, HttpResponse> =
            SdkError::dispatch_failure(ConnectorError::other(credentials.into(), None));
        let failure = Failure::of("StartExecution", Repeat::Unsafe, error);
        assert_eq!(failure.error.kind(), ErrorKind::Denied);
        assert!(failure.error.to_string().contains("no AWS credentials were found"), "{}", failure.error);
    }

    /// A call that may have been sent is uncertain if a repeat is unsafe, and unavailable if it is safe.
    #[test]
    fn unsafe_call_without_reply_is_uncertain() {
        let timed_out = || SdkError::<StartExecutionError, HttpResponse>::timeout_error("late");
        let kind = |repeat| Failure::of("StartExecution", repeat, timed_out()).error.kind();
        assert_eq!(
            (kind(Repeat::Unsafe), kind(Repeat::Safe)),
            (ErrorKind::Uncertain, ErrorKind::Unavailable)
        );
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let error = SdkError::<StartExecutionError, _>::dispatch_failure(ConnectorError::io(reset.into()));
        assert_eq!(Failure::of("StartExecution", Repeat::Unsafe, error).error.kind(), ErrorKind::Uncertain);
    }
}
