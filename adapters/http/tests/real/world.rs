//! [`World`]: a backend of a preset for a real engine, with a proxy between them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_http::Http;
use taskbridge_sdk::suite::{InjectedFault, job};
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, JobSpec};

use crate::engine::{Engine, Shared};
use crate::proxy::{Fault, Proxy};

/// Timeout of a call. It is not reached: a busy machine is slow.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(180);

/// Timeout of what must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(600);

/// How a fault is injected: the next request whose first line contains a text meets it.
pub(crate) type Faults = &'static [(InjectedFault, &'static str, Fault)];

pub(crate) struct World {
    pub(crate) engine: &'static Engine,
    pub(crate) proxy: Proxy,
    pub(crate) backend: Arc<dyn Backend>,
    _folder: tempfile::TempDir,
}

impl World {
    /// Connects to an engine, with the preset and these members in the config. A member `base` is the path of
    /// the engine's API.
    pub(crate) async fn connect(engine: &'static Shared, preset: &str, extra: Value) -> Self {
        let engine = engine.get();
        let (proxy, folder) = (Proxy::start(engine.port).await, tempfile::tempdir().unwrap());
        // The fields of the preset's file go before the same ones in the program: a change of it needs no build.
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets").join(format!("{preset}.toml"));
        let mut config: Map<String, Value> = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        config.insert("preset".to_owned(), preset.into());
        config.insert("call_timeout".to_owned(), "180s".into());
        for (name, value) in extra.as_object().unwrap() {
            config.insert(name.clone(), value.clone());
        }
        let path = extra.get("base").and_then(Value::as_str).unwrap_or_default();
        config.insert("base".to_owned(), format!("http://127.0.0.1:{}{path}", proxy.port).into());
        let config = Http::complete(&Value::Object(config)).unwrap();
        let context = ConnectContext {
            name: "engine".to_owned(),
            config_dir: folder.path().to_owned(),
            state_dir: folder.path().join("state"),
            program: folder.path().join("program"),
            call_timeout: CALL_TIMEOUT,
        };
        let config = serde_json::from_value(config).unwrap();
        Http::check_config(&config).unwrap();
        let backend = Http::connect(config, &context).await.unwrap();
        Self { engine, proxy, backend, _folder: folder }
    }

    /// Injects a fault of a table.
    pub(crate) fn inject(&self, faults: Faults, fault: InjectedFault) {
        let (_, text, fault) = faults.iter().find(|(of, ..)| *of == fault).unwrap();
        self.proxy.inject(text, *fault);
    }
}

/// Creates a job with a new key.
pub(crate) fn start(target: Value, arguments: Value) -> JobSpec {
    job(target, arguments)
}
