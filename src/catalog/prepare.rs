//! Converts a request into a call: validated, with defaults, sealed secrets and deadlines. It writes
//! nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::sealed::SealedArguments;
use super::variant;
use super::{ConfirmDefault, Inquiry, OnAbandon, TermsRule, Tool};
use crate::auth::{Identity, Principal};
use crate::offload::offload;
use crate::tasks::service::{BlockingCall, Call};
use crate::tasks::store::IdempotencyKey;
use crate::tasks::task::{Origin, Spec, TaskId, TaskPolicy};
use taskbridge_sdk::{OnBehalfOf, Question};

/// How long an equal call of the same caller can attach to a task whose call was abandoned: its client
/// disconnected before it received the task's id ([`crate::tasks::task::Undelivered`]).
const ATTACH_WINDOW: Duration = Duration::from_secs(600);
/// The scope of nonces: they are random, so no two callers share one.
const NONCE_SCOPE: &str = "nonce";
/// Maximum length of an idempotency key, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// The parts of a call that come from the request.
#[derive(Clone)]
pub struct CallRequest {
    /// The caller.
    pub principal: Principal,
    /// The origin of the request.
    pub origin: Origin,
    /// The arguments as sent: an object.
    pub arguments: Value,
    /// The lifetime that the client requested.
    pub ttl: Option<Duration>,
    /// The client's idempotency key (`_meta["io.taskbridge/idempotency-key"]`).
    pub idempotency_key: Option<String>,
    /// An id of this call: a repeated call with it returns the same task.
    pub nonce: Option<String>,
    /// Set for a plain call, which waits for its result: the maximum wait. `None` for a call that returns a
    /// task.
    pub timeout: Option<Duration>,
    /// Whether the client can be asked for consent.
    pub consent: Consent,
}

/// The state of the consent that a tool requires before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// The caller has consented.
    Given,
    /// The task begins with the question for consent. This client can be asked, or another caller who may
    /// consent.
    Ask,
    /// This client cannot be asked.
    Impossible,
}

/// Omits the arguments, because they can contain secrets.
impl std::fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallRequest")
            .field("principal", &self.principal)
            .field("ttl", &self.ttl)
            .field("timeout", &self.timeout)
            .field("consent", &self.consent)
            .finish_non_exhaustive()
    }
}

/// The reason why a request does not become a call.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The arguments are invalid; the text names path, value and rule (never a sensitive value).
    #[error("{0}")]
    Arguments(String),
    /// The tool requires consent before it starts, and this client cannot be asked.
    #[error("{0}")]
    CannotAsk(String),
    /// The caller's identity cannot be passed to an engine.
    #[error("nothing was started: {0}; ask the administrator of your identity provider to fix it")]
    Caller(String),
}

impl Tool {
    /// Validates a request and converts it into a call. It writes nothing.
    ///
    /// # Errors
    /// See [`PrepareError`].
    pub async fn prepare(self: &Arc<Self>, request: CallRequest) -> Result<Call, PrepareError> {
        let is_light = self.definition.input.is_light_for(&request.arguments);
        let tool = self.clone();
        offload(is_light, move || tool.prepare_sync(request)).await
    }

    fn prepare_sync(&self, request: CallRequest) -> Result<Call, PrepareError> {
        let tool = &self.definition;
        let on_behalf_of = on_behalf_of(&request.principal).map_err(PrepareError::Caller)?;
        let scope = scope(&request);
        let needs_digest =
            request.idempotency_key.is_some() || request.nonce.is_some() || request.timeout.is_some();
        let digest = if needs_digest { self.digest(&request.arguments) } else { String::new() };
        let (arguments, sealed) = self.check(request.arguments).map_err(PrepareError::Arguments)?;
        self.check_inquired(&arguments).map_err(PrepareError::Arguments)?;
        let confirm = self.consent(&arguments, request.consent)?;
        let idempotency_key = match request.idempotency_key {
            Some(key) => Some(
                new_idempotency_key(scope.as_deref(), key, digest.clone())
                    .map_err(PrepareError::Arguments)?,
            ),
            None => request.nonce.map(|nonce| IdempotencyKey {
                scope: NONCE_SCOPE.to_owned(),
                key: nonce,
                digest: digest.clone(),
            }),
        };
        let blocking = request.timeout.map(|waits| {
            let (digest, attach_within) = match &scope {
                Some(scope) => (self.seal.digest(&[scope.as_str(), &digest]), ATTACH_WINDOW),
                // An anonymous call without a session cannot be matched to an earlier one, so its digest is
                // unique.
                None => (self.seal.nonce(), Duration::ZERO),
            };
            BlockingCall {
                digest,
                timeout: waits,
                attach_within,
                cancel_on_abandon: tool.on_abandon == OnAbandon::Cancel,
            }
        });
        let task_reference = |name: &String| match arguments.get(name) {
            Some(Value::String(id)) => Some((name.clone(), TaskId::from_wire(id.as_str()))),
            _ => None,
        };
        let references = tool.task_parameters.iter().filter_map(task_reference).collect();
        let (slots, quota) = match is_authenticated(&request.principal) {
            true => (self.slots_of(&request.principal), tool.quota),
            false => (tool.slots.clone(), None),
        };
        Ok(Call {
            references,
            quota,
            owner: request.principal.owner,
            origin: Origin { on_behalf_of, ..request.origin },
            tool: tool.name.clone(),
            backend: tool.backend.clone(),
            variant: variant::number(&tool.duration_depends_on, &arguments),
            kept_arguments: tool.keep_arguments.then(|| arguments.clone()),
            spec: Spec {
                target: tool.target.clone(),
                arguments: Value::Object(arguments),
                sealed: sealed.seal(&self.seal),
                unresolved: BTreeMap::new(),
            },
            terms: TaskPolicy { four_eyes: tool.access.answer.not_caller, ..tool.terms.for_ttl(request.ttl) },
            slots,
            when_full: tool.when_full,
            confirm,
            idempotency_key,
            blocking,
        })
    }

    /// Returns the slots of a job of this caller. The owner's own slots come first, so that a caller who
    /// has used them up gets that reason.
    fn slots_of(&self, principal: &Principal) -> Vec<String> {
        let owner_slots =
            self.definition.owner_slots.iter().map(|slot| format!("{slot}{}", principal.owner.as_str()));
        owner_slots.chain(self.definition.slots.iter().cloned()).collect()
    }

    /// Returns the arguments with defaults, and separately the sealed ones.
    fn check(&self, arguments: Value) -> Result<(Map<String, Value>, SealedArguments), String> {
        let tool = &self.definition;
        let Value::Object(mut arguments) = arguments else {
            return Err("the arguments must be an object".to_owned());
        };
        tool.input.fill_defaults(&mut arguments);
        let object = Value::Object(arguments);
        tool.input.check(&object, "arguments", |name| self.is_hidden(name))?;
        let Value::Object(mut arguments) = object else { unreachable!("it was created from an object") };

        let mut sealed = SealedArguments::default();
        for (name, rule) in &tool.file_parameters {
            if let Some(value) = arguments.remove(name) {
                sealed.files.push(rule.parse(name, &value)?);
            }
        }
        for name in &tool.secret_parameters {
            if let Some(value) = arguments.remove(name) {
                sealed.arguments.insert(name.clone(), value);
            }
        }
        Ok((arguments, sealed))
    }

    /// Checks that the parameters of inquiries that are not `optional` are present: the schema does not list
    /// them as `required`.
    fn check_inquired(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        let needed = self.definition.inquiries.iter().filter(|inquiry| !inquiry.optional);
        let missing: Vec<&str> = needed.flat_map(|inquiry| inquiry.missing(arguments)).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "`{}` missing: pass it with the call. (Clients of a newer protocol revision that support elicitation \
                 are asked for it.)",
                missing.join("`, `")
            )),
        }
    }

    /// Returns true for parameters that messages must not show: secrets and the content of files.
    pub fn is_hidden(&self, name: &str) -> bool {
        self.definition.secret_parameters.contains(name) || self.definition.file_parameters.contains_key(name)
    }

    /// Returns the questions for omitted parameters, in the order in which they are asked.
    pub fn inquiries(&self) -> &[Inquiry] {
        &self.definition.inquiries
    }

    /// Returns true if calls need consent before they start.
    pub fn needs_consent(&self) -> bool {
        self.definition.confirm.is_some()
    }

    /// Returns the consent that a call with these arguments needs before it starts, and the behaviour if
    /// the client cannot be asked.
    pub fn confirmation(&self, arguments: &Map<String, Value>) -> Option<(Question, ConfirmDefault)> {
        let confirm = self.definition.confirm.as_ref()?;
        let mut visible = arguments.clone();
        self.definition.input.fill_defaults(&mut visible);
        visible.retain(|name, _| !self.is_hidden(name));
        Some((confirm.question(&visible), confirm.default))
    }

    /// Computes a digest of the tool, a call's arguments as sent, and its idempotency key.
    pub async fn fingerprint(
        self: &Arc<Self>,
        arguments: &Map<String, Value>,
        idempotency_key: Option<&str>,
    ) -> String {
        let arguments = Value::Object(arguments.clone());
        let (tool, key) = (self.clone(), idempotency_key.unwrap_or_default().to_owned());
        let is_light = self.definition.input.is_light_for(&arguments);
        offload(is_light, move || tool.seal.digest(&[&tool.digest(&arguments), &key])).await
    }

    /// Validates arguments against the tool's schema, without calling it. Parameters with an inquiry may be
    /// missing.
    ///
    /// # Errors
    /// If the arguments are invalid; see [`PrepareError::Arguments`].
    pub async fn validate(self: &Arc<Self>, arguments: Map<String, Value>) -> Result<(), String> {
        let (tool, arguments) = (self.clone(), Value::Object(arguments));
        offload(self.definition.input.is_light_for(&arguments), move || tool.check(arguments).map(|_| ()))
            .await
    }

    fn consent(
        &self,
        arguments: &Map<String, Value>,
        consent: Consent,
    ) -> Result<Option<Question>, PrepareError> {
        match &self.definition.confirm {
            None => Ok(None),
            Some(_) if consent == Consent::Given => Ok(None),
            Some(confirm) if consent == Consent::Ask => Ok(Some(confirm.question(arguments))),
            Some(confirm) => match confirm.default {
                ConfirmDefault::Accept => Ok(None),
                ConfirmDefault::Refuse => Err(PrepareError::CannotAsk(format!(
                    "{} asks for consent before it starts, and this client cannot be asked (it does not support \
                     elicitation): nothing was started",
                    self.name
                ))),
            },
        }
    }

    /// Computes a digest of the tool and its arguments as sent. It is keyed, because short secrets in
    /// arguments could be guessed from a plain digest.
    fn digest(&self, arguments: &Value) -> String {
        self.seal.digest(&[self.name.as_str(), &canonical(arguments)])
    }
}

impl TermsRule {
    fn for_ttl(&self, ttl: Option<Duration>) -> TaskPolicy {
        TaskPolicy {
            ttl: ttl.unwrap_or(self.default_ttl).clamp(self.min_ttl, self.max_ttl),
            keep_result: self.keep_result,
            max_runtime: self.max_runtime,
            max_wait: self.max_wait,
            outcome_grace: self.outcome_grace,
            on_expiry: self.on_expiry,
            start_within: self.start_within,
            settle_window: self.settle_window,
            on_decline: self.on_decline,
            on_dismiss: self.on_dismiss,
            answer_within: self.answer_within,
            four_eyes: false,
        }
    }
}

/// Returns the caller in the form that adapters and rows use; `None` for an anonymous caller.
///
/// # Errors
/// If the identity exceeds the limits of [`OnBehalfOf`]; the text is for the caller.
pub fn on_behalf_of(principal: &Principal) -> Result<Option<OnBehalfOf>, String> {
    let Identity { name, issuer, subject, client_id: client, tenant, groups, scopes: _, claims: _ } =
        &*principal.identity;
    if *principal.identity == Identity::default() {
        return Ok(None);
    }
    let (issuer, subject, client) = (issuer.clone(), subject.clone(), client.clone());
    let (tenant, groups) = (tenant.clone(), groups.clone());
    let fallback_name = || subject.as_ref().or(client.as_ref()).cloned().unwrap_or_default();
    let name = if name.is_empty() { fallback_name() } else { name.clone() };
    OnBehalfOf { name, issuer, subject, client, tenant, groups }.validate().map(Some)
}

/// Returns true if the caller was identified by credentials: limits per owner apply to such callers only.
pub fn is_authenticated(principal: &Principal) -> bool {
    principal.identified && *principal.identity != Identity::default()
}

/// Returns the scope of a call's idempotency: the owner, or the session of an anonymous caller.
fn scope(request: &CallRequest) -> Option<String> {
    if request.principal.identified {
        return Some(format!("owner:{}", request.principal.owner.as_str()));
    }
    request.origin.channel.as_ref().map(|session| format!("session:{session}"))
}

fn new_idempotency_key(scope: Option<&str>, key: String, digest: String) -> Result<IdempotencyKey, String> {
    let Some(scope) = scope else {
        return Err("an idempotency key needs an identified caller: set `single_user` or api keys \
                    in the server's config, or call within a session"
            .to_owned());
    };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(format!(
            "an idempotency key has 1 to {MAX_KEY_BYTES} bytes, and this one has {}",
            key.len()
        ));
    }
    Ok(IdempotencyKey { scope: scope.to_owned(), key, digest })
}

/// Serializes JSON with members sorted by name and without whitespace.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let inner: Vec<String> = members
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", inner.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
