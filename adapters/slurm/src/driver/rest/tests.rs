//! Responses of later versions of slurmrestd, which does not run here in those versions. They were written by
//! hand from Slurm's source (`openapi/slurmctld/jobs.c` and the parsers of `data_parser`), and are served
//! over a real connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

/// A server that returns prepared responses one after the other and records the requests.
struct Recorded {
    url: String,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    _running: JoinSet<()>,
}

impl Recorded {
    async fn of(answers: &[(u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut answers: VecDeque<(u16, Value)> = answers.to_vec().into();
        let seen = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let (kept, mut running) = (seen.clone(), JoinSet::new());
        running.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = Vec::new();
                let (line, body) = loop {
                    stream.read_buf(&mut bytes).await.unwrap();
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head
                        .to_lowercase()
                        .split_once("content-length: ")
                        .map_or(0, |(_, rest)| rest.split("\r\n").next().unwrap().parse::<usize>().unwrap());
                    if body.len() >= length {
                        break (head.lines().next().unwrap().to_owned(), serde_json::from_str(body));
                    }
                };
                kept.lock().unwrap().push((line, body.unwrap_or_default()));
                let (status, answer) = answers.pop_front().expect("no more was to be asked");
                let answer = answer.to_string();
                let head =
                    format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close", answer.len());
                stream.write_all(format!("{head}\r\n\r\n{answer}").as_bytes()).await.unwrap();
            }
        });
        Self { url, seen, _running: running }
    }

    /// Creates a driver that has discovered this API version.
    async fn driver(version: u32, answers: &[(u16, Value)]) -> (Rest, Self) {
        let path = format!("/slurm/v0.0.{version}/job/submit/");
        let described = (200, json!({"paths": {path: {}}}));
        let recorded = Self::of(&[&[described], answers].concat()).await;
        let config = json!({"url": recorded.url, "user": "lab"});
        let config: config::Rest = serde_json::from_value(config).unwrap();
        let driver = Rest::new(&config, Duration::from_secs(20), None).unwrap();
        driver.http.api().await.unwrap();
        (driver, recorded)
    }

    /// Returns the request lines of all requests except the first.
    fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().skip(1).map(|(line, _)| line.clone()).collect()
    }
}

fn set(number: i64) -> Value {
    json!({"set": true, "infinite": false, "number": number})
}

fn order() -> Submission {
    Submission {
        name: "tb-a".to_owned(),
        comment: String::new(),
        script: "#!/bin/sh\n".to_owned(),
        output: "/j/out".to_owned(),
        error: "/j/err".to_owned(),
        working_dir: "/w".to_owned(),
        requeue: false,
        options: [("licenses".to_owned(), Some("dock".to_owned()))].into(),
    }
}

fn runs() -> Value {
    json!({"job_id": 7, "name": "tb-a", "user_name": "lab", "job_state": ["RUNNING"], "submit_time": set(100), "start_time": set(110)})
}

/// A response without changes differs from one without jobs.
#[tokio::test]
async fn unchanged_list_keeps_jobs() {
    let list = json!({"jobs": [runs()], "last_update": set(500), "last_backfill": set(490), "errors": [], "warnings": []});
    // From `op_handler_jobs`, and `DUMP_FUNC(JOB_INFO_MSG)` without data.
    let unchanged = json!({"jobs": [], "last_update": set(0), "errors": [], "warnings": [
        {"description": "No job changes since update_time[500]=2026-11-22T17:00:00", "source": "op_handler_jobs"},
        {"description": "Zero jobs to dump", "source": "dump_JOB_INFO_MSG"},
    ]});
    let none = json!({"jobs": [], "last_update": set(600), "errors": [], "warnings": [
        {"description": "Zero jobs to dump", "source": "dump_JOB_INFO_MSG"},
    ]});
    let (driver, recorded) = Recorded::driver(40, &[(200, list), (200, unchanged), (200, none)]).await;
    assert_eq!(driver.queue().await.unwrap().len(), 1);
    assert_eq!(driver.queue().await.unwrap().len(), 1, "nothing changed");
    assert_eq!(driver.queue().await.unwrap(), [], "the controller has no jobs any more");
    // The time of the controller's clock from the first response.
    let asked = ["jobs", "jobs?update_time=500", "jobs?update_time=500"];
    assert_eq!(recorded.lines(), asked.map(|path| format!("GET /slurm/v0.0.40/{path} HTTP/1.1")));
}

/// slurmrestd ignored a field of the submission, so the job is cancelled and the start is rejected.
#[tokio::test]
async fn partially_accepted_job_is_cancelled() {
    // From `_foreach_parse_marray` and `op_handler_submit_job`.
    let taken = json!({"job_id": 7, "step_id": "batch", "job_submit_user_msg": "", "errors": [], "warnings": [
        {"description": "Job submission resulted in non-zero return code: Job is in held state, pending scheduler release", "source": "slurm_submit_batch_job()"},
        {"description": "Ignoring unknown field \"licenses\" of type string in DATA_PARSER_JOB_DESC_MSG", "source": "#/job/"},
    ]});
    let mut waits = runs();
    waits["job_state"] = json!(["PENDING"]);
    let one = json!({"jobs": [waits], "last_update": set(500), "errors": [], "warnings": []});
    let done = json!({"errors": [], "warnings": []});
    let (driver, recorded) = Recorded::driver(46, &[(200, taken), (200, one), (200, done)]).await;
    let error = driver.submit(&order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("licenses"), "{error}");
    let asked = ["POST /slurm/v0.0.46/job/submit", "GET /slurm/v0.0.46/job/7", "DELETE /slurm/v0.0.46/job/7"];
    assert_eq!(recorded.lines(), asked.map(|line| format!("{line} HTTP/1.1")));
}

/// A job of another user is not adopted, whatever its name.
#[tokio::test]
async fn foreign_job_is_ignored_by_name() {
    let mut other = runs();
    (other["job_id"], other["user_name"]) = (json!(6), json!("mallory"));
    let list = json!({"jobs": [other, runs()], "last_update": set(500), "errors": [], "warnings": []});
    let (driver, _recorded) = Recorded::driver(40, &[(200, list)]).await;
    let found = driver.named("tb-a").await.unwrap();
    assert_eq!(found.iter().map(|row| row.job).collect::<Vec<_>>(), [7]);
}

fn accounted(jobs: &[JobId]) -> (u16, Value) {
    let job = |job: &JobId| json!({"job_id": job, "name": "tb-a", "state": {"current": ["COMPLETED"]}});
    (200, json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>(), "errors": [], "warnings": []}))
}

/// A slurmrestd that uses only the last job of a query is queried per job until it proves otherwise.
#[tokio::test]
async fn rest_accounting_queries_are_batched() {
    let numbers = |records: Vec<Record>| records.iter().map(|record| record.job).collect::<Vec<_>>();
    let (driver, recorded) = Recorded::driver(38, &[accounted(&[5])]).await;
    assert_eq!(numbers(driver.accounting_records(&[5, 7]).await.unwrap()), [5]);
    assert_eq!(recorded.lines(), ["GET /slurmdb/v0.0.38/jobs?step=5%2C7 HTTP/1.1"]);
    // A slurmrestd that may use only the last job of a query, until it has returned two.
    let answers = [accounted(&[7]), accounted(&[5]), accounted(&[5, 7]), accounted(&[7])];
    let (driver, recorded) = Recorded::driver(40, &answers).await;
    assert_eq!(numbers(driver.accounting_records(&[5, 7]).await.unwrap()), [7, 5]);
    assert_eq!(driver.accounted_at_once(), 20, "it was asked about each of them");
    assert_eq!(numbers(driver.accounting_records(&[5, 7]).await.unwrap()), [5, 7]);
    assert_eq!(numbers(driver.accounting_records(&[5, 7]).await.unwrap()), [7]);
    assert_eq!(driver.accounted_at_once(), 500);
    let asked = ["jobs?step=5&step=7", "job/5", "jobs?step=5&step=7", "jobs?step=5&step=7"];
    assert_eq!(recorded.lines(), asked.map(|path| format!("GET /slurmdb/v0.0.40/{path} HTTP/1.1")));
}

/// The submission has the umask and the variables of its user.
#[tokio::test]
async fn rest_submission_sets_user_umask() {
    let taken = json!({"job_id": 7, "errors": [], "warnings": []});
    let path = "/slurm/v0.0.40/job/submit/";
    let recorded = Recorded::of(&[(200, json!({"paths": {path: {}}})), (200, taken)]).await;
    let config = serde_json::from_value(json!({"url": recorded.url, "user": "daemon"})).unwrap();
    let driver = Rest::new(&config, Duration::from_secs(20), Some("0027")).unwrap();
    assert_eq!(driver.submit(&order()).await.unwrap(), 7);
    let sent = recorded.seen.lock().unwrap()[1].1["job"]["environment"].to_string();
    for variable in ["SLURM_UMASK=0027", "USER=daemon", "HOME=/", "PATH=/"] {
        assert!(sent.contains(variable), "{variable}: {sent}");
    }
}

/// After a gateway's 502 to 504, a submission is uncertain and a poll is unavailable.
#[tokio::test]
async fn gateway_error_is_not_slurm_error() {
    let busy = || json!({"errors": [{"error": "upstream is busy", "error_number": 9001}]});
    for status in 502..=504 {
        let (driver, _recorded) = Recorded::driver(38, &[(status, busy()), (status, busy())]).await;
        let submitted = driver.submit(&order()).await.unwrap_err();
        assert!(matches!(submitted.kind(), ErrorKind::Uncertain), "it may have been handed on: {submitted}");
        assert!(matches!(driver.queue().await.unwrap_err().kind(), ErrorKind::Unavailable));
    }
}

/// The name of the cluster is the backend's identity. A default would hide the tasks of the cluster.
#[tokio::test]
async fn unavailable_accounting_gives_no_default_name() {
    let described = json!({"paths": {"/slurm/v0.0.38/job/submit/": {}, "/slurmdb/v0.0.38/jobs": {}}});
    let ping = || (200, json!({"meta": {"Slurm": {"release": "22.05.8"}}, "errors": []}));
    let named = (200, json!({"clusters": [{"name": "lab"}], "errors": []}));
    let answers = [(200, described), ping(), (503, json!({})), ping(), named];
    let recorded = Recorded::of(&answers).await;
    let config = serde_json::from_value(json!({"url": recorded.url, "user": "lab"})).unwrap();
    let driver = Rest::new(&config, Duration::from_secs(20), None).unwrap();
    assert!(matches!(driver.cluster().await.unwrap_err().kind(), ErrorKind::Unavailable));
    assert_eq!(driver.cluster().await.unwrap().name, "lab");
}
