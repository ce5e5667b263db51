//! Tests of the conversion of requests into calls, and of the secrecy of arguments.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::sim::Sim;
use taskbridge_sdk::{FileContent, OnBehalfOf, Output, Registry, SourceFile};

use super::Consent;
use super::{CallRequest, Catalog, PrepareError};
use crate::auth::{Identity, Principal};
use crate::clock::System;
use crate::seal::Seal;
use crate::tasks::service::Call;
use crate::tasks::task::{Origin, Owner};
use crate::tasks::tools::{OpenedSpec, ToolCatalog as _};

const CONFIG: &str = r#"
[lifetime]
default_ttl = "1h"
min_ttl = "1m"
max_ttl = "1d"
[backends.here]
kind = "sim"
[tools.plain]
backend = "here"
target = { delay_ms = 1 }
max_running = 2
[tools.plain.parameters]
path = { type = "string" }
depth = { type = "integer", default = 3, maximum = 9 }
[tools.secret]
backend = "here"
target = {}
[tools.secret.parameters]
user = { type = "string" }
token = { type = "string", sensitive = true, pattern = "^tok-" }
[tools.filed]
backend = "here"
target = {}
[tools.filed.parameters]
doc = { type = "file", roots = ["."], max_bytes = 100 }
[tools.asks]
backend = "here"
target = {}
confirm = "Delete {{ path }}?"
[tools.asks.parameters]
path = { type = "string" }
[tools.goes_on]
backend = "here"
target = {}
confirm = "Go?"
confirm_default = "accept"
[tools.typed]
backend = "here"
target = {}
[tools.typed.output_schema]
type = "object"
required = ["n"]
properties.n.type = "integer"
"#;

fn catalog_in(dir: &Path) -> Catalog {
    let registry = Registry::new().with::<Sim>();
    let config =
        crate::config::parse(Path::new("x.toml"), dir, CONFIG, &registry, Some(Path::new("/state"))).unwrap();
    Catalog::new(config.tools, config.slot_limits, Seal::new(&[7; 32], System::entropy()))
}

fn catalog() -> Catalog {
    catalog_in(Path::new("/etc/bridge"))
}

fn request(arguments: Value) -> CallRequest {
    CallRequest {
        principal: Principal { owner: Owner::new("ann"), ..Principal::single_user() },
        origin: Origin::default(),
        arguments,
        ttl: None,
        idempotency_key: None,
        timeout: None,
        consent: Consent::Impossible,
        nonce: None,
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn prepare(catalog: &Catalog, tool: &str, request: CallRequest) -> Result<Call, PrepareError> {
    block_on(catalog.get(tool).unwrap().prepare(request))
}

#[test]
fn arguments_are_filled_in_and_checked() {
    let call = prepare(&catalog(), "plain", request(json!({"path": "/x"}))).unwrap();
    assert_eq!(call.spec.arguments, json!({"path": "/x", "depth": 3}));
    assert_eq!(call.spec.target, json!({"delay_ms": 1}));
    assert_eq!((call.tool.as_str(), call.backend.as_str()), ("plain", "here"));
    assert_eq!(call.slots, ["tool:plain"]);
    assert!(call.spec.sealed.is_none() && call.idempotency_key.is_none() && call.blocking.is_none());

    for (arguments, expected) in [
        (json!({}), "`arguments`: \"path\" is a required property (rule `required`)"),
        (json!({"path": 5}), "`path`: 5 is not of type \"string\" (rule `type`)"),
        (json!({"path": "/x", "depth": 10}), "`depth`: 10 is greater than the maximum of 9 (rule `maximum`)"),
        (json!([]), "the arguments must be an object"),
    ] {
        let error = prepare(&catalog(), "plain", request(arguments)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn the_lifetime_is_clamped() {
    let ttl = |requested: Option<u64>| {
        let request =
            CallRequest { ttl: requested.map(Duration::from_secs), ..request(json!({"path": "/"})) };
        prepare(&catalog(), "plain", request).unwrap().terms.ttl.as_secs()
    };
    assert_eq!([ttl(None), ttl(Some(1)), ttl(Some(120)), ttl(Some(u64::MAX))], [3_600, 60, 120, 86_400]);
}

#[test]
fn secrets_are_sealed_and_never_shown() {
    let catalog = catalog();
    let arguments = json!({"user": "bob", "token": "tok-hunter2"});
    let call = prepare(&catalog, "secret", request(arguments.clone())).unwrap();
    assert_eq!(call.spec.arguments, json!({"user": "bob"}));
    assert!(!format!("{call:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&call.spec).unwrap().contains("hunter2"));
    assert_eq!(catalog.open(&call.spec).unwrap().arguments, arguments);

    for arguments in [json!({"user": "bob", "token": "hunter2"}), json!({"token": "hunter2"})] {
        let call_request = request(arguments);
        assert!(!format!("{call_request:?}").contains("hunter2"));
        let text = prepare(&catalog, "secret", call_request).unwrap_err().to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
    // Another key, as after a store was replaced: the row is readable, and the secret is not.
    let other = Catalog::new(Vec::new(), Default::default(), Seal::new(&[8; 32], System::entropy()));
    let error = other.open(&call.spec).err().unwrap();
    assert_eq!(error.kind(), taskbridge_sdk::ErrorKind::Config);
}

/// A file is reopened at the start, and one that grew, vanished or became a link is refused.
#[test]
fn call_files_cannot_be_forged() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().canonicalize().unwrap();
    std::fs::write(dir.join("a.txt"), "abc").unwrap();
    let catalog = catalog_in(&dir);
    let open = |doc: Value| {
        let call = prepare(&catalog, "filed", request(json!({"doc": doc})))?;
        assert_eq!(call.spec.arguments, json!({}));
        Ok::<_, PrepareError>(catalog.open(&call.spec).unwrap())
    };
    let opened = open(json!({"content": "hello", "name": "b.txt"})).unwrap();
    assert_eq!(opened.arguments, json!({"doc": "b.txt"}));
    assert_eq!((opened.files[0].parameter.as_str(), opened.files[0].name.as_str()), ("doc", "b.txt"));
    assert!(matches!(&opened.files[0].content, FileContent::Inline(bytes) if bytes == b"hello"));

    let opened = open(json!({"uri": format!("file://{}/a.txt", dir.display())})).unwrap();
    let source = |opened: OpenedSpec| match opened.files.into_iter().next().unwrap().content {
        FileContent::Source(source) => source,
        FileContent::Inline(_) => panic!("the call named a path"),
    };
    assert_eq!(source(opened), SourceFile::new(dir.join("a.txt"), 100));

    for doc in [json!({"uri": "file:///etc/passwd"}), json!({"Path": "/etc/passwd"}), json!("/etc/passwd")] {
        assert!(open(doc).err().unwrap().to_string().starts_with("`doc`: "));
    }

    // The file grows, and is replaced by a link out of the folder, between the check of the call and the
    // start of the job.
    let uri = json!({"doc": {"uri": format!("file://{}/a.txt", dir.display())}});
    let call = prepare(&catalog, "filed", request(uri)).unwrap();
    let open_error = || source(catalog.open(&call.spec).unwrap()).open().unwrap_err().to_string();
    std::fs::write(dir.join("a.txt"), "x".repeat(5000)).unwrap();
    assert_eq!(open_error(), "the file `a.txt` cannot be used: a.txt has 5000 bytes, the limit is 100");
    std::fs::remove_file(dir.join("a.txt")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.join("a.txt")).unwrap();
    assert_eq!(open_error(), "the file `a.txt` no longer exists");
}

/// A client that cannot be asked is refused, unless the tool goes on without a confirmation.
#[test]
fn confirmation_is_asked_where_possible() {
    let catalog = catalog();
    let call_request = CallRequest { consent: Consent::Ask, ..request(json!({"path": "/x"})) };
    let question = prepare(&catalog, "asks", call_request).unwrap().confirm.unwrap();
    assert_eq!(question.message, "Delete /x?");
    let error = prepare(&catalog, "asks", request(json!({"path": "/x"}))).unwrap_err();
    assert!(matches!(error, PrepareError::CannotAsk(_)) && error.to_string().contains("nothing was started"));
    assert!(prepare(&catalog, "goes_on", request(json!({}))).unwrap().confirm.is_none());
    let call_request = CallRequest { consent: Consent::Ask, ..request(json!({})) };
    assert!(prepare(&catalog, "goes_on", call_request).unwrap().confirm.is_some());
}

/// The digest depends on the caller or the session, and without both every call is distinct.
#[test]
fn equal_calls_have_equal_digests() {
    let catalog = catalog();
    let digests = |tool: &str, arguments: &str, owner: &str, identified: bool, session: Option<&str>| {
        let call = prepare(
            &catalog,
            tool,
            CallRequest {
                principal: Principal { owner: Owner::new(owner), identified, ..Principal::anonymous() },
                origin: Origin { channel: session.map(str::to_owned), ..Origin::default() },
                idempotency_key: session.or(identified.then_some("")).map(|_| "k".to_owned()),
                timeout: Some(Duration::from_secs(1)),
                consent: Consent::Ask,
                ..request(serde_json::from_str(arguments).unwrap())
            },
        )
        .unwrap();
        let idempotency_key =
            call.idempotency_key.map(|idempotency_key| (idempotency_key.scope, idempotency_key.digest));
        let blocking = call.blocking.unwrap();
        (idempotency_key, blocking.digest, blocking.attach_within.as_secs())
    };
    let first = digests("plain", r#"{"path": "/x", "depth": 3}"#, "ann", true, None);
    assert_eq!(first.0.as_ref().unwrap().0, "owner:ann");
    assert_eq!(first.2, 600);
    assert_eq!(first, digests("plain", r#"{"depth": 3, "path": "/x"}"#, "ann", true, Some("s")));
    for other in [
        digests("plain", r#"{"path": "/x"}"#, "ann", true, None),
        digests("plain", r#"{"path": "/x", "depth": 4}"#, "ann", true, None),
        digests("asks", r#"{"path": "/x"}"#, "ann", true, None),
    ] {
        assert_ne!(first.0.as_ref().unwrap().1, other.0.unwrap().1);
        assert_ne!(first.1, other.1);
    }
    let bob = digests("plain", r#"{"path": "/x", "depth": 3}"#, "bob", true, None);
    assert_ne!((&first.0, &first.1), (&bob.0, &bob.1));

    // Without identity, calls are equal within a session only; without a session, never.
    let anonymous = |session| digests("plain", r#"{"path": "/x"}"#, "anonymous", false, session);
    assert_eq!(anonymous(Some("s")), anonymous(Some("s")));
    assert_eq!(anonymous(Some("s")).0.unwrap().0, "session:s");
    assert_ne!(anonymous(Some("s")).1, anonymous(Some("t")).1);
    assert_ne!(anonymous(None).1, anonymous(None).1);
    assert_eq!(anonymous(None).2, 0);
}

/// The caller's name goes to the engine, and a name with control characters is refused.
#[test]
fn call_names_its_caller() {
    let catalog = catalog();
    let on_behalf_of = |identity: Identity| {
        let principal = Principal { identity: Arc::new(identity), ..Principal::anonymous() };
        let request = CallRequest { principal, ..request(json!({"path": "/x"})) };
        prepare(&catalog, "plain", request).map(|call| call.origin.on_behalf_of)
    };
    assert_eq!(on_behalf_of(Identity::default()).unwrap(), None);
    assert_eq!(on_behalf_of(Identity::named("ann")).unwrap(), Some(OnBehalfOf::named("ann")));
    let identity = Identity {
        issuer: Some("https://id.example".to_owned()),
        subject: Some("7".to_owned()),
        tenant: Some("acme".to_owned()),
        groups: ["data".to_owned()].into(),
        scopes: ["run".to_owned()].into(),
        ..Identity::default()
    };
    let person = on_behalf_of(identity).unwrap().unwrap();
    assert_eq!((person.name.as_str(), person.id().as_str()), ("7", "https://id.example#acme#7"));
    assert!(person.groups.contains("data"));
    let client = Identity {
        issuer: Some("https://id.example".to_owned()),
        client_id: Some("7".to_owned()),
        tenant: Some("acme".to_owned()),
        ..Identity::default()
    };
    let person = on_behalf_of(client).unwrap().unwrap();
    assert_eq!((person.name.as_str(), person.id().as_str()), ("7", "https://id.example#acme#client_id=7"));

    let error = on_behalf_of(Identity::named("ann\r\nX-Role: admin")).unwrap_err();
    assert!(matches!(error, PrepareError::Caller(_)), "{error}");
    assert!(error.to_string().starts_with("nothing was started: your name contains a control character"));
}

/// A key needs an identified caller and 1 to 255 bytes.
#[test]
fn idempotency_key_needs_identified_caller() {
    let prepare_with_key = |identified, key: &str| {
        let request = CallRequest {
            principal: Principal { owner: Owner::new("ann"), identified, ..Principal::anonymous() },
            idempotency_key: Some(key.to_owned()),
            ..request(json!({"path": "/x"}))
        };
        prepare(&catalog(), "plain", request).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(prepare_with_key(true, "k"), Ok(()));
    assert!(prepare_with_key(true, "").unwrap_err().contains("1 to 255 bytes"));
    assert!(prepare_with_key(true, &"k".repeat(256)).unwrap_err().contains("this one has 256"));
    assert!(prepare_with_key(false, "k").unwrap_err().contains("needs an identified caller"));
}

/// A structured result that does not fit, or is missing, is reported.
#[test]
fn results_are_checked_against_output_schema() {
    let catalog = catalog();
    let validate = |structured: Option<Value>| {
        let output = Output { structured, ..Output::default() };
        block_on(catalog.validate_output("typed", &output))
    };
    assert_eq!(validate(Some(json!({"n": 1}))), Ok(()));
    assert_eq!(
        validate(Some(json!({"n": "x"}))),
        Err("`n`: \"x\" is not of type \"integer\" (rule `type`)".to_owned())
    );
    assert!(validate(None).unwrap_err().contains("returned no structured result"));
    assert_eq!(block_on(catalog.validate_output("plain", &Output::default())), Ok(()));
}

/// The pages are sorted by name, and the limits of slots that exist are known.
#[test]
fn tools_are_listed_by_name() {
    let catalog = catalog();
    let names = |after, limit| {
        catalog.page(after, limit, |_| true).into_iter().map(|tool| tool.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(None, 3), ["asks", "filed", "goes_on"]);
    assert_eq!(names(Some("goes_on"), 9), ["plain", "secret", "typed"]);
    let slots = ["tool:plain", "tool:gone", "tool:secret", "backend:here"].map(str::to_owned);
    let limits = catalog.limits(&slots);
    assert_eq!(
        limits.iter().map(|l| (l.slot.as_str(), l.limit)).collect::<Vec<_>>(),
        [("tool:plain", 2), ("tool:gone", 1)]
    );
    let owner_slots = ["owner:x", "tool:gone/owner:x", "tool:secret/owner:x"].map(str::to_owned);
    assert_eq!(
        catalog.limits(&owner_slots).iter().map(|l| (l.slot.as_str(), l.limit)).collect::<Vec<_>>(),
        [("owner:x", 500), ("tool:gone/owner:x", 1)]
    );
    let client_schema = &catalog.get("filed").unwrap().input_schema["properties"]["doc"];
    assert_eq!(client_schema["oneOf"][1]["required"], json!(["uri"]));
}
