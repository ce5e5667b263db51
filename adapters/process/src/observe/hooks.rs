//! Hints of a service: it posts the notification `changed` to `/hooks/NAME`. It must not poll.

use serde::Deserialize;
use taskbridge_sdk::{Delivery, HookEvent, Hooks, from_json};

use crate::core::Core;
use crate::protocol::ChangedParams;

/// A notification, as over a pipe.
#[derive(Deserialize)]
struct Notification {
    method: String,
    params: ChangedParams,
}

impl Hooks for Core {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let proof = self.proof.as_ref()?;
        if !proof.accepts(|name| delivery.header(name), delivery.body) {
            return None;
        }
        let id = delivery.header("webhook-id").map(str::to_owned);
        Some(match from_json::<Notification>(delivery.body) {
            Ok(Notification { method, params }) if method == "changed" => {
                HookEvent { jobs: params.jobs, keys: Vec::new(), id }
            }
            _ => HookEvent { id, ..HookEvent::default() },
        })
    }
}
