//! Tests for a receiver with TLS: it gets notices where its certificate is trusted, and none where it is not.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::support::Place;

use super::receiver::SECRET;
use super::{client, log_says, place, say};

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
struct Secured {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Secured {
    fn start(place: &Place) -> Self {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-subj", "/CN=127.0.0.1"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "key.pem", "-out", "cert.pem"]);
        openssl.args([
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]);
        place.settle(&mut openssl);
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut python = Command::new("python3");
        python.args(["-c", SERVER]);
        place.settle(&mut python);
        let mut child = python.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_certificate_is_checked() {
    let place = place("");
    let mut receiver = Secured::start(&place);
    let url = format!("https://127.0.0.1:{}", receiver.line());
    let notify = |path: &str, more: &str| {
        format!("[[notify]]\nurl = \"{url}/{path}\"\nsecret = \"{SECRET}\"\n{more}\n")
    };
    let config = std::fs::read_to_string(place.config()).unwrap();
    let both = format!("{config}{}{}", notify("a", "ca_file = \"cert.pem\""), notify("b", ""));
    std::fs::write(place.config(), both).unwrap();
    let mut server = place.serve();
    say(&client(&server).await, "hello").await;
    let (receiver, told) = tokio::task::spawn_blocking(move || {
        let line = receiver.line();
        (receiver, line)
    })
    .await
    .unwrap();
    let event: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(event["type"], "io.taskbridge.task.ended");
    log_says(&place, "invalid peer certificate").await;
    assert_eq!(server.stop(), Some(0));
    drop(receiver);
}
