//! The sdk's behaviour suite on real clusters: with and without accounting, through Slurm's commands and
//! through slurmrestd.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, QuestionJob, RefusedJob,
    RepeatedStart,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};
use tokio::task::block_in_place;

use crate::cluster::Fault;
use crate::harness::proxy::{self, Proxy};
use crate::harness::world::{POLL_TIMEOUT, TestCluster, World};

/// The message of sbatch and other commands while the controller is unreachable.
const UNREACHABLE: &str = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";
/// The message of sbatch while the controller is overloaded.
const BUSY: &str = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying";

/// The same messages from slurmrestd.
const UNREACHABLE_REST: &str = r#"{"errors": [{"error": "Unable to contact slurm controller (connect failure)", "error_number": 1800}]}"#;
const BUSY_REST: &str =
    r#"{"errors": [{"error": "Slurm temporarily unable to accept job, sleeping and retrying"}]}"#;

/// A backend with one of the drivers, and with an interceptor between it and the cluster.
struct Lab {
    world: World,
    /// The proxy in front of slurmrestd, if slurmrestd is used.
    proxy: Option<Proxy>,
    offer_count: AtomicU32,
}

/// The way to reach the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Connection {
    Commands,
    Socket,
    Token,
}

impl Lab {
    async fn on(cluster: TestCluster, connection: Connection) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let (proxy, rest) = match connection {
            Connection::Commands => (None, Value::Null),
            Connection::Socket => {
                let proxy = Proxy::on_socket(&cluster.rest().socket, &folder).await;
                let rest = json!({"socket": proxy.address});
                (Some(proxy), rest)
            }
            Connection::Token => {
                let rest = cluster.rest();
                let proxy = Proxy::on_tcp(&rest.address).await;
                let rest = json!({"url": proxy.address, "user": cluster.user, "token": rest.token});
                (Some(proxy), rest)
            }
        };
        let mut config = json!({"discover": {"scripts": "tools"}, "accounting_wait": "1s"});
        if !rest.is_null() {
            config["rest"] = rest;
        }
        Self { world: World::on(cluster, config).await, proxy, offer_count: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Fixture for Lab {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
        questions: true,
        notes: false,
        logs: true,
        artifacts: true,
        wakeups: false,
        discovery: true,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        // Slurm lists a job as soon as it is submitted.
        faults: &[
            InjectedFault::StartReplyLost,
            InjectedFault::StartUnavailable,
            InjectedFault::StartLimited,
            InjectedFault::PollUnavailable,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (self.world.job("succeeds", "echo all is well"), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        self.world.job("fails", "echo the tray is empty >&2; exit 3")
    }

    fn long_job(&self) -> JobSpec {
        self.world.job("waits", "exec sleep 600")
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new("lab/999999/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa")
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let target = json!({"approval": "Shall this run?"});
        let job = self.world.job_with("approved", "echo it runs", json!({}), target);
        Some(QuestionJob { job, answer: Map::from_iter([("approve".to_owned(), json!(true))]) })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["the first line", "a second one", "the third of them"];
        let script = lines.map(|line| format!("echo {line}")).join("\n");
        Some(LogJob { job: self.world.job("prints", &script), lines: lines.map(str::to_owned).to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let target = json!({"artifacts": ["report/*.csv"]});
        let lines = r"mkdir report; printf 'a,b\n1,2\n' >report/table.csv";
        let job = self.world.job_with("leaves", lines, json!({}), target);
        Some(ArtifactJob { job, name: "report/table.csv".to_owned(), bytes: b"a,b\n1,2\n".to_vec() })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let tool = format!("offer-{}", self.offer_count.fetch_add(1, Ordering::Relaxed));
        self.world.script(&format!("tools/{tool}.sh"), "echo discovered and run");
        Some(DiscoverableTool { tool, arguments: json!({}), text: "discovered and run".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        fs::remove_file(self.world.folder().join(format!("tools/{tool}.sh"))).unwrap();
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({"script": "nowhere.sh"}))
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let target = json!({"resources": {"partition": "nowhere"}});
        let job = self.world.job_with("refused", "true", json!({}), target);
        Some(RefusedJob { job, message: "nvalid partition".to_owned() })
    }

    fn timeout(&self) -> Duration {
        POLL_TIMEOUT
    }

    /// A held job that was removed has not begun and never will.
    async fn count_starts(&self, key: &JobKey) -> usize {
        let columns = ["-h", "-t", "all", "-n", key.as_str(), "-o", "%T %r"];
        let jobs = block_in_place(|| self.world.cluster.run("squeue", &columns));
        jobs.lines().filter(|job| *job != "CANCELLED JobHeldUser").count()
    }

    async fn inject(&self, kind: InjectedFault) {
        if let Some(proxy) = &self.proxy {
            let (request, fault) = match kind {
                InjectedFault::StartReplyLost => ("/job/submit", proxy::Fault::ReplyLost),
                InjectedFault::StartUnavailable => {
                    ("/job/submit", proxy::Fault::Response(500, UNREACHABLE_REST))
                }
                InjectedFault::StartLimited => ("/job/submit", proxy::Fault::Response(500, BUSY_REST)),
                InjectedFault::PollUnavailable => ("/job", proxy::Fault::Response(500, UNREACHABLE_REST)),
                InjectedFault::DiscoveryUnavailable | InjectedFault::CheckupUnavailable => {
                    ("/partitions", proxy::Fault::Response(500, UNREACHABLE_REST))
                }
                InjectedFault::JobUnlisted => unreachable!("this fault is not claimed"),
            };
            return proxy.inject(request, fault);
        }
        let (command, fault) = match kind {
            InjectedFault::StartReplyLost => ("sbatch", Fault::Lost),
            InjectedFault::StartUnavailable => ("sbatch", Fault::Refused(UNREACHABLE)),
            InjectedFault::StartLimited => ("sbatch", Fault::Refused(BUSY)),
            InjectedFault::PollUnavailable => ("squeue", Fault::Refused(UNREACHABLE)),
            InjectedFault::DiscoveryUnavailable | InjectedFault::CheckupUnavailable => {
                ("scontrol", Fault::Refused(UNREACHABLE))
            }
            InjectedFault::JobUnlisted => unreachable!("this fault is not claimed"),
        };
        self.world.commands.fault(command, fault);
    }
}

mod accounting {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::TestCluster::shared(), super::Connection::Commands).await
    );
}

mod no_accounting {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::TestCluster::without_accounting(), super::Connection::Commands).await
    );
}

mod rest_by_socket {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::TestCluster::shared(), super::Connection::Socket).await
    );
}

mod rest_by_token_without_accounting {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::TestCluster::without_accounting(), super::Connection::Token).await
    );
}
