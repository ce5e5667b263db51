//! [`Http`]: the connection that every ability of this backend shares. All that it keeps may be lost.

pub(crate) mod form;
mod pages;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use serde_json::Value;
use taskbridge_sdk::{ConnectContext, Error, Result};

use crate::config::{Config, Request};
use crate::driver::auth::{Auth, By};
use crate::driver::error::CallError;
use crate::driver::net::{self, Client, NetConfig, SendError};
use crate::driver::render::{Rendered, render};
use crate::driver::reply::Reply;
use crate::identity::engine;
use crate::language::{BASE, Scope};
use crate::store::answers::DeliveredAnswers;
use crate::store::detail_limit::DetailLimit;
use crate::store::list_cache::ListCache;

/// Most words of the engine that are remembered as reported.
const MAX_UNKNOWN_WORDS: usize = 100;

/// An engine with an HTTP API as a backend.
pub(crate) struct Http {
    pub(crate) config: Config,
    pub(crate) identity: String,
    pub(crate) lists: ListCache,
    pub(crate) details: DetailLimit,
    pub(crate) answers: DeliveredAnswers,
    client: Client,
    /// Clients of requests with an address of their own.
    other_clients: BTreeMap<Url, Client>,
    auth: Auth,
    call_timeout: Duration,
    unknown_words: Mutex<HashSet<String>>,
    name: String,
}

impl Http {
    /// Creates the backend. It sends nothing yet: an engine that is away is reported by the first call.
    ///
    /// # Errors
    /// `Config`, with the field that is wrong.
    pub(crate) fn connect(config: Config, context: &ConnectContext) -> Result<Self> {
        let absolute = |path: &std::path::PathBuf| context.config_dir.join(path);
        let net = NetConfig {
            download_hosts: config
                .artifacts
                .as_ref()
                .map(|artifacts| artifacts.also.clone())
                .unwrap_or_default(),
            ca_file: config.ca_file.as_ref().map(absolute),
            client_certificate: config.client_certificate.as_ref().map(absolute),
            proxy: config.proxy.clone(),
            ..NetConfig::new(config.base.clone())
        };
        let client = Client::new(&net).map_err(Error::config)?;
        let mut other_clients = BTreeMap::new();
        for base in config.requests().into_iter().filter_map(|(_, request)| request.base.as_ref()) {
            let net = NetConfig { base: base.clone(), download_hosts: Vec::new(), ..net.clone() };
            other_clients.insert(base.clone(), Client::new(&net).map_err(Error::config)?);
        }
        let auth = Auth::new(&config.auth, config.per_caller.as_ref(), &client, context)?;
        Ok(Self {
            identity: engine::identity(&config),
            // The server abandons a call that takes longer, and then nobody reads the reply.
            call_timeout: config.call_timeout.min(context.call_timeout),
            client,
            other_clients,
            auth,
            config,
            lists: ListCache::default(),
            details: DetailLimit::default(),
            answers: DeliveredAnswers::default(),
            unknown_words: Mutex::default(),
            name: context.name.clone(),
        })
    }

    /// Returns the names that every request sees.
    pub(crate) fn base_scope(&self) -> Scope {
        base_scope(&self.config)
    }

    /// Sends a request of the config.
    ///
    /// # Errors
    /// Why there is no complete reply. A reply with any status is no error.
    pub(crate) async fn call(
        &self,
        request: &Request,
        scope: &Scope,
        extra: &[(String, Value)],
        by: By<'_>,
    ) -> Result<Reply, CallError> {
        let rendered = self.rendered(request, scope, extra)?;
        let client = self.client_of(request);
        let url = client.url(&rendered.path).map_err(not_renderable)?;
        let request = self.net_request(rendered, url, self.config.max_reply);
        self.exchange(client, request, by).await
    }

    /// Sends a GET to an address out of a reply, with the headers of a request.
    ///
    /// # Errors
    /// As for [`Http::call`].
    pub(crate) async fn follow(
        &self,
        address: &str,
        request: &Request,
        scope: &Scope,
    ) -> Result<Reply, CallError> {
        let rendered = self.rendered(request, scope, &[])?;
        let client = self.client_of(request);
        let url = client.own_url(address).map_err(|e| CallError::NotSent(Error::unavailable(e)))?;
        self.exchange(client, self.net_request(rendered, url, self.config.max_reply), By::Own).await
    }

    /// Downloads a file.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub(crate) async fn download(
        &self,
        request: &Request,
        scope: &Scope,
        max_bytes: u64,
    ) -> Result<Result<net::Reply, SendError>, CallError> {
        let rendered = self.rendered(request, scope, &[])?;
        // A path is below `base`; an address out of a reply may also lead to a named host.
        let url = match rendered.path.starts_with('/') {
            true => self.client.url(&rendered.path),
            false => self.client.named_url(&rendered.path),
        };
        let url = url.map_err(not_renderable)?;
        let mut request = self.net_request(rendered, url, max_bytes);
        request.download = true;
        self.auth.apply(&mut request, By::Own).await.map_err(CallError::NotSent)?;
        Ok(self.client.send(request).await)
    }

    fn rendered(
        &self,
        request: &Request,
        scope: &Scope,
        extra: &[(String, Value)],
    ) -> Result<Rendered, CallError> {
        render(request, &self.config.headers, scope, extra).map_err(not_renderable)
    }

    fn net_request(&self, rendered: Rendered, url: Url, max_reply: u64) -> net::Request {
        let Rendered { method, headers, body, .. } = rendered;
        let (timeout, follow) = (self.call_timeout, self.config.follow);
        net::Request { method, url, headers, body, max_reply, timeout, follow, download: false }
    }

    fn client_of(&self, request: &Request) -> &Client {
        request.base.as_ref().and_then(|base| self.other_clients.get(base)).unwrap_or(&self.client)
    }

    async fn exchange(
        &self,
        client: &Client,
        mut request: net::Request,
        by: By<'_>,
    ) -> Result<Reply, CallError> {
        self.auth.apply(&mut request, by).await.map_err(CallError::NotSent)?;
        let reply = client.send(request).await?;
        if reply.status == http::StatusCode::UNAUTHORIZED && self.auth.refused(by) {
            let message =
                "the engine refused a token that it gave out earlier; the next attempt requests a new one";
            return Err(CallError::NotSent(Error::unavailable(message)));
        }
        Reply::read(&reply).map_err(CallError::Unclear)
    }

    /// Reports a word for a state that the config does not have, once.
    pub(crate) fn report_unknown(&self, word: &str) {
        let mut words = self.unknown_words.lock();
        if words.len() < MAX_UNKNOWN_WORDS && words.insert(word.to_owned()) {
            let (backend, word) = (&self.name, taskbridge_sdk::one_line(word));
            tracing::warn!(%backend, %word, "the engine reported a state that `observe.states` does not have");
        }
    }
}

/// Returns the names that every request and every expression sees.
pub(crate) fn base_scope(config: &Config) -> Scope {
    Scope::default()
        .with("vars", &config.vars)
        .with(BASE, config.base.as_str())
        .with("more", Value::Object(Default::default()))
}

/// Returns the error of a request that cannot be rendered: nothing was sent.
fn not_renderable(message: String) -> CallError {
    CallError::NotSent(Error::rejected(message))
}
