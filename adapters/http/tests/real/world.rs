//! A backend of a preset, behind the proxy.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use taskbridge_http::Http;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, JobSpec};

use crate::proxy::Proxy;

/// Timeout of a call. It is not reached: a busy machine is slow.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) struct World {
    pub(crate) proxy: Proxy,
    pub(crate) backend: Arc<dyn Backend>,
    _folder: tempfile::TempDir,
}

impl World {
    /// Connects to the engine on this port, with the preset and these members in the config.
    pub(crate) async fn connect(preset: &str, port: u16, extra: Value) -> Self {
        let (proxy, folder) = (Proxy::start(port).await, tempfile::tempdir().unwrap());
        // The fields of the preset's file go before the same ones in the program: a change of it needs no build.
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("presets").join(format!("{preset}.toml"));
        let mut config: Map<String, Value> = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let base = format!("http://127.0.0.1:{}", proxy.port);
        config.extend([("preset".to_owned(), preset.into()), ("base".to_owned(), base.into())]);
        config.insert("call_timeout".to_owned(), "180s".into());
        for (name, value) in extra.as_object().unwrap() {
            config.insert(name.clone(), value.clone());
        }
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
        Self { proxy, backend, _folder: folder }
    }
}

/// Creates a job with a new key.
pub(crate) fn start(target: Value, arguments: Value) -> JobSpec {
    job(target, arguments)
}
