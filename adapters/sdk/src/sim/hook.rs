//! [`Hook`]: parses HTTP notifications about simulated jobs: `{"id": "...", "jobs": ["HANDLE", ...],
//! "keys": ["KEY", ...]}` with a shared secret. It must not show the secret.

use serde::Deserialize;

use crate::{Delivery, HookEvent, Hooks, JobHandle, JobKey, Secret, same_secret};

/// Header that contains the secret.
const HEADER: &str = "x-sim-secret";

/// Parser that accepts requests with the right secret.
pub(super) struct Hook {
    secret: Secret,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    jobs: Vec<JobHandle>,
    #[serde(default)]
    keys: Vec<String>,
}

impl Hook {
    pub(super) fn new(secret: Secret) -> Self {
        Self { secret }
    }
}

impl Hooks for Hook {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let given = delivery.header(HEADER)?;
        if !same_secret(given.as_bytes(), self.secret.reveal().as_bytes()) {
            return None;
        }
        let body: Option<Body> = serde_json::from_slice(delivery.body).ok();
        Some(body.map_or_else(HookEvent::default, |Body { id, jobs, keys }| {
            let keys = keys.iter().filter_map(|key| JobKey::parse(key)).collect();
            HookEvent { jobs, keys, id }
        }))
    }
}
