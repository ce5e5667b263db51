//! [`Http`]: one POST to a receiver, without redirects, through the proxy of its config or of the
//! environment, and with a timeout. It must not retry.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Certificate, Client, Proxy, Response, StatusCode, redirect};
use taskbridge_sdk::{Timestamp, is_local_address, root_cause};

use super::event::MEDIA_TYPE;
use super::{DeliveryResult, Receiver, WebhookRequest, WebhookTransport};
use crate::clock::{Clock, System};

/// The number of idle connections to keep per receiver.
const MAX_IDLE_CONNECTIONS: usize = 2;

/// The HTTP transport.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

#[async_trait]
impl WebhookTransport for Http {
    type Client = Client;

    fn client(&self, receiver: &Receiver) -> Result<Client, String> {
        let name = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
        let mut client = Client::builder()
            .user_agent(name)
            .timeout(receiver.timeout)
            .redirect(redirect::Policy::none())
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS);
        if let Some(proxy) = &receiver.proxy {
            client = client.proxy(Proxy::all(proxy.clone()).map_err(|error| root_cause(&error))?);
        } else if receiver.url.host_str().is_some_and(is_local_address) {
            client = client.no_proxy();
        }
        if let Some(pem) = &receiver.authorities {
            let all = Certificate::from_pem_bundle(pem).map_err(|error| root_cause(&error))?;
            client = client.tls_certs_only(all);
        } else if receiver.url.scheme() == "http" && receiver.proxy.is_none() {
            // The certificates of this machine are not needed, and may be missing.
            client = client.tls_certs_only([]);
        }
        client.build().map_err(|error| root_cause(&error))
    }

    async fn send(&self, client: &Client, receiver: &Receiver, webhook: WebhookRequest) -> DeliveryResult {
        let request = client
            .post(receiver.url.clone())
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header("webhook-id", webhook.id)
            .header("webhook-timestamp", webhook.seconds)
            .header("webhook-signature", webhook.signature)
            .body(webhook.body);
        match request.send().await {
            Ok(response) => delivery_result(&response),
            Err(error) => DeliveryResult::Refused { why: root_cause(&error.without_url()), after: None },
        }
    }
}

impl Http {
    /// Checks by a HEAD request, which has no side effect, that a server answers at a receiver's URL.
    /// Returns the status.
    ///
    /// # Errors
    /// Why there is no response.
    pub async fn probe(&self, receiver: &Receiver) -> Result<u16, String> {
        let request = self.client(receiver)?.head(receiver.url.clone());
        let answered = request.send().await.map_err(|error| root_cause(&error.without_url()))?;
        Ok(answered.status().as_u16())
    }
}

fn delivery_result(response: &Response) -> DeliveryResult {
    match response.status() {
        status if status.is_success() => DeliveryResult::Accepted,
        StatusCode::GONE => DeliveryResult::Gone,
        status => {
            let after = response.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok());
            let after = after.and_then(|text| parse_retry_after(text, System.now()));
            let hint = if status.is_redirection() { ": redirects are not followed" } else { "" };
            DeliveryResult::Refused { why: format!("HTTP status {status}{hint}"), after }
        }
    }
}

/// Parses `Retry-After`: seconds, or a date.
fn parse_retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp::from_millis(date.timestamp().as_millisecond()).since(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A date in the past means no delay.
    #[test]
    fn retry_after_reads_seconds_or_date() {
        // 2015-10-21T07:28:00Z.
        let now = Timestamp::from_millis(1_445_412_480_000);
        assert_eq!(parse_retry_after(" 120 ", now), Some(Duration::from_secs(120)));
        assert_eq!(parse_retry_after("Wed, 21 Oct 2015 07:28:30 GMT", now), Some(Duration::from_secs(30)));
        assert_eq!(
            parse_retry_after("Wed, 21 Oct 2015 07:27:00 GMT", now),
            Some(Duration::ZERO),
            "the date is in the past"
        );
        assert_eq!(parse_retry_after("soon", now), None);
    }
}
