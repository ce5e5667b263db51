//! Repository with one waiting run, over HTTP, for tests of this crate that do not need the installed test
//! GitHub.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskbridge_sdk::ConnectContext;

use crate::core::Actions;

/// Environment that the run's jobs wait for.
pub(crate) const ENVIRONMENT: u64 = 5;

#[derive(Default)]
pub(crate) struct Repository {
    pub(crate) id: u64,
    /// Number of jobs that still wait for the environment, one after the other.
    pub(crate) gates: usize,
    /// States of the reviews, oldest first.
    pub(crate) reviews: Vec<String>,
    /// Hosts of the requests that used this server as a proxy.
    pub(crate) hosts: Vec<String>,
    /// True while every call fails.
    pub(crate) is_unavailable: bool,
}

pub(crate) struct Standin {
    port: u16,
    pub(crate) repository: Arc<Mutex<Repository>>,
}

impl Standin {
    #[expect(clippy::disallowed_methods, reason = "the threads end with the test's process")]
    pub(crate) fn new(repository: Repository) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let repository = Arc::new(Mutex::new(repository));
        let shared_repository = Arc::clone(&repository);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared_repository) = (stream.unwrap(), Arc::clone(&shared_repository));
                std::thread::spawn(move || serve(stream, &shared_repository));
            }
        });
        Self { port, repository }
    }

    /// Connects a backend of the repository `o/r` with this token.
    pub(crate) async fn connect(&self, token: &str) -> Actions {
        let config = json!({"api": self.address(), "token": token});
        self.connect_with(config).await
    }

    /// Returns the address of this server.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Connects a backend of the repository `o/r`, with the rest of this config.
    pub(crate) async fn connect_with(&self, mut config: Value) -> Actions {
        config["repository"] = "o/r".into();
        let context = ConnectContext {
            name: "gh".to_owned(),
            config_dir: "/".into(),
            state_dir: "/".into(),
            program: "/".into(),
            call_timeout: std::time::Duration::from_secs(60),
        };
        Actions::connect(serde_json::from_value(config).unwrap(), &context).await.unwrap()
    }
}

/// Serves the requests of one connection.
fn serve(mut stream: TcpStream, repository: &Mutex<Repository>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let (mut request_line, mut length) = (String::new(), 0);
        if lines.read_line(&mut request_line)? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            match line.trim().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap();
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        let mut parts = request_line.split(' ');
        let (method, target) = (parts.next().unwrap(), parts.next().unwrap());
        // Requests to a proxy contain the whole URL.
        let path = match target.strip_prefix("http://").and_then(|rest| Some((rest, rest.find('/')?))) {
            Some((rest, at)) => {
                repository.lock().hosts.push(rest[..at].to_owned());
                &rest[at..]
            }
            None => target,
        };
        let (status, body) = respond(&mut repository.lock(), method, path, &body);
        let body = body.to_string();
        let location = if status == 302 { "location: http://blobs.test/log\r\n" } else { "" };
        let head = format!("HTTP/1.1 {status} -\r\n{location}content-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes())?;
    }
}

fn respond(repository: &mut Repository, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let environment = json!({"id": ENVIRONMENT, "name": "production"});
    let run = path.strip_prefix("/repos/o/r/actions/runs/7");
    match (method, path, run) {
        _ if repository.is_unavailable => (503, json!({"message": "away"})),
        // Another repository has taken the name `o/r`.
        ("GET", "/repositories/41", _) => {
            (200, json!({"id": 41, "full_name": "o/new", "default_branch": "main"}))
        }
        ("GET", "/repos/o/new/actions/runs/9", _) => {
            (200, json!({"id": 9, "status": "in_progress", "run_attempt": 1}))
        }
        ("GET", "/repos/o/r/actions/jobs/3/logs", _) => (302, json!(null)),
        ("GET", "/log", _) => (200, json!("printed")),
        ("GET", "/repos/o/r", _) => (200, json!({"id": repository.id, "default_branch": "main"})),
        ("GET", _, Some("/pending_deployments")) => {
            let gate = json!({"environment": environment, "current_user_can_approve": true,
                "reviewers": [{"type": "User", "reviewer": {"login": "octocat"}}]});
            (200, json!(vec![gate; repository.gates.min(1)]))
        }
        ("POST", _, Some("/pending_deployments")) if repository.gates > 0 => {
            let review: Value = serde_json::from_slice(body).unwrap();
            repository.reviews.push(review["state"].as_str().unwrap().to_owned());
            repository.gates -= 1;
            (200, json!([]))
        }
        ("POST", _, Some("/pending_deployments")) => (422, json!({"message": "nothing waits"})),
        ("GET", _, Some("/approvals")) => {
            let reviews = repository.reviews.iter();
            let reviews = reviews.map(|state| json!({"state": state, "environments": [environment]}));
            (200, reviews.collect())
        }
        _ => (404, json!({"message": "Not Found"})),
    }
}
