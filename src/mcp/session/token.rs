//! Sessions as sealed tokens: the client keeps the token, and any replica can open it. The server must not
//! keep sessions, except in a cache. The few settings of a session are in the store
//! ([`crate::sessions::Sessions`]).

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::{Ask, Timestamp};

use crate::auth::Principal;
use crate::clock::{self, Entropy};
use crate::mcp::wire::revision::Revision;
use crate::mcp::wire::types::{UI_EXTENSION, VIEW_MIME_TYPE};
use crate::seal::{Purpose, Seal};
use crate::tasks::task::Owner;

/// The format version of the token. A token with another version, from an older or newer server, does not
/// open.
const FORMAT_VERSION: u8 = 1;

/// Maximum number of cached sessions. The whole cache is cleared when it is full.
const MAX_CACHED: usize = 1024;

/// The capabilities that a client declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientCapabilities {
    /// Can show a form to its user (`elicitation`, or `elicitation.form`).
    #[serde(rename = "f", skip_serializing_if = "std::ops::Not::not")]
    pub elicitation_form: bool,
    /// Can send its user to a web page (`elicitation.url`).
    #[serde(rename = "u", skip_serializing_if = "std::ops::Not::not")]
    pub elicitation_url: bool,
    /// Can sample from its model (`sampling`).
    #[serde(rename = "s", skip_serializing_if = "std::ops::Not::not")]
    pub sampling: bool,
    /// Accepts tools in sampling requests (`sampling.tools`).
    #[serde(rename = "st", skip_serializing_if = "std::ops::Not::not")]
    pub sampling_tools: bool,
    /// Accepts context of servers in sampling requests (`sampling.context`).
    #[serde(rename = "sc", skip_serializing_if = "std::ops::Not::not")]
    pub sampling_context: bool,
    /// Accepts lists of content blocks in sampling messages.
    #[serde(rename = "sl", skip_serializing_if = "std::ops::Not::not")]
    pub sampling_lists: bool,
    /// Can list its roots (`roots`).
    #[serde(rename = "r", skip_serializing_if = "std::ops::Not::not")]
    pub roots: bool,
    /// Can run an elicitation as a task of its own (`tasks.requests.elicitation.create`).
    #[serde(rename = "et", skip_serializing_if = "std::ops::Not::not")]
    pub elicitation_tasks: bool,
    /// Can run a sampling request as a task of its own (`tasks.requests.sampling.createMessage`).
    #[serde(rename = "mt", skip_serializing_if = "std::ops::Not::not")]
    pub sampling_tasks: bool,
    /// Can cancel its tasks (`tasks.cancel`).
    #[serde(rename = "tc", skip_serializing_if = "std::ops::Not::not")]
    pub cancels_tasks: bool,
    /// Shows views that are pages (extension `io.modelcontextprotocol/ui`).
    #[serde(rename = "v", skip_serializing_if = "std::ops::Not::not")]
    pub views: bool,
    /// True if the caller may not answer questions of the current task, so none may be sent here.
    #[serde(skip)]
    pub barred: bool,
}

impl ClientCapabilities {
    /// Parses `ClientCapabilities` in their newest form.
    pub fn parse(capabilities: &Value) -> Self {
        let has = |parent: &Value, name: &str| parent.get(name).is_some_and(Value::is_object);
        let (elicitation, sampling) = (&capabilities["elicitation"], &capabilities["sampling"]);
        let tasks = &capabilities["tasks"];
        let views = capabilities["extensions"][UI_EXTENSION]["mimeTypes"].as_array();
        Self {
            // Without a mode, the client supports forms: the first revision had nothing else.
            elicitation_form: elicitation.is_object()
                && (has(elicitation, "form") || !has(elicitation, "url")),
            elicitation_url: has(elicitation, "url"),
            sampling: sampling.is_object(),
            sampling_tools: has(sampling, "tools"),
            sampling_context: has(sampling, "context"),
            sampling_lists: sampling.is_object(),
            roots: has(capabilities, "roots"),
            elicitation_tasks: has(&tasks["requests"]["elicitation"], "create"),
            sampling_tasks: has(&tasks["requests"]["sampling"], "createMessage"),
            cancels_tasks: has(tasks, "cancel"),
            views: views.is_some_and(|types| types.iter().any(|each| each == VIEW_MIME_TYPE)),
            barred: false,
        }
    }

    /// Removes the capability of client tasks.
    #[must_use]
    pub fn without_tasks(self) -> Self {
        Self { elicitation_tasks: false, sampling_tasks: false, cancels_tasks: false, ..self }
    }

    /// Marks the caller as not allowed to answer questions of the current task.
    #[must_use]
    pub fn barred(self) -> Self {
        Self { barred: true, ..self }
    }

    /// Returns true if the client accepts at least one kind of question, and the caller may answer.
    pub fn can_be_asked(&self) -> bool {
        (self.elicitation_form || self.elicitation_url || self.sampling || self.roots) && !self.barred
    }

    /// Returns true if the client can run at least one kind of question as a task of its own.
    pub fn can_run_tasks(&self) -> bool {
        self.elicitation_tasks || self.sampling_tasks
    }

    /// Returns true if the client can run this kind of question as a task of its own.
    pub fn can_run_as_task(&self, ask: &Ask) -> bool {
        match ask {
            Ask::Form(_) | Ask::Url(_) => self.elicitation_tasks,
            Ask::Sampling(_) => self.sampling_tasks,
            Ask::Roots => false,
        }
    }

    /// Returns true if the client accepts this question, and the caller may answer it.
    pub fn can_ask(&self, ask: &Ask) -> bool {
        self.missing(ask).is_none() && !self.barred
    }

    /// Returns the capability that the client must declare for this question, or `None` if none is missing.
    pub fn missing(&self, ask: &Ask) -> Option<&'static str> {
        let (is_declared, name) = match ask {
            Ask::Form(_) if self.elicitation_url => (self.elicitation_form, "elicitation.form"),
            Ask::Form(_) => (self.elicitation_form, "elicitation"),
            Ask::Url(_) => (self.elicitation_url, "elicitation.url"),
            Ask::Sampling(request) => return self.missing_to_sample(request),
            Ask::Roots => (self.roots, "roots"),
        };
        (!is_declared).then_some(name)
    }

    fn missing_to_sample(&self, request: &Map<String, Value>) -> Option<&'static str> {
        let has_tools = request.contains_key("tools") || request.contains_key("toolChoice");
        let has_context = request.get("includeContext").is_some_and(|context| context != "none");
        let messages = request.get("messages").and_then(Value::as_array);
        let has_lists = messages.into_iter().flatten().any(|message| message["content"].is_array());
        let needs = [
            (true, self.sampling, "sampling"),
            (has_tools, self.sampling_tools, "sampling.tools"),
            (has_context, self.sampling_context, "sampling.context"),
            (has_lists, self.sampling_lists, "sampling of a revision with lists of blocks"),
        ];
        needs.into_iter().find(|(needed, has, _)| *needed && !has).map(|(_, _, name)| name)
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    #[serde(rename = "v")]
    form: u8,
    /// The negotiated revision.
    #[serde(rename = "p")]
    pub revision: Revision,
    /// The capabilities of the client.
    #[serde(rename = "c")]
    pub client: ClientCapabilities,
    /// The owner who began the session. Callers with another owner cannot use it.
    #[serde(rename = "o")]
    pub owner: Owner,
    /// The name of the session within the server: 128 random bits in base 32. It must not be sent to a client
    /// unsealed.
    #[serde(rename = "n")]
    pub nonce: String,
    /// When the session began.
    #[serde(rename = "i")]
    pub issued: Timestamp,
    /// When the session expires.
    #[serde(rename = "e")]
    pub expires: Timestamp,
}

/// The sender of a message.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The authenticated caller.
    pub principal: Principal,
    /// The session, or `None` before it begins.
    pub session: Option<Session>,
}

impl Session {
    /// Begins a session that is valid for `lifetime` from `issued` on.
    pub fn begin(
        entropy: &dyn Entropy,
        (issued, lifetime): (Timestamp, Duration),
        owner: Owner,
        (revision, client): (Revision, ClientCapabilities),
    ) -> Self {
        let nonce: [u8; 16] = clock::random(entropy);
        Self {
            form: FORMAT_VERSION,
            revision,
            client,
            owner,
            nonce: data_encoding::BASE32_NOPAD.encode(&nonce).to_ascii_lowercase(),
            issued,
            expires: issued + lifetime,
        }
    }

    /// Creates a session that begins at this time and lasts for an hour.
    #[cfg(test)]
    pub(crate) fn for_tests(
        revision: Revision,
        client: ClientCapabilities,
        owner: Owner,
        nonce: &str,
        issued: Timestamp,
    ) -> Self {
        let expires = issued + std::time::Duration::from_secs(3600);
        Self { form: FORMAT_VERSION, revision, client, owner, nonce: nonce.to_owned(), issued, expires }
    }

    /// Returns the token, which is the value of `Mcp-Session-Id`. It consists of visible ASCII.
    pub fn token(&self, seal: &Seal) -> String {
        seal.seal(Purpose::Session, self)
    }

    /// Opens a token. Returns `None` if another key sealed it, or if it has another format version or has
    /// expired.
    pub fn open(seal: &Seal, text: &str, now: Timestamp) -> Option<Self> {
        let session: Self = seal.open(Purpose::Session, text)?;
        (session.form == FORMAT_VERSION && now < session.expires).then_some(session)
    }
}

/// Cache of opened sessions by token. Most requests use a recent session, and to open a token costs as much
/// as to parse the request. The cache does not know which sessions have ended.
#[derive(Default)]
pub(crate) struct SessionCache {
    cache: Mutex<CachedSessions>,
}

#[derive(Default)]
struct CachedSessions {
    sessions: HashMap<String, Session>,
    /// The key generation of the seal at which the sessions were opened. With other keys they may not open.
    key_generation: u64,
}

impl SessionCache {
    /// As [`Session::open`].
    pub(crate) fn open(&self, seal: &Seal, text: &str, now: Timestamp) -> Option<Session> {
        let key_generation = seal.rotations();
        {
            let mut cache = self.cache.lock();
            if cache.key_generation != key_generation {
                *cache = CachedSessions { sessions: HashMap::new(), key_generation };
            }
            if let Some(session) = cache.sessions.get(text) {
                return (now < session.expires).then(|| session.clone());
            }
        }
        let session = Session::open(seal, text, now)?;
        let mut cache = self.cache.lock();
        // Keys that were replaced in the meantime may have opened it.
        if cache.key_generation == key_generation {
            if cache.sessions.len() == MAX_CACHED {
                cache.sessions.clear();
            }
            cache.sessions.insert(text.to_owned(), session.clone());
        }
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::System;
    use crate::seal::Key;

    /// A form, a URL, sampling and roots are each asked only of a client that declared it.
    #[test]
    fn client_is_asked_within_capabilities() {
        let sampling = |fields: Value| {
            let mut request = json!({"messages": [{"role": "user", "content": {}}], "maxTokens": 1});
            request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            Ask::Sampling(request.as_object().unwrap().clone())
        };
        let asks = [
            Ask::Form(json!({})),
            Ask::Url("https://a.example".to_owned()),
            Ask::Roots,
            sampling(json!({})),
            sampling(json!({"tools": []})),
            sampling(json!({"includeContext": "thisServer"})),
            sampling(json!({"messages": [{"role": "user", "content": []}], "includeContext": "none"})),
        ];
        for (declared, expected) in [
            (json!(null), [false; 7]),
            (json!({"elicitation": {}}), [true, false, false, false, false, false, false]),
            (
                json!({"elicitation": {"form": {}, "url": {}}}),
                [true, true, false, false, false, false, false],
            ),
            (json!({"elicitation": {"url": {}}}), [false, true, false, false, false, false, false]),
            (json!({"roots": {"listChanged": true}}), [false, false, true, false, false, false, false]),
            (json!({"sampling": {}}), [false, false, false, true, false, false, true]),
            (json!({"sampling": {"tools": {}}}), [false, false, false, true, true, false, true]),
            (json!({"sampling": {"context": {}}}), [false, false, false, true, false, true, true]),
        ] {
            let client = ClientCapabilities::parse(&declared);
            assert_eq!(asks.each_ref().map(|ask| client.can_ask(ask)), expected, "{declared}");
        }
    }

    #[test]
    fn missing_capability_is_named() {
        let with = |fields: Value| Ask::Sampling(fields.as_object().unwrap().clone());
        for (declared, ask, missing) in [
            (json!({}), Ask::Form(json!({})), Some("elicitation")),
            (json!({"elicitation": {"url": {}}}), Ask::Form(json!({})), Some("elicitation.form")),
            (json!({"elicitation": {}}), Ask::Form(json!({})), None),
            (json!({"elicitation": {}}), Ask::Url("https://a.example".to_owned()), Some("elicitation.url")),
            (json!({}), Ask::Roots, Some("roots")),
            (json!({}), with(json!({"tools": []})), Some("sampling")),
            (json!({"sampling": {}}), with(json!({"tools": []})), Some("sampling.tools")),
            (
                json!({"sampling": {}}),
                with(json!({"includeContext": "thisServer"})),
                Some("sampling.context"),
            ),
        ] {
            assert_eq!(ClientCapabilities::parse(&declared).missing(&ask), missing, "{declared}");
        }
    }

    /// A question becomes a task of the client only for request types that the client declared.
    #[test]
    fn client_tasks_follow_declared_requests() {
        let requests =
            |requests: Value| json!({"elicitation": {}, "sampling": {}, "tasks": {"requests": requests}});
        let asks = [
            Ask::Form(json!({})),
            Ask::Url("https://a.example".to_owned()),
            Ask::Sampling(Map::new()),
            Ask::Roots,
        ];
        for (declared, expected) in [
            (json!({"elicitation": {}, "sampling": {}}), [false; 4]),
            (json!({"tasks": {"cancel": {}}}), [false; 4]),
            (requests(json!({"elicitation": {}})), [false; 4]),
            (requests(json!({"elicitation": {"create": {}}})), [true, true, false, false]),
            (requests(json!({"sampling": {"createMessage": {}}})), [false, false, true, false]),
        ] {
            let client = ClientCapabilities::parse(&declared);
            assert_eq!(asks.each_ref().map(|ask| client.can_run_as_task(ask)), expected, "{declared}");
            assert_eq!(client.can_run_tasks(), expected.contains(&true), "{declared}");
            assert!(!client.without_tasks().can_run_tasks());
        }
        assert!(ClientCapabilities::parse(&json!({"tasks": {"cancel": {}}})).cancels_tasks);
    }

    /// The cache of opened sessions is bounded, and follows expiry and key changes.
    #[test]
    fn cached_session_still_expires() {
        let seal = Seal::new(&[1; 32], System::entropy());
        let (issued, expires) = (Timestamp::from_millis(0), Timestamp::from_millis(10));
        let session = Session {
            form: FORMAT_VERSION,
            revision: Revision::ALL[0],
            client: ClientCapabilities { elicitation_url: true, ..ClientCapabilities::default() },
            owner: Owner::new("ann"),
            nonce: "n".to_owned(),
            issued,
            expires,
        };
        let token = session.token(&seal);
        let cache = SessionCache::default();
        let open_at = |millis| cache.open(&seal, &token, Timestamp::from_millis(millis));
        assert_eq!(
            (open_at(9).as_ref(), open_at(9), open_at(10)),
            (Some(&session), Some(session.clone()), None)
        );
        assert_eq!(cache.open(&seal, "other", issued), None);
        let older = Session { form: FORMAT_VERSION + 1, ..session };
        assert_eq!(cache.open(&seal, &older.token(&seal), issued), None, "a token of another form");
        for n in 0..=MAX_CACHED {
            let session = Session { form: FORMAT_VERSION, nonce: n.to_string(), ..older.clone() };
            assert!(cache.open(&seal, &session.token(&seal), issued).is_some());
        }
        assert!(cache.cache.lock().sessions.len() <= MAX_CACHED);
        seal.replace(&[Key::of("another")]);
        assert_eq!(cache.open(&seal, &token, issued), None, "a session of a key that is gone");
    }
}
