//! A third generation of the protocol, for a test: lists, calls, waits, prompts and resources work over it
//! without a change in a feature. Its wire forms are as plain as possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use taskbridge_sdk::Level;
use tokio_util::sync::CancellationToken;

use crate::adapters;
use crate::app::App;
use crate::auth::Principal;
use crate::catalog::TaskSupport;
use crate::config;
use crate::mcp::Bridge;
use crate::mcp::features::context::FeatureContext;
use crate::mcp::features::dialect::{Cache, CallMode, CallRefusal, Dialect, WaitChannel};
use crate::mcp::features::request::RequestExt as _;
use crate::mcp::features::resources::EngineReads;
use crate::mcp::features::tools::progress::ProgressReport;
use crate::mcp::features::tools::result::ToolResult;
use crate::mcp::features::{self, tasks};
use crate::mcp::session::log_cursor::LogMessage;
use crate::mcp::session::message_sink::{MessageSink, Resume};
use crate::mcp::session::token::ClientCapabilities;
use crate::mcp::wire::jsonrpc::{Error, INVALID_PARAMS, Id, Payload};
use crate::mcp::wire::params::{self, CallParams};
use crate::mcp::wire::types;
use crate::tasks::machine::CancelMode;
use crate::tasks::service::View;
use crate::tasks::store::StoreError;
use crate::tasks::task::{Task, TaskId};

const CONFIG: &str = r#"
[store]
path = "tasks.db"

[backends.engine]
kind = "sim"

[tools.greet]
backend = "engine"
target = { delay_ms = 300, steps = 2, text = "done", notes = ["half"] }

[tools.long]
backend = "engine"
task_support = "required"
target = { delay_ms = 3_600_000 }

[resources.runbook]
uri = "runbook://deploy"
text = "Read me."

[prompts.hello]
messages = [{ text = "Say hello." }]
"#;

/// A request of the toy generation.
struct ToyRequest<'a> {
    bridge: &'a Bridge,
    principal: Principal,
}

#[async_trait]
impl Dialect for ToyRequest<'_> {
    fn context(&self) -> &FeatureContext {
        &self.bridge.context
    }

    fn reads(&self) -> &EngineReads {
        &self.bridge.reads
    }

    fn principal(&self) -> &Principal {
        &self.principal
    }

    fn revision(&self) -> &'static str {
        "toy"
    }

    fn client(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    fn offers_companions(&self) -> bool {
        false
    }

    fn call_params(&self, params: Value) -> Result<CallParams, Error> {
        params::call(params)
    }

    fn call_mode(&self, _tool: &str, support: TaskSupport, _params: &CallParams) -> Result<CallMode, Error> {
        Ok(if support == TaskSupport::Required { CallMode::Task } else { CallMode::Plain })
    }

    fn refused_call(&self, refusal: CallRefusal, _mode: CallMode) -> Result<Value, Error> {
        let (CallRefusal::InvalidCall(message) | CallRefusal::Busy(message)) = refusal;
        Err(params::invalid(message))
    }

    fn created_task(&self, view: &View, is_new: bool) -> Value {
        json!({"task": view.task.id, "new": is_new})
    }

    fn tool_result(&self, result: ToolResult) -> Value {
        json!({"blocks": result.content, "failed": result.is_error})
    }

    fn wait_channel<'a>(&'a self, _task: &TaskId, sink: &'a dyn MessageSink) -> Box<dyn WaitChannel + 'a> {
        Box::new(ToyChannel(sink))
    }

    fn tool(&self, tool: types::Tool<'_>, _support: TaskSupport) -> Value {
        json!(tool.name)
    }

    fn result(&self, body: Value, cache: Option<Cache>) -> Value {
        json!({"body": body, "cached": cache.is_some()})
    }

    fn resource_not_found(&self) -> i32 {
        INVALID_PARAMS
    }
}

struct ToyChannel<'a>(&'a dyn MessageSink);

#[async_trait]
impl WaitChannel for ToyChannel<'_> {
    fn sends_logs(&self, _task: &Task) -> bool {
        true
    }

    async fn send_logs(&mut self, messages: Vec<LogMessage>) -> Result<(), StoreError> {
        for LogMessage { level, data, .. } in messages {
            assert_eq!(level, Level::Info);
            self.0.send(json!({ "log": data })).await;
        }
        Ok(())
    }

    async fn send_progress(&mut self, token: &Value, report: ProgressReport) {
        self.0.send(json!({"token": token, "progress": report.progress})).await;
    }
}

/// Collects what a request sends before its answer.
#[derive(Default)]
struct Messages(parking_lot::Mutex<Vec<Value>>);

#[async_trait]
impl MessageSink for Messages {
    async fn send(&self, message: Value) -> bool {
        self.0.lock().push(message);
        true
    }

    fn set_resume(&self, _resume: Resume) {}

    fn is_shared(&self) -> bool {
        false
    }

    fn is_superseded(&self) -> bool {
        false
    }
}

/// A new generation needs only its own wire forms: no feature changes.
#[tokio::test]
async fn third_generation_needs_no_feature_change() {
    let folder = tempfile::tempdir().unwrap();
    let registry = adapters::all();
    let config =
        config::parse(Path::new("toy.toml"), folder.path(), CONFIG, &registry, Some(folder.path())).unwrap();
    let App { bridge, reconciler, .. } = App::build(config, &registry, PathBuf::new(), false).await.unwrap();
    let stop = CancellationToken::new();
    let checks = async {
        check_requests(&bridge).await;
        stop.cancel();
    };
    tokio::join!(reconciler.run(stop.clone()), checks);
}

async fn check_requests(bridge: &Arc<Bridge>) {
    let request = ToyRequest { bridge, principal: Principal::single_user() };
    let sink = Messages::default();
    let serve = async |method: &str, params: Value| match features::serve(
        &request,
        (&Id::Integer(1), method),
        params,
        &sink,
    )
    .await
    {
        Some(Ok(Payload::Value(value))) => value,
        Some(Ok(payload)) => {
            serde_json::from_slice(&crate::mcp::wire::jsonrpc::pieces(&Id::Integer(1), Ok(payload)).concat())
                .map(|mut message: Value| message["result"].take())
                .unwrap()
        }
        Some(Err(error)) => panic!("{method}: {}", error.message),
        None => panic!("{method} is not a method of all generations"),
    };
    let tools = serve("tools/list", json!({})).await;
    // Companion tools come first.
    let names: Vec<&Value> = tools["body"]["tools"].as_array().unwrap().iter().rev().take(2).collect();
    assert_eq!(names, [&json!("long"), &json!("greet")], "{tools}");

    let call = json!({"name": "greet", "_meta": {"progressToken": "p"}});
    let result = serve("tools/call", call).await;
    assert_eq!((&result["blocks"][0]["text"], &result["failed"]), (&json!("done"), &json!(false)));
    let sent = std::mem::take(&mut *sink.0.lock());
    assert!(sent.contains(&json!({"log": "half"})), "{sent:?}");
    assert!(sent.iter().any(|message| message["token"] == "p"), "{sent:?}");

    let task = serve("tools/call", json!({"name": "long"})).await;
    assert_eq!(task["new"], true);
    let id = TaskId::from_wire(task["task"].as_str().unwrap());
    assert!(!request.find_task(&id).await.unwrap().task.has_ended());
    let page = tasks::list(&request, &json!({})).await.unwrap();
    assert_eq!((page.views.len(), page.next_cursor), (2, None));
    let (had_ended, task) = tasks::cancel(&request, &id, CancelMode::Immediate).await.unwrap();
    assert!(!had_ended && task.has_ended());

    let contents = serve("resources/read", json!({"uri": "runbook://deploy"})).await;
    assert_eq!(contents["body"]["contents"][0]["text"], "Read me.");
    assert_eq!(contents["cached"], true);
    let unknown = json!({"uri": "runbook://unknown"});
    let answer = features::serve(&request, (&Id::Integer(1), "resources/read"), unknown, &sink).await;
    assert!(matches!(answer, Some(Err(error)) if error.code == INVALID_PARAMS));
    let prompt = serve("prompts/get", json!({"name": "hello"})).await;
    assert_eq!(prompt["body"]["messages"][0]["content"]["text"], "Say hello.");
    assert_eq!(prompt["cached"], false);
    assert!(features::serve(&request, (&Id::Integer(1), "toy/method"), json!({}), &sink).await.is_none());
}
