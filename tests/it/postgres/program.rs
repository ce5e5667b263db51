//! Tests for the program on PostgreSQL: with a kill, with a second server, with a restart of the database,
//! and its error messages where the database cannot be used.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;

use crate::support::postgres::{Postgres, schema, shared};
use crate::support::{Client, Fault, Server, SimProcess, TestDir, text};

/// Timeout for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns a config with this database, whose engine is a separate process.
fn config(url: &str, schema: &str, engine: &SimProcess) -> String {
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000

[auth]
single_user = true

[store]
kind = "postgres"
url = "{url}"
schema = "{schema}"
backends_dir = "state"

[reconciler]
lease = "2s"
quickest_look = "20ms"

[backends.engine]
kind = "sim"
address = "{}"
identity = "one, however it is reached"

[tools.job]
backend = "engine"
target = {{}}
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#,
        engine.address
    )
}

pub(super) struct Setup {
    pub(super) dir: TestDir,
    pub(super) engine: SimProcess,
    pub(super) schema: String,
}

pub(super) fn setup(server: &Postgres) -> Setup {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    let schema = schema();
    std::fs::write(dir.config(), config(&server.url(), &schema, &engine)).unwrap();
    Setup { dir, engine, schema }
}

async fn start(client: &Client, name: &str, delay_ms: u64) -> String {
    client.start("job", json!({"text": name, "delay_ms": delay_ms})).await.unwrap()
}

/// Waits until a condition is true, which must happen.
pub(super) async fn wait_for(label: &str, condition: impl AsyncFn() -> bool) {
    let polls = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, polls).await.unwrap_or_else(|_| panic!("it never is: {label}"));
}

#[track_caller]
pub(super) fn assert_stops(mut server: Server) {
    assert_eq!(server.stop(), Some(0));
}

#[tokio::test]
async fn a_task_outlives_a_kill() {
    let Setup { dir, engine, .. } = setup(shared());
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let (before, during) = (start(&client, "before", 0).await, start(&client, "during", 1_500).await);
    assert_eq!(text(&client.result(&before).await.unwrap()), "before");
    server.kill();
    let server = dir.serve();
    let client = client.at(server.url());
    assert_eq!(text(&client.result(&before).await.unwrap()), "before");
    assert_eq!(text(&client.result(&during).await.unwrap()), "during");
    assert_eq!(client.list().await.unwrap().len(), 2);
    assert_eq!(engine.started().len(), 2);
    assert_stops(server);
}

/// Sessions, tasks and keys are valid on both, and a kill of one does not affect a client of the other.
#[tokio::test]
async fn two_servers_share_one_database() {
    let Setup { dir, engine, .. } = setup(shared());
    let (mut a, b) = (dir.serve(), dir.serve());
    let client_a = Client::open(a.url()).await.unwrap();
    // A session or task that one server creates is valid on the other.
    let client_b = client_a.at(b.url());
    let first = start(&client_a, "first", 300).await;
    assert_eq!(text(&client_b.result(&first).await.unwrap()), "first");
    let key = "the same";
    let arguments = json!({"text": "keyed", "delay_ms": 0});
    let one = client_a.start_once(key, "job", arguments.clone()).await.unwrap();
    assert_eq!(client_b.start_once(key, "job", arguments).await.unwrap(), one);
    // A client waits on one server while the other, which watches the job, is killed.
    let last = start(&client_a, "last", 2_000).await;
    let waiting = async { text(&client_b.result(&last).await.unwrap()) };
    let killing = async {
        while engine.started().len() < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        a.kill();
    };
    let (result, ()) = futures_util::future::join(waiting, killing).await;
    assert_eq!(result, "last");
    assert_eq!(engine.started().len(), 3, "each call is one job");
    assert_stops(b);
}

/// Calls are refused during the outage, and the server reconnects by itself.
#[tokio::test]
async fn database_restart_loses_nothing() {
    let mut database = Postgres::start();
    let Setup { dir, engine, .. } = setup(&database);
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = start(&client, "through", 1_500).await;
    database.stop();
    // While the database is down, calls are refused, and no client gets the id of a task that does not exist.
    let refused = client.start("job", json!({"text": "away"})).await;
    assert!(matches!(refused, Err(Fault::Refused { .. } | Fault::Status(..))), "{refused:?}");
    database.run();
    let result = tokio::time::timeout(TIMEOUT, async {
        loop {
            match client.result(&task).await {
                Ok(result) => return text(&result),
                // A client that waited during the outage gets an error and retries.
                Err(Fault::Lost(_)) => panic!("the server went away"),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    assert_eq!(result.await.expect("it is used again by itself"), "through");
    let after = start(&client, "after", 0).await;
    assert_eq!(text(&client.result(&after).await.unwrap()), "after");
    assert_eq!(engine.started().len(), 2);
    assert_stops(server);
}

/// An answer that cannot be stored is refused. The client sends it again after the outage.
#[tokio::test]
async fn unstored_answer_can_be_sent_again() {
    let mut database = Postgres::start();
    let Setup { dir, engine: _engine, .. } = setup(&database);
    let question_target = r#"question = { message = "Who?", at_once = true }"#;
    let config = std::fs::read_to_string(dir.config()).unwrap();
    std::fs::write(dir.config(), config.replace("target = {}", &format!("target = {{ {question_target} }}")))
        .unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = start(&client, "asking", 0).await;
    let mut stream = client.stream("tasks/result", json!({"taskId": task})).await.unwrap();
    let question = stream.next().await.unwrap().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {}});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    database.stop();
    let refused = client.send_message(&answer).await;
    assert!(matches!(refused, Err(Fault::Status(StatusCode::SERVICE_UNAVAILABLE, _))), "{refused:?}");
    database.run();
    client.send_message(&answer).await.unwrap();
    let result = tokio::time::timeout(TIMEOUT, async {
        loop {
            // A client that waited during the outage may get an error.
            if let Ok(result) = client.result(&task).await {
                return text(&result);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    assert!(result.await.expect("the answer reached the job").starts_with("asking"));
    assert_stops(server);
}

/// Covers a wrong password, an unknown host, and a schema that is missing or too new.
#[tokio::test]
async fn database_errors_hide_password() {
    let Setup { dir, schema, .. } = setup(shared());
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let assert_refused = async |from: &str, to: &str, expected: &[&str]| {
        std::fs::write(dir.config(), config.replace(from, to)).unwrap();
        let ended = dir.run(dir.command("serve")).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        for word in expected {
            assert!(ended.stderr.contains(word), "no {word:?} in {}", ended.stderr);
        }
        assert!(
            !ended.stderr.contains("s3cret") && !ended.stderr.contains("other-secret"),
            "{}",
            ended.stderr
        );
    };
    assert_refused(
        "s3cret",
        "other-secret",
        &["password authentication failed", "mend the user or the password"],
    )
    .await;
    assert_refused(
        "@127.0.0.1",
        "@nowhere.invalid",
        &["postgres://tester@nowhere.invalid", "cannot be reached"],
    )
    .await;
    assert_refused("/postgres\"", "/nowhere\"", &["database \"nowhere\" does not exist", "CREATE DATABASE"])
        .await;

    std::fs::write(dir.config(), &config).unwrap();
    let migrated = dir.run(dir.command("migrate")).await;
    assert_eq!(migrated.code, Some(0), "{}", migrated.stderr);
    let applied_steps = "0001_tasks, 0002_history, 0003_notices, 0004_of_backend, 0005_followed_logs, 0006_audit, \
                0007_backends, 0008_bytes, 0009_deliveries";
    let summary = format!("(schema {schema}): from version 0 to 9: {applied_steps}\n");
    assert!(migrated.stdout.ends_with(&summary), "{}", migrated.stdout);
    let migrated = dir.run(dir.command("migrate")).await;
    assert!(migrated.stdout.ends_with("up to date, version 9\n"), "{}", migrated.stdout);
    let client = shared().client(&schema).await;
    client.batch_execute("UPDATE taskbridge_schema SET steps = 10, oldest = 10").await.unwrap();
    assert_refused("", "", &["version 10", "newer taskbridge", "name another `schema`"]).await;
}

#[tokio::test]
async fn password_comes_from_file_or_environment() {
    let Setup { dir, .. } = setup(shared());
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let bare = config.replace(&shared().url(), &format!("postgres://tester@{}/postgres", shared().address()));
    let write = |password: &str| {
        std::fs::write(dir.config(), bare.replace("[store]", &format!("[store]\npassword = {password}")))
            .unwrap();
    };
    let migrate = async |secret: Option<&str>| {
        let mut command = dir.command("migrate");
        command.envs(secret.map(|secret| ("DATABASE_PASSWORD", secret)));
        dir.run(command).await
    };
    std::fs::write(dir.path("password"), "s3cret/with:odd@signs\n").unwrap();
    write("{ file = \"password\" }");
    let ended = migrate(None).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    write("{ env = \"DATABASE_PASSWORD\" }");
    let ended = migrate(Some("s3cret/with:odd@signs")).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let ended = migrate(None).await;
    assert!(ended.stderr.contains("store.password: environment variable DATABASE_PASSWORD is not set"));
    write("{ var = \"DATABASE_PASSWORD\" }");
    let ended = migrate(None).await;
    assert!(ended.stderr.contains("store.password: must be a string, { env"), "{}", ended.stderr);
}

/// With PostgreSQL, a local backend must name the host of its jobs.
#[tokio::test]
async fn local_backend_requires_host() {
    let Setup { dir, .. } = setup(shared());
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let local_host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let write = |host: &str| {
        let local = format!(
            "{config}\n[backends.here]\nkind = \"local\"\n{host}\n[tools.say]\nbackend = \"here\"\n\
             target.command = [\"echo\", \"said\"]\n"
        );
        std::fs::write(dir.config(), local).unwrap();
    };
    write("");
    let checked = dir.run(dir.command("check")).await;
    assert_eq!(checked.code, Some(1));
    assert!(
        checked.stderr.contains("backends.here.host: jobs of this kind can be reached on one machine only")
    );
    write(&format!("host = \"{local_host}\""));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("say", json!({})).await.unwrap();
    assert_eq!(text(&client.result(&task).await.unwrap()).trim_end(), "said");
    assert_stops(server);
}

/// Starts a server on a machine of this name.
fn serve_on(host: &str, dir: &TestDir) -> Server {
    let mut command = dir.command("serve");
    command.env("TASKBRIDGE_HOST", host);
    let mut server = Server::spawn(command, &dir.path("server.log"));
    server.wait_until_it_listens();
    server
}

/// A server on another host accepts calls of a local backend, and the host of the backend runs the jobs.
#[tokio::test]
async fn remote_server_leaves_local_jobs_alone() {
    // The engine must live as long as its jobs are polled.
    let Setup { dir, schema, engine: _engine } = setup(shared());
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let script = "touch $1.begun; while [ ! -e $1.go ]; do sleep 0.02; done; echo $1";
    let local_config = format!(
        "{config}\n[backends.there]\nkind = \"local\"\nhost = \"one\"\n[tools.local]\nbackend = \"there\"\n\
         parameters.name.type = \"string\"\n\
         target = {{ command = [\"sh\", \"-c\", \"{script}\", \"sh\", \"{{{{ name }}}}\"], working_dir = \".\" }}\n"
    );
    std::fs::write(dir.config(), local_config).unwrap();
    let two = serve_on("two", &dir);
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(
        log.contains("backend `there` not connected: its jobs run on `one`, and this machine is `two`"),
        "{log}"
    );
    let client = Client::open(two.url()).await.unwrap();
    let start_local = async |name: &str| client.start("local", json!({ "name": name })).await.unwrap();
    // When a job of its own is complete, its loops have also had the time to act on the other task.
    let run_own_job = async || text(&client.result(&start(&client, "own", 0).await).await.unwrap());
    let has_begun = |name: &str| dir.path(&format!("{name}.begun")).exists();

    let first = start_local("first").await;
    assert_eq!(run_own_job().await, "own");
    assert_eq!(client.get(&first).await.unwrap()["status"], "working");
    assert!(!has_begun("first") && !dir.path("state/there").exists(), "a job was begun elsewhere");
    let unwanted = start_local("unwanted").await;
    assert_eq!(client.cancel(&unwanted).await.unwrap()["status"], "cancelled");

    let mut one = serve_on("one", &dir);
    wait_for("the job begins on its machine", async || has_begun("first")).await;
    // The machine of the job goes down. No other server watches the job, because it would report the job as
    // gone.
    one.kill();
    let database = shared().client(&schema).await;
    let lease_expired =
        "SELECT NOT EXISTS (SELECT 1 FROM groups WHERE backend LIKE 'there%' AND until > moment(NULL))";
    wait_for("its lease runs out", async || database.query_one(lease_expired, &[]).await.unwrap().get(0))
        .await;
    assert_eq!(run_own_job().await, "own");
    let second = start_local("second").await;
    assert_eq!(run_own_job().await, "own");
    assert_eq!(client.get(&first).await.unwrap()["status"], "working");
    assert!(!has_begun("second"));
    let log =
        client.request("resources/read", json!({"uri": format!("taskbridge://tasks/{first}/log")})).await;
    let Err(Fault::Refused { message, .. }) = log else { panic!("the log of another machine: {log:?}") };
    assert!(message.contains("only through a server that is connected"), "{message}");

    let one = serve_on("one", &dir);
    for (name, task) in [("first", &first), ("second", &second)] {
        std::fs::write(dir.path(&format!("{name}.go")), "").unwrap();
        assert_eq!(text(&client.result(task).await.unwrap()).trim_end(), name);
    }
    let third = start_local("third").await;
    wait_for("a job is begun that another server was called for", async || has_begun("third")).await;
    client.cancel(&third).await.unwrap();
    let all_closed = "SELECT NOT EXISTS (SELECT 1 FROM tasks WHERE NOT closed)";
    wait_for("it is stopped", async || database.query_one(all_closed, &[]).await.unwrap().get(0)).await;
    assert!(!has_begun("unwanted"));
    assert_stops(one);
    assert_stops(two);
}
