//! The engine behind the wire: jobs whose kind decides what they do, and faults.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Request};

/// A fault of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The request takes effect, and its reply is lost.
    ReplyLost,
    /// The request takes effect, and the reply has this status.
    After(u16),
    /// The request has no effect, and the reply has this status.
    Before(u16),
    /// The request has no effect, and the reply is a page of a proxy with this status.
    Page(u16),
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) request: Request,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) kind: String,
    pub(crate) arguments: Value,
    pub(crate) state: &'static str,
    pub(crate) polls: u32,
    pub(crate) answered: bool,
    pub(crate) note: Option<String>,
}

pub(crate) struct Engine {
    pub(crate) address: String,
    pub(crate) jobs: Vec<Job>,
    pub(crate) kinds: BTreeMap<String, Value>,
    pub(crate) faults: Vec<(String, Fault)>,
    pub(crate) scripted: Vec<(String, Answer)>,
    pub(crate) seen: Vec<Seen>,
    /// How many jobs a page of the list has.
    pub(crate) page: usize,
    /// How many of the newest jobs the list does not show yet.
    pub(crate) unlisted: usize,
}

/// Kinds that an engine has at first.
const KINDS: [&str; 6] = ["succeed", "fail", "long", "ask", "log", "file"];

/// Content of the file that a job of the kind `file` leaves.
pub(crate) const FILE: &str = "the content of the report\n";

impl Engine {
    pub(super) fn new(address: String) -> Self {
        let kinds = KINDS.iter().map(|kind| ((*kind).to_owned(), json!({"type": "object"}))).collect();
        let (jobs, faults, scripted, seen) = Default::default();
        Self { address, jobs, kinds, faults, scripted, seen, page: 3, unlisted: 0 }
    }

    pub(super) fn answer(&mut self, request: &Request) -> Answer {
        let line = format!("{} {}", request.method, request.path);
        self.seen.push(Seen { line: line.clone(), request: request.clone() });
        // A script can be for one page of a list.
        let page = request.query.get("offset").map(|offset| format!("?offset={offset}"));
        let paged = line.clone() + &page.unwrap_or_default();
        if let Some((_, answer)) = self.scripted.iter().find(|(start, _)| paged.starts_with(start.as_str())) {
            return answer.clone();
        }
        let fault = self.faults.iter().position(|(start, _)| line.starts_with(start.as_str()));
        match fault.map(|at| self.faults.remove(at).1) {
            Some(Fault::Before(status)) => {
                Answer::json(status, &json!({"detail": "not now"})).with_header("retry-after", "7")
            }
            Some(Fault::Page(status)) => Answer::text(status, "text/html", "<html>a proxy's page</html>"),
            Some(Fault::After(status)) => {
                self.handle(request);
                Answer::json(status, &json!({"detail": "it broke"}))
            }
            Some(Fault::ReplyLost) => {
                self.handle(request);
                Answer::lost()
            }
            None => self.handle(request),
        }
    }

    fn handle(&mut self, request: &Request) -> Answer {
        let path: Vec<&str> = request.path.trim_start_matches("/api/").split('/').collect();
        match (request.method.as_str(), path.as_slice()) {
            ("GET", ["me"]) => Answer::json(200, &json!({"user": "bridge"})),
            ("POST", ["jobs"]) => self.create(request, false),
            ("PUT", ["jobs"]) => self.create(request, true),
            ("GET", ["jobs"]) => self.list(request),
            ("GET", ["jobs", id]) => self.poll(id),
            ("POST", ["jobs", id, "cancel"]) => self.cancel(id, request),
            ("GET", ["jobs", id, "log"]) => match self.job(id) {
                Some(job) if job.kind == "log" => {
                    Answer::text(200, "text/plain", "first line of it\nsecond entry here\nthird and last\n")
                }
                _ => Answer::json(404, &json!({"detail": "no log"})),
            },
            ("GET", ["jobs", id, "files"]) => match self.job(id) {
                Some(job) if job.kind == "file" => {
                    Answer::json(200, &json!({"files": [{"name": "out/report.txt", "size": FILE.len()}]}))
                }
                _ => Answer::json(200, &json!({"files": []})),
            },
            ("GET", ["jobs", id, "files", "out%2Freport.txt"]) if self.job(id).is_some() => {
                Answer::text(200, "text/plain", FILE)
            }
            ("POST", ["jobs", id, "answers", question]) => self.take_answer(id, question, request),
            ("GET", ["kinds"]) => {
                let kinds: Vec<Value> = self.kinds.keys().map(|name| json!({"name": name})).collect();
                Answer::json(200, &json!({"kinds": kinds}))
            }
            ("GET", ["kinds", name]) => match self.kinds.get(*name) {
                Some(schema) => {
                    Answer::json(200, &json!({"name": name, "schema": schema, "help": "It helps."}))
                }
                None => Answer::json(404, &json!({"detail": "no such kind"})),
            },
            _ => Answer::json(404, &json!({"detail": "no such path"})),
        }
    }

    fn job(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    /// Creates a job. With a key, its id is the key, and there is one at most.
    fn create(&mut self, request: &Request, is_keyed: bool) -> Answer {
        let body = request.json();
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (key, kind) = (text("key"), text("kind"));
        if !self.kinds.contains_key(&kind) {
            return Answer::json(422, &json!({"detail": format!("there is no kind {kind:?}")}));
        }
        if is_keyed && self.job(&key).is_some() {
            return Answer::json(409, &json!({"detail": "there is one"}));
        }
        let id = if is_keyed { key.clone() } else { format!("j{}", self.jobs.len() + 1) };
        let location = format!("{}/api/jobs/{id}", self.address);
        self.jobs.push(Job {
            id: id.clone(),
            key,
            kind,
            arguments: body["arguments"].clone(),
            state: "WAITING",
            polls: 0,
            answered: false,
            note: None,
        });
        Answer::json(201, &json!({"id": id})).with_header("location", &location)
    }

    fn list(&self, request: &Request) -> Answer {
        let offset: usize = request.query.get("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let newest = self.jobs.iter().rev().skip(self.unlisted);
        let jobs: Vec<Value> = newest
            .skip(offset)
            .take(self.page)
            .map(|job| json!({"id": job.id, "tags": [job.key], "state": job.state}))
            .collect();
        Answer::json(200, &json!({"jobs": jobs}))
    }

    fn poll(&mut self, id: &str) -> Answer {
        let Some(job) = self.job(id) else { return Answer::json(404, &json!({"detail": "no such job"})) };
        if matches!(job.state, "WAITING" | "RUNNING") {
            job.polls += 1;
            job.state = match (job.kind.as_str(), job.polls) {
                (_, 1) => "WAITING",
                ("long", _) => "RUNNING",
                ("ask", _) if !job.answered => "RUNNING",
                (_, 2) => "RUNNING",
                ("fail", _) => "ERROR",
                _ => "DONE",
            };
        }
        let asks = job.kind == "ask" && !job.answered && job.state == "RUNNING";
        let mut body = json!({
            "id": job.id, "state": job.state, "steps": {"done": job.polls.min(3), "all": 3}, "note": job.note,
            "page": format!("/jobs/{}", job.id),
            "questions": if asks { json!([{"id": "q1", "text": "Go on?"}]) } else { json!([]) },
        });
        if job.state == "DONE" {
            body["result"] = json!({"says": "all is well", "arguments": job.arguments});
        }
        if job.state == "ERROR" {
            body["error"] = "the tray\nis empty".into();
        }
        Answer::json(200, &body)
    }

    fn cancel(&mut self, id: &str, request: &Request) -> Answer {
        let note = request.json()["note"].as_str().map(str::to_owned);
        match self.job(id) {
            Some(job) if matches!(job.state, "WAITING" | "RUNNING") => {
                // Like an engine that has no word for it.
                (job.state, job.note) = ("ERROR", note);
                Answer::json(200, &json!({}))
            }
            Some(_) => Answer::json(409, &json!({"detail": "it has ended"})),
            None => Answer::json(404, &json!({"detail": "no such job"})),
        }
    }

    fn take_answer(&mut self, id: &str, question: &str, request: &Request) -> Answer {
        let is_declined = request.json()["declined"] == true;
        match self.job(id) {
            Some(job) if question == "q1" && !job.answered && job.state == "RUNNING" => {
                job.answered = true;
                if is_declined {
                    job.state = "ERROR";
                }
                Answer::json(200, &json!({}))
            }
            _ => Answer::json(409, &json!({"detail": "it is not open"})),
        }
    }
}
