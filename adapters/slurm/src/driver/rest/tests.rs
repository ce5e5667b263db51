//! Responses of later versions of slurmrestd, which does not run here in those versions. They were written by
//! hand from Slurm's source (`openapi/slurmctld/jobs.c` and the parsers of `data_parser`), and are served
//! over a real connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use taskbridge_sdk::ErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

/// A server that returns prepared responses one after the other and records the requests.
struct MockServer {
    url: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
    _running: JoinSet<()>,
}

impl MockServer {
    async fn start(responses: &[(u16, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut responses: VecDeque<(u16, Value)> = responses.to_vec().into();
        let requests = Arc::<Mutex<Vec<(String, Value)>>>::default();
        let (recorder, mut tasks) = (requests.clone(), JoinSet::new());
        tasks.spawn(async move {
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
                recorder.lock().unwrap().push((line, body.unwrap_or_default()));
                let (status, response) = responses.pop_front().expect("no further request is expected");
                let response = response.to_string();
                let head =
                    format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close", response.len());
                stream.write_all(format!("{head}\r\n\r\n{response}").as_bytes()).await.unwrap();
            }
        });
        Self { url, requests, _running: tasks }
    }

    /// Creates a driver that has discovered this API version.
    async fn driver(version: u32, responses: &[(u16, Value)]) -> (Rest, Self) {
        let path = format!("/slurm/v0.0.{version}/job/submit/");
        let description = (200, json!({"paths": {path: {}}}));
        let server = Self::start(&[&[description], responses].concat()).await;
        let config = json!({"url": server.url, "user": "lab"});
        let config: config::Rest = serde_json::from_value(config).unwrap();
        let driver = Rest::new(&config, Duration::from_secs(20), None).unwrap();
        driver.http.api().await.unwrap();
        (driver, server)
    }

    /// Returns the request lines of all requests except the first.
    fn lines(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().skip(1).map(|(line, _)| line.clone()).collect()
    }
}

fn set_number(number: i64) -> Value {
    json!({"set": true, "infinite": false, "number": number})
}

fn submission() -> Submission {
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

fn running_job() -> Value {
    json!({"job_id": 7, "name": "tb-a", "user_name": "lab", "job_state": ["RUNNING"], "submit_time": set_number(100), "start_time": set_number(110)})
}

/// A response without changes differs from one without jobs.
#[tokio::test]
async fn unchanged_list_keeps_jobs() {
    let list = json!({"jobs": [running_job()], "last_update": set_number(500), "last_backfill": set_number(490), "errors": [], "warnings": []});
    // From `op_handler_jobs`, and `DUMP_FUNC(JOB_INFO_MSG)` without data.
    let unchanged = json!({"jobs": [], "last_update": set_number(0), "errors": [], "warnings": [
        {"description": "No job changes since update_time[500]=2026-11-22T17:00:00", "source": "op_handler_jobs"},
        {"description": "Zero jobs to dump", "source": "dump_JOB_INFO_MSG"},
    ]});
    let empty = json!({"jobs": [], "last_update": set_number(600), "errors": [], "warnings": [
        {"description": "Zero jobs to dump", "source": "dump_JOB_INFO_MSG"},
    ]});
    let (driver, server) = MockServer::driver(40, &[(200, list), (200, unchanged), (200, empty)]).await;
    assert_eq!(driver.queue().await.unwrap().len(), 1);
    assert_eq!(driver.queue().await.unwrap().len(), 1, "nothing changed");
    assert_eq!(driver.queue().await.unwrap(), [], "the controller has no jobs any more");
    // The time of the controller's clock from the first response.
    let expected = ["jobs", "jobs?update_time=500", "jobs?update_time=500"];
    assert_eq!(server.lines(), expected.map(|path| format!("GET /slurm/v0.0.40/{path} HTTP/1.1")));
}

/// slurmrestd ignored a field of the submission, so the job is cancelled and the start is rejected.
#[tokio::test]
async fn partially_accepted_job_is_cancelled() {
    // From `_foreach_parse_marray` and `op_handler_submit_job`.
    let accepted = json!({"job_id": 7, "step_id": "batch", "job_submit_user_msg": "", "errors": [], "warnings": [
        {"description": "Job submission resulted in non-zero return code: Job is in held state, pending scheduler release", "source": "slurm_submit_batch_job()"},
        {"description": "Ignoring unknown field \"licenses\" of type string in DATA_PARSER_JOB_DESC_MSG", "source": "#/job/"},
    ]});
    let mut pending = running_job();
    pending["job_state"] = json!(["PENDING"]);
    let job_list = json!({"jobs": [pending], "last_update": set_number(500), "errors": [], "warnings": []});
    let success = json!({"errors": [], "warnings": []});
    let (driver, server) = MockServer::driver(46, &[(200, accepted), (200, job_list), (200, success)]).await;
    let error = driver.submit(&submission()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("licenses"), "{error}");
    let expected =
        ["POST /slurm/v0.0.46/job/submit", "GET /slurm/v0.0.46/job/7", "DELETE /slurm/v0.0.46/job/7"];
    assert_eq!(server.lines(), expected.map(|line| format!("{line} HTTP/1.1")));
}

/// A job of another user is not adopted, whatever its name.
#[tokio::test]
async fn foreign_job_is_ignored_by_name() {
    let mut other = running_job();
    (other["job_id"], other["user_name"]) = (json!(6), json!("mallory"));
    let list =
        json!({"jobs": [other, running_job()], "last_update": set_number(500), "errors": [], "warnings": []});
    let (driver, _server) = MockServer::driver(40, &[(200, list)]).await;
    let rows = driver.jobs_by_name("tb-a").await.unwrap();
    assert_eq!(rows.iter().map(|row| row.job).collect::<Vec<_>>(), [7]);
}

fn accounting_response(jobs: &[JobId]) -> (u16, Value) {
    let job = |job: &JobId| json!({"job_id": job, "name": "tb-a", "state": {"current": ["COMPLETED"]}});
    (200, json!({"jobs": jobs.iter().map(job).collect::<Vec<_>>(), "errors": [], "warnings": []}))
}

/// A slurmrestd that uses only the last job of a query is queried per job until it proves otherwise.
#[tokio::test]
async fn rest_accounting_queries_are_batched() {
    let job_ids = |records: Vec<Record>| records.iter().map(|record| record.job).collect::<Vec<_>>();
    let (driver, server) = MockServer::driver(38, &[accounting_response(&[5])]).await;
    assert_eq!(job_ids(driver.accounting_records(&[5, 7]).await.unwrap()), [5]);
    assert_eq!(server.lines(), ["GET /slurmdb/v0.0.38/jobs?step=5%2C7 HTTP/1.1"]);
    // A slurmrestd that may use only the last job of a query, until it has returned two.
    let responses = [
        accounting_response(&[7]),
        accounting_response(&[5]),
        accounting_response(&[5, 7]),
        accounting_response(&[7]),
    ];
    let (driver, server) = MockServer::driver(40, &responses).await;
    assert_eq!(job_ids(driver.accounting_records(&[5, 7]).await.unwrap()), [7, 5]);
    assert_eq!(driver.accounting_batch_size(), 20, "each job was queried");
    assert_eq!(job_ids(driver.accounting_records(&[5, 7]).await.unwrap()), [5, 7]);
    assert_eq!(job_ids(driver.accounting_records(&[5, 7]).await.unwrap()), [7]);
    assert_eq!(driver.accounting_batch_size(), 500);
    let expected = ["jobs?step=5&step=7", "job/5", "jobs?step=5&step=7", "jobs?step=5&step=7"];
    assert_eq!(server.lines(), expected.map(|path| format!("GET /slurmdb/v0.0.40/{path} HTTP/1.1")));
}

/// The submission has the umask and the variables of its user.
#[tokio::test]
async fn rest_submission_sets_user_umask() {
    let accepted = json!({"job_id": 7, "errors": [], "warnings": []});
    let path = "/slurm/v0.0.40/job/submit/";
    let server = MockServer::start(&[(200, json!({"paths": {path: {}}})), (200, accepted)]).await;
    let config = serde_json::from_value(json!({"url": server.url, "user": "daemon"})).unwrap();
    let driver = Rest::new(&config, Duration::from_secs(20), Some("0027")).unwrap();
    assert_eq!(driver.submit(&submission()).await.unwrap(), 7);
    let environment = server.requests.lock().unwrap()[1].1["job"]["environment"].to_string();
    for variable in ["SLURM_UMASK=0027", "USER=daemon", "HOME=/", "PATH=/"] {
        assert!(environment.contains(variable), "{variable}: {environment}");
    }
}

/// After a gateway's 502 to 504, a submission is uncertain and a poll is unavailable.
#[tokio::test]
async fn gateway_error_is_not_slurm_error() {
    let busy = || json!({"errors": [{"error": "upstream is busy", "error_number": 9001}]});
    for status in 502..=504 {
        let (driver, _server) = MockServer::driver(38, &[(status, busy()), (status, busy())]).await;
        let submitted = driver.submit(&submission()).await.unwrap_err();
        assert!(
            matches!(submitted.kind(), ErrorKind::Uncertain),
            "the request may have been forwarded: {submitted}"
        );
        assert!(matches!(driver.queue().await.unwrap_err().kind(), ErrorKind::Unavailable));
    }
}

/// The name of the cluster is the backend's identity. A default would hide the tasks of the cluster.
#[tokio::test]
async fn unavailable_accounting_gives_no_default_name() {
    let description = json!({"paths": {"/slurm/v0.0.38/job/submit/": {}, "/slurmdb/v0.0.38/jobs": {}}});
    let ping = || (200, json!({"meta": {"Slurm": {"release": "22.05.8"}}, "errors": []}));
    let cluster_name = (200, json!({"clusters": [{"name": "lab"}], "errors": []}));
    let responses = [(200, description), ping(), (503, json!({})), ping(), cluster_name];
    let server = MockServer::start(&responses).await;
    let config = serde_json::from_value(json!({"url": server.url, "user": "lab"})).unwrap();
    let driver = Rest::new(&config, Duration::from_secs(20), None).unwrap();
    assert!(matches!(driver.cluster().await.unwrap_err().kind(), ErrorKind::Unavailable));
    assert_eq!(driver.cluster().await.unwrap().name, "lab");
}
