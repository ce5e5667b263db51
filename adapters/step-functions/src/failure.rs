//! What a failed call of AWS means, in the sdk's words. [`meaning`] is the whole table. Nothing secret may end up in a
//! message: what AWS says about a signature can quote a session token, so it is never passed on.

use std::error::Error as StdError;
use std::time::Duration;

use aws_config::imds::client::error::{ImdsError, TokenError};
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sfn::config::http::HttpResponse;
use aws_sdk_sfn::error::{ConnectorError, ProvideErrorMetadata, SdkError};
use hyper_util::client::legacy::Error as ClientError;
use taskbridge_sdk::{Error, ErrorKind, find_cause, innermost, one_line};

/// A call that failed: what the caller must do about it, and the code that AWS gave it, if AWS answered.
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

/// Whether a call that may have taken effect can be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Yes: it only looks, or does the same again.
    Safe,
    /// Whoever asked must first be told that nobody knows.
    Unsafe,
}

/// What an error that AWS answered with means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Rejected,
    Denied,
    /// Denied, in words that can quote a secret.
    DeniedSecretly,
    Config,
    Limited,
    /// It did not act.
    Unavailable,
    /// It may have acted.
    Unknown,
}

/// What the errors of Step Functions, and those that all of AWS shares, mean. A code that is not known here is judged by
/// its HTTP status.
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
        | "RequestTimeTooSkewed" => Meaning::DeniedSecretly,
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
    /// What came of a call of `operation`.
    pub(crate) fn of<E>(operation: &str, repeat: Repeat, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        if let Some(error) = credentials(operation, &error) {
            return Self { code: None, error };
        }
        let (Some(response), Some(service)) = (error.raw_response(), error.as_service_error()) else {
            return Self { code: None, error: unanswered(operation, repeat, error) };
        };
        // A code can come with a namespace before it, and an address after it.
        let code = service.code().unwrap_or_default();
        let code =
            code.rsplit('#').next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned();
        // What AWS says about a call that holds a token can quote it.
        let said = service.message().filter(|_| !operation.starts_with("SendTask"));
        let words = one_line(said.unwrap_or_default());
        let status = response.status().as_u16();
        let named = if code.is_empty() { format!("HTTP status {status}") } else { code.clone() };
        let message = match words.as_str() {
            "" => format!("{operation}: {named}"),
            words => format!("{operation}: {named}: {words}"),
        };
        let after =
            || patience(response.headers().get("retry-after"), response.headers().get("x-amz-retry-after"));
        let error = match meaning(&code, status) {
            Meaning::Rejected => Error::rejected(message),
            Meaning::Denied => Error::denied(message),
            Meaning::DeniedSecretly => Error::denied(format!(
                "{operation}: AWS does not accept the credentials ({named}): look whether they have expired, belong to \
                 this account, and whether this machine's clock is right"
            )),
            Meaning::Config => Error::config(message),
            Meaning::Limited => Error::limited(after(), message),
            Meaning::Unavailable => Error::unavailable(message),
            Meaning::Unknown => unclear(repeat, message),
        };
        Self { code: Some(code), error }
    }

    /// True if the credentials themselves are at fault, and not what they may do.
    pub(crate) fn is_of_credentials(&self) -> bool {
        match &self.code {
            Some(code) => meaning(code, 0) == Meaning::DeniedSecretly,
            None => matches!(self.error.kind(), ErrorKind::Denied),
        }
    }

    /// True if the credentials were right once, and their time is over.
    pub(crate) fn is_of_an_ended_session(&self) -> bool {
        self.is("ExpiredTokenException") || self.is("ExpiredToken")
    }

    /// The same, where another session is had for the asking: AWS looked at the credentials and at nothing else.
    pub(crate) fn until_the_next_session(self) -> Self {
        let error =
            Error::unavailable("the session at AWS has ended, and the next attempt is made in another");
        Self { error, ..self }
    }

    /// True if AWS answered with this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code.as_deref() == Some(code)
    }
}

/// A call that may have taken effect.
fn unclear(repeat: Repeat, message: String) -> Error {
    match repeat {
        Repeat::Safe => Error::unavailable(message),
        Repeat::Unsafe => Error::uncertain(message),
    }
}

/// A call that AWS did not answer, or not in a way that can be understood.
fn unanswered<E>(operation: &str, repeat: Repeat, error: SdkError<E, HttpResponse>) -> Error
where
    E: StdError + Send + Sync + 'static,
{
    let not_sent = find_cause::<ClientError>(&error).is_some_and(ClientError::is_connect);
    let why = innermost(&error);
    let made = match &error {
        SdkError::ConstructionFailure(_) => {
            Error::config(format!("{operation}: the request cannot be made: {why}"))
        }
        SdkError::DispatchFailure(_) if not_sent => {
            Error::unavailable(format!("{operation}: AWS cannot be reached: {why}"))
        }
        SdkError::TimeoutError(_) => unclear(repeat, format!("{operation}: no answer in time")),
        SdkError::ResponseError(_) => {
            unclear(repeat, format!("{operation}: the answer is not understood: {why}"))
        }
        _ => unclear(repeat, format!("{operation}: the connection failed: {why}")),
    };
    made.caused_by(error)
}

/// What to say if the call was not even made, for want of credentials. What a provider says goes to the operator's log
/// alone: it can quote the output of a program.
fn credentials<E>(operation: &str, error: &SdkError<E, HttpResponse>) -> Option<Error>
where
    E: StdError + Send + Sync + 'static,
{
    find_cause::<CredentialsError>(error).map(|error| without_credentials(operation, error))
}

/// What it means that there are no credentials now, with what to do about it.
pub(crate) fn without_credentials(operation: &str, error: &CredentialsError) -> Error {
    if let Some(refused) = refused_by_imds(error) {
        return Error::denied(format!(
            "{operation}: no AWS credentials were found: {refused}; attach a role to this machine and let it use the metadata \
             service, or set `profile` or AWS_ACCESS_KEY_ID"
        ));
    }
    let cause = innermost(error);
    let (kind, message) = match error {
        CredentialsError::CredentialsNotLoaded(_) => (
            ErrorKind::Denied,
            "no AWS credentials were found: set `profile`, or the environment that AWS tools read them from",
        ),
        CredentialsError::InvalidConfiguration(_) => (
            ErrorKind::Config,
            "the configuration of AWS credentials is wrong: mend the profile in `~/.aws/config`; `aws sts get-caller-identity` says more",
        ),
        error
            if matches!(error, CredentialsError::ProviderTimedOut(_))
                || find_cause::<ConnectorError>(error).is_some() =>
        {
            (ErrorKind::Unavailable, "whoever gives out the AWS credentials cannot be reached")
        }
        _ => (
            ErrorKind::Denied,
            "the AWS credentials could not be had: renew them if they have expired (`aws sso login`); \
             `aws sts get-caller-identity` says more",
        ),
    };
    Error::new(kind, format!("{operation}: {message}")).caused_by(cause)
}

/// Why the metadata service of this machine (IMDS) gave no credentials. Its errors show whole answers, which are not for people.
fn refused_by_imds(error: &CredentialsError) -> Option<String> {
    let service = "the metadata service of this machine (IMDS)";
    match find_cause::<ImdsError>(error)? {
        ImdsError::ErrorResponse(answer) => {
            Some(format!("{service} answered HTTP {}", answer.response().status().as_u16()))
        }
        // It gives tokens to nobody where it is off.
        ImdsError::FailedToLoadToken(_) => {
            find_cause::<TokenError>(error).map(|_| format!("{service} gives no session token"))
        }
        _ => None,
    }
}

/// How long AWS asks to wait: seconds in the one header, milliseconds in the other.
fn patience(seconds: Option<&str>, millis: Option<&str>) -> Option<Duration> {
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

    fn answered(code: &str, status: u16, message: &str, headers: &[(&'static str, &'static str)]) -> Failure {
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
            let failure = answered(code, status, "words", &[]);
            assert_eq!(failure.error.kind(), kind, "{code} {status}");
            assert!(!failure.error.to_string().contains('#'), "{}", failure.error);
        }
        let failure = answered("InvalidName", 400, "Bad name", &[]);
        assert!(failure.is("InvalidName") && !failure.is("InvalidArn"));
        assert_eq!(failure.error.to_string(), "StartExecution: InvalidName: Bad name");
    }

    #[test]
    fn patience_is_taken_from_either_header() {
        for (header, after) in
            [("retry-after", Duration::from_secs(3)), ("x-amz-retry-after", Duration::from_millis(3))]
        {
            let kind = answered("Throttling", 400, "", &[(header, "3")]).error.kind();
            assert_eq!(kind, ErrorKind::Limited { after: Some(after) });
        }
        let odd = answered("Throttling", 400, "", &[("retry-after", "Fri, 31 Dec 1999")]).error.kind();
        assert_eq!(odd, ErrorKind::Limited { after: None });
    }

    #[test]
    fn words_that_can_quote_a_token_are_not_passed_on() {
        let words = "The Canonical String should have been 'x-amz-security-token:S3CRET'";
        let failure = answered("InvalidSignatureException", 403, words, &[]);
        let whole = format!("{} {:?}", failure.error, failure.error);
        assert!(!whole.contains("S3CRET") && whole.contains("InvalidSignatureException"), "{whole}");
        let credentials = CredentialsError::not_loaded("nothing there");
        let error: SdkError<StartExecutionError, HttpResponse> =
            SdkError::dispatch_failure(ConnectorError::other(credentials.into(), None));
        let failure = Failure::of("StartExecution", Repeat::Unsafe, error);
        assert_eq!(failure.error.kind(), ErrorKind::Denied);
        assert!(failure.error.to_string().contains("no AWS credentials were found"), "{}", failure.error);
    }

    #[test]
    fn only_what_was_surely_not_sent_is_unavailable_at_once() {
        let lost = || SdkError::<StartExecutionError, HttpResponse>::timeout_error("late");
        let kind = |repeat| Failure::of("StartExecution", repeat, lost()).error.kind();
        assert_eq!(
            (kind(Repeat::Unsafe), kind(Repeat::Safe)),
            (ErrorKind::Uncertain, ErrorKind::Unavailable)
        );
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let error = SdkError::<StartExecutionError, _>::dispatch_failure(ConnectorError::io(reset.into()));
        assert_eq!(Failure::of("StartExecution", Repeat::Unsafe, error).error.kind(), ErrorKind::Uncertain);
    }
}
