//! [`Link`]: calls to a program that is kept connected. A call is bounded in size, in number and in time. It
//! must not repeat a call.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use taskbridge_sdk::{Error, JobHandle, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::attempts::KeyGuard;
use super::calls::Held;
use super::error::Failure;
use super::redact::Redactor;
use super::restart;
use super::session::Session;
use super::shared::{Settings, Shared};
use super::transport::connection::Transport;
use super::wire::{MAX_REQUEST, Reply, write_params, write_request};

/// A program that is kept connected until this value is dropped.
pub(crate) struct Link {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

impl Link {
    /// Connects to the program, and keeps it connected. Also returns its hints.
    ///
    /// # Errors
    /// The error of the first start.
    pub(crate) async fn connect(
        settings: Settings,
        transport: impl Transport,
    ) -> Result<(Self, mpsc::Receiver<JobHandle>)> {
        let name = settings.name.clone();
        let (connected, driver) = Self::prepare(settings, transport);
        restart::on_thread(name, driver)?;
        connected.await
    }

    /// Returns the link, once the program is connected, and the driver of the program, which must run
    /// meanwhile and afterwards. The driver ends when the link is dropped.
    pub(crate) fn prepare(
        settings: Settings,
        transport: impl Transport,
    ) -> (impl Future<Output = Result<(Self, mpsc::Receiver<JobHandle>)>>, impl Future<Output = ()> + Send)
    {
        let (shared, hints) = Shared::new(settings);
        let stop = shared.stop.clone().drop_guard();
        let (first, connection) = oneshot::channel();
        let driven = Arc::clone(&shared);
        let driver = async move { restart::keep_running(&driven, &transport, first).await };
        let connected = async move {
            match connection.await {
                Ok(result) => result.map(|()| (Self { shared, _stop: stop }, hints)),
                Err(_) => Err(Error::unavailable("the driver of the program ended")),
            }
        };
        (connected, driver)
    }

    /// Makes one call. `key` is released when the call has ended.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &impl Serialize,
        key: Option<KeyGuard>,
    ) -> Result<Box<RawValue>, Failure> {
        let params = write_params(params)
            .map_err(|e| Failure::NotSent(Error::rejected(format!("`{method}` cannot be written: {e}"))))?;
        if params.get().len() + method.len() + 100 > MAX_REQUEST {
            let message = format!("the message `{method}` has more than {MAX_REQUEST} bytes");
            return Err(Failure::NotSent(Error::rejected(message)));
        }
        let settings = &self.shared.settings;
        let busy = || {
            let message = format!(
                "{} calls of backend `{}` are in progress, which is its `max_in_flight`",
                settings.max_in_flight, settings.name
            );
            Failure::NotSent(Error::unavailable(message))
        };
        let permit = timeout(settings.limit, Arc::clone(&self.shared.in_flight).acquire_owned()).await;
        let permit = permit.map_err(|_| busy())?.map_err(|_| busy())?;
        let up = self.shared.up().map_err(Failure::NotSent)?;
        let place = timeout(settings.limit, up.lines.reserve()).await;
        let Ok(Ok(place)) = place else { return Err(Failure::NotSent(self.shared.away())) };
        let held = Held { _permit: permit, _key: key };
        let added = self.shared.calls.add(up.run, settings.limit, Some(held));
        let Some((id, answer)) = added else { return Err(Failure::NotSent(self.shared.away())) };
        place.send(write_request(id, method, &params));
        match answer.await {
            Ok(Ok(Reply::Result(result))) => Ok(result),
            Ok(Ok(Reply::Error(error))) => Err(Failure::Refused(error)),
            Ok(Err(reason)) => Err(Failure::Lost(reason)),
            Err(_) => Err(Failure::Lost("its driver ended".to_owned())),
        }
    }

    /// Starts a program, makes one call without `initialize`, and ends the program.
    ///
    /// # Errors
    /// See [`Failure`].
    pub(crate) async fn ask(
        transport: impl Transport,
        method: &'static str,
        params: &impl Serialize,
        limit: Duration,
    ) -> Result<Box<RawValue>, Failure> {
        let params = write_params(params)
            .map_err(|e| Failure::NotSent(Error::rejected(format!("`{method}` cannot be written: {e}"))))?;
        restart::ask(transport, method, params, limit).await
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.shared.settings.redactor
    }

    /// Returns what the program said. `None` while it is away.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.shared.up().ok().map(|up| up.session)
    }

    /// Returns what the program said.
    ///
    /// # Errors
    /// `Unavailable` while it is away.
    pub(crate) fn session_or_away(&self) -> Result<Arc<Session>> {
        self.shared.up().map(|up| up.session)
    }

    /// Returns what the program said last, even while it is away.
    pub(crate) fn last_session(&self) -> Arc<Session> {
        self.shared.last().unwrap_or_default()
    }
}
