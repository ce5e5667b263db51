//! [`Remote`]: the test program as a service, a process of its own.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};

use crate::world::World;

/// The secret that `service.py` expects.
pub(crate) const TOKEN: &str = "b-secret";

pub(crate) struct Remote {
    child: Child,
    scheme: &'static str,
    port: u16,
}

impl Remote {
    pub(crate) fn new() -> Self {
        Self::run("http", &[])
    }

    /// Serves over TLS, with a certificate and its key.
    pub(crate) fn with_tls(certificate: &Path, key: &Path) -> Self {
        Self::run("https", &[certificate, key])
    }

    fn run(scheme: &'static str, arguments: &[&Path]) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/service.py");
        let mut child = Command::new("python3")
            .arg("-B")
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, scheme, port: line.trim().parse().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://localhost:{}/adapter", self.scheme, self.port)
    }

    /// The config of a backend over this service, with further members of its own config.
    pub(crate) fn config(&self, world: &World, more: Value) -> Value {
        let mut config = json!({"folder": world.folder()});
        let members: Map<String, Value> = more.as_object().cloned().unwrap_or_default();
        config.as_object_mut().unwrap().extend(members);
        json!({"url": self.url(), "auth": {"bearer": TOKEN}, "config": config})
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
