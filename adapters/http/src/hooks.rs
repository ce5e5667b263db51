//! Posts of the engine to `/hooks/NAME`: a secret in a header, a signature of the body, or Standard Webhooks.
//! It must not call the engine.

use std::collections::BTreeMap;

use data_encoding::{BASE64, HEXLOWER};
use hmac::{Hmac as HmacOf, KeyInit as _, Mac as _};
use serde_json::{Map, Value};
use sha2::{Sha256, Sha512};
use taskbridge_sdk::{Delivery, HookEvent, Hooks, JobHandle, JobKey, from_json, same_secret};

use crate::config::{Encoding, Hash, Hook};
use crate::core::Http;
use crate::identity::handle::to_handle;
use crate::language::{Expression, Scope};

/// How much the timestamp of a delivery may differ from the clock, in seconds (Standard Webhooks).
const TOLERANCE: u64 = 300;
/// Most jobs of a delivery.
const MAX_JOBS: usize = 100;

impl Hooks for Http {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let hook = self.config.hook.as_ref().filter(|hook| is_authentic(hook, delivery))?;
        let headers: Map<String, Value> =
            delivery.headers.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let body: Option<Value> = from_json(delivery.body).ok();
        let scope = self.base_scope().with("headers", headers).with("path", delivery.path);
        let scope = body.iter().fold(scope, |scope, body| scope.with("body", body));
        let values = |expression: &Expression| match expression.some(&scope) {
            Ok(Some(Value::Array(items))) => items,
            _ => Vec::new(),
        };
        let jobs = hook.jobs.as_ref().map(values).unwrap_or_default();
        let keys = hook.keys.as_ref().map(values).unwrap_or_default();
        let event = HookEvent {
            jobs: jobs.iter().take(MAX_JOBS).filter_map(|job| self.named_job(job)).collect(),
            keys: keys.iter().take(MAX_JOBS).filter_map(|key| JobKey::parse(key.as_str()?)).collect(),
            id: hook.delivery_id(&scope, delivery),
        };
        if !(event.jobs.is_empty() && event.keys.is_empty()) {
            self.lists.clear();
        }
        Some(event)
    }
}

impl Http {
    /// Returns the handle with these members, if they are those of a handle.
    fn named_job(&self, job: &Value) -> Option<JobHandle> {
        let job = job.as_object()?;
        let members = &self.config.start.handle;
        let values: BTreeMap<String, Value> = job.clone().into_iter().collect();
        (values.len() == members.len() && values.keys().all(|name| members.contains_key(name)))
            .then(|| to_handle(&values).ok())?
    }
}

impl Hook {
    fn delivery_id(&self, scope: &Scope, delivery: &Delivery<'_>) -> Option<String> {
        match &self.id {
            Some(id) => id.text(scope).ok().flatten(),
            None => self.standard_webhooks.as_ref().and(delivery.header("webhook-id")).map(str::to_owned),
        }
    }
}

/// Returns whether a delivery proves that it comes from a sender with the secret.
fn is_authentic(hook: &Hook, delivery: &Delivery<'_>) -> bool {
    if let Some(token) = &hook.token {
        let given = delivery.header(&token.header.to_ascii_lowercase()).unwrap_or_default();
        return same_secret(given.as_bytes(), token.secret.reveal().as_bytes());
    }
    if let Some(hmac) = &hook.hmac {
        let given = delivery.header(&hmac.header.to_ascii_lowercase()).unwrap_or_default();
        let Some(given) = given.strip_prefix(hmac.prefix.as_str()) else { return false };
        let signature = sign(hmac.hash, hmac.secret.reveal().as_bytes(), &[delivery.body]);
        let expected = match hmac.encoding {
            Encoding::Hex => HEXLOWER.encode(&signature),
            Encoding::Base64 => BASE64.encode(&signature),
        };
        return same_secret(given.as_bytes(), expected.as_bytes());
    }
    hook.standard_webhooks.as_ref().is_some_and(|webhooks| is_standard(webhooks.secret.reveal(), delivery))
}

/// Checks a delivery of Standard Webhooks: `v1,BASE64` over `ID.TIMESTAMP.BODY`.
fn is_standard(secret: &str, delivery: &Delivery<'_>) -> bool {
    let header = |name| delivery.header(name).filter(|value| !value.is_empty());
    let (Some(id), Some(timestamp), Some(signatures)) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"))
    else {
        return false;
    };
    let now = jiff::Timestamp::now().as_second();
    let is_recent = timestamp.parse::<i64>().is_ok_and(|at| at.abs_diff(now) <= TOLERANCE);
    let key = BASE64.decode(secret.strip_prefix("whsec_").unwrap_or(secret).as_bytes());
    let Ok(key) = key else { return false };
    let message: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", delivery.body];
    let expected = BASE64.encode(&sign(Hash::Sha256, &key, &message));
    let is_ours = |signature: &str| {
        signature.strip_prefix("v1,").is_some_and(|given| same_secret(given.as_bytes(), expected.as_bytes()))
    };
    is_recent && signatures.split(' ').any(is_ours)
}

fn sign(hash: Hash, key: &[u8], message: &[&[u8]]) -> Vec<u8> {
    match hash {
        Hash::Sha256 => {
            let Ok(mut mac) = HmacOf::<Sha256>::new_from_slice(key) else { return Vec::new() };
            message.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }
        Hash::Sha512 => {
            let Ok(mut mac) = HmacOf::<Sha512>::new_from_slice(key) else { return Vec::new() };
            message.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        }
    }
}
