//! [`Core`]: one connected program, and what all abilities share. It must not know the messages of a single
//! ability.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use taskbridge_sdk::{ConnectContext, Error, JobHandle, Problem, Result, from_json, one_line};
use tokio::sync::{Mutex, mpsc};

use crate::config::{Child, Config, Endpoint};
use crate::driver::attempts::Attempts;
use crate::driver::error::Failure;
use crate::driver::link::Link;
use crate::driver::redact::Redactor;
use crate::driver::session::Session;
use crate::driver::shared::Settings;
use crate::driver::transport::child::Launch;
use crate::driver::transport::service::{Proof, Service};
use crate::driver::transport::user::User;
use crate::protocol::ErrorObject;

/// Share of the server's timeout after which a call is given up here, so that the server's own timeout does
/// not hide what happened.
const LIMIT_PERCENT: u32 = 90;
/// Minimum time for the answer to `initialize`. A program imports its libraries first, and no job waits for it
/// under a lease. Shorter than the server's timeout of a connection.
const MIN_OPENING_LIMIT: Duration = Duration::from_secs(20);

/// A connected program.
pub(crate) struct Core {
    pub(crate) name: String,
    pub(crate) link: Link,
    pub(crate) attempts: Attempts,
    /// The secret that a service and the server share. `None` for a child process.
    pub(crate) proof: Option<Proof>,
    pub(crate) hints: Mutex<mpsc::Receiver<JobHandle>>,
}

impl Core {
    /// Starts the program and initializes it.
    ///
    /// # Errors
    /// `Config` if the program says that its config is wrong. `Unavailable` if it cannot be started or does
    /// not answer.
    pub(crate) async fn connect(config: Config, context: &ConnectContext) -> Result<Self> {
        let limit = context.call_timeout * LIMIT_PERCENT / 100;
        let secrets: BTreeMap<String, String> =
            config.secrets.iter().map(|(name, secret)| (name.clone(), secret.reveal().to_owned())).collect();
        let redactor = Redactor::new(secrets.values().map(String::as_str).chain(config.endpoint.secrets()));
        let mut program_config = config.config;
        if let Some(discover) = config.discover {
            program_config.insert("discover".to_owned(), discover.into());
        }
        let mut settings = Settings::new(&context.name, limit, config.max_in_flight);
        settings.opening_limit = limit.max(MIN_OPENING_LIMIT);
        settings.redactor = redactor;
        (settings.initialize.config, settings.initialize.secrets) = (program_config, secrets);
        let ((link, hints), proof) = match &config.endpoint {
            Endpoint::Child(child) => {
                settings.initialize.state_dir.clone_from(&context.state_dir);
                settings.initialize.config_dir.clone_from(&context.config_dir);
                (Link::connect(settings, launch(child, context)?).await?, None)
            }
            // The folders of this machine mean nothing to it.
            Endpoint::Service(service) => {
                let proof = Proof::new(&service.auth).map_err(wrong_field)?;
                let service = Service::new(service, &context.config_dir, settings.opening_limit);
                let service = service.map_err(wrong_field)?;
                (Link::connect(settings, service).await?, Some(proof))
            }
        };
        let (name, attempts, hints) = (context.name.clone(), Attempts::default(), Mutex::new(hints));
        Ok(Self { name, link, attempts, proof, hints })
    }

    /// Makes a call that can be repeated safely.
    ///
    /// # Errors
    /// The program's error; `Unavailable` if there is no answer, or one of another shape.
    pub(crate) async fn call<T: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<T> {
        let answer = self.link.call(method, params, None).await;
        let answer = answer.map_err(|failure| self.call_error(method, failure))?;
        from_json(answer.get().as_bytes()).map_err(|e| self.wrong_shape(method, &e))
    }

    /// Converts the failure of a call that can be repeated.
    pub(crate) fn call_error(&self, method: &str, failure: Failure) -> Error {
        match failure {
            Failure::NotSent(error) => error,
            Failure::Lost(reason) => self.broken(format!("`{method}` has no answer: {reason}")),
            Failure::Refused(error) => self.refusal(method, &error).unwrap_or_else(Error::unavailable),
        }
    }

    /// Returns the error that the program answered. `Err` is its message if it has no kind.
    pub(crate) fn refusal(&self, method: &str, error: &ErrorObject) -> std::result::Result<Error, String> {
        let message = match error.message.trim() {
            "" => format!("the program of backend `{}` answered `{method}` with an error", self.name),
            message => self.clean(message),
        };
        error.data.error(&message).ok_or(message)
    }

    /// Returns the error for an answer of another shape.
    pub(crate) fn wrong_shape(&self, method: &str, error: &serde_json::Error) -> Error {
        self.broken(format!("the answer to `{method}` is invalid: {}", self.clean(&error.to_string())))
    }

    /// Returns an error that says what the program did wrong.
    pub(crate) fn broken(&self, problem: impl AsRef<str>) -> Error {
        Error::unavailable(format!("the program of backend `{}`: {}", self.name, problem.as_ref()))
    }

    /// Makes a text of the program safe to show: one line, without secrets.
    pub(crate) fn clean(&self, text: &str) -> String {
        one_line(&self.link.redactor().redact(text))
    }

    /// Returns what the program said when it was initialized last. `None` while it is away.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.link.session()
    }
}

/// Converts a problem of the config.
pub(crate) fn wrong_field(Problem { field, message }: Problem) -> Error {
    Error::config(format!("{field}: {message}"))
}

/// Returns how a child process is started.
///
/// # Errors
/// `Config` if it cannot run as the user of the config.
pub(crate) fn launch(child: &Child, context: &ConnectContext) -> Result<Launch> {
    let user = child.user.as_deref().map(User::find).transpose();
    Ok(Launch {
        launcher: context.program.clone(),
        command: resolve(&child.command, &context.config_dir),
        env: child.env.clone(),
        limits: child.limits,
        user: user.map_err(|message| Error::config(format!("user: {message}")))?.flatten(),
    })
}

/// Resolves a program with a relative path. A name without `/` is searched in `PATH`.
fn resolve(command: &[String], dir: &Path) -> Vec<String> {
    let mut command = command.to_vec();
    if let Some(program) = command.first_mut()
        && program.contains('/')
        && let Some(path) = dir.join(&*program).to_str()
    {
        *program = path.to_owned();
    }
    command
}
