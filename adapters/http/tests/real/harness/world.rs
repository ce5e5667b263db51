//! [`World`]: a backend of a preset for a real engine, with a proxy between them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_http::Http;
use taskbridge_sdk::suite::{InjectedFault, job};
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, JobSpec};

use crate::harness::engine::{Engine, Shared};
use crate::harness::proxy::{Fault, Proxy};

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
    /// Connects to an engine, with the preset and these members in the config. `{proxy}` in a text of theirs is
    /// the port of the proxy.
    pub(crate) async fn connect(engine: &'static Shared, preset: &str, extra: Value) -> Self {
        let engine = engine.get();
        let (proxy, folder) = (Proxy::start(engine.port).await, tempfile::tempdir().unwrap());
        // The fields of the preset's file go before the same ones in the program: a change of it needs no build.
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets").join(format!("{preset}.toml"));
        let mut config: Map<String, Value> = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let base = format!("http://127.0.0.1:{}", proxy.port);
        config.extend([("preset".to_owned(), preset.into()), ("base".to_owned(), base.into())]);
        config.insert("call_timeout".to_owned(), "180s".into());
        let extra = extra.to_string().replace("{proxy}", &proxy.port.to_string());
        merge(&mut config, serde_json::from_str(&extra).unwrap());
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

fn merge(fields: &mut Map<String, Value>, own: Map<String, Value>) {
    for (name, value) in own {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(fields)), Value::Object(own)) if name != "auth" => merge(fields, own),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
}

/// Creates a job with a new key.
pub(crate) fn start(target: Value, arguments: Value) -> JobSpec {
    job(target, arguments)
}
