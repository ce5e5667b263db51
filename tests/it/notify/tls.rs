//! Tests for a receiver with TLS: it gets notices where its certificate is trusted, and none where it is not.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::support::TestDir;

use super::receiver::SECRET;
use super::{client, dir_with_sqlite, say, wait_for_log};

/// A server that prints its port, and then the body of each POST.
const SERVER: &str = "
import http.server, ssl
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers['content-length']))
        self.send_response(204)
        self.end_headers()
        print(body.decode(), flush=True)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(('127.0.0.1', 0), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('cert.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

/// A receiver. Dropping it kills its process.
struct TlsReceiver {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl TlsReceiver {
    fn start(dir: &TestDir) -> Self {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-subj", "/CN=127.0.0.1"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "key.pem", "-out", "cert.pem"]);
        openssl.args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]);
        dir.prepare(&mut openssl);
        let output = openssl.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut python = Command::new("python3");
        python.args(["-c", SERVER]);
        dir.prepare(&mut python);
        let mut child = python.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for TlsReceiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_certificate_is_checked() {
    let dir = dir_with_sqlite("");
    let mut receiver = TlsReceiver::start(&dir);
    let url = format!("https://127.0.0.1:{}", receiver.line());
    let notify = |path: &str, extra: &str| {
        format!("[[notify]]\nurl = \"{url}/{path}\"\nsecret = \"{SECRET}\"\n{extra}\n")
    };
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let both = format!("{config}{}{}", notify("a", "ca_file = \"cert.pem\""), notify("b", ""));
    std::fs::write(dir.config(), both).unwrap();
    let mut server = dir.serve();
    say(&client(&server).await, "hello").await;
    let (receiver, body) = tokio::task::spawn_blocking(move || {
        let line = receiver.line();
        (receiver, line)
    })
    .await
    .unwrap();
    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(event["type"], "io.taskbridge.task.ended");
    wait_for_log(&dir, "invalid peer certificate").await;
    assert_eq!(server.stop(), Some(0));
    drop(receiver);
}
