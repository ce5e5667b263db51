//! The sdk's behaviour suite on real clusters: with and without accounting, through Slurm's commands and
//! through slurmrestd.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::{Asking, Claims, Fixture, Leaving, Offering, Printing, Refusal, Repeat, Trouble};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};
use tokio::task::block_in_place;

use crate::cluster::Fault;
use crate::proxy::{self, Proxy};
use crate::world::{Held, PATIENCE, World};

/// The message of sbatch and other commands while the controller is unreachable.
const AWAY: &str = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)";
/// The message of sbatch while the controller is overloaded.
const BUSY: &str = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying";

/// The same messages from slurmrestd.
const AWAY_REST: &str = r#"{"errors": [{"error": "Unable to contact slurm controller (connect failure)", "error_number": 1800}]}"#;
const BUSY_REST: &str =
    r#"{"errors": [{"error": "Slurm temporarily unable to accept job, sleeping and retrying"}]}"#;

/// A backend with one of the drivers, and with an interceptor between it and the cluster.
struct Lab {
    world: World,
    /// The proxy in front of slurmrestd, if slurmrestd is used.
    proxy: Option<Proxy>,
    offered: AtomicU32,
}

/// The way to reach the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Commands,
    Socket,
    Token,
}

impl Lab {
    async fn on(cluster: Held, by: By) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let (proxy, rest) = match by {
            By::Commands => (None, Value::Null),
            By::Socket => {
                let proxy = Proxy::on_socket(&cluster.rest().socket, &folder).await;
                let rest = json!({"socket": proxy.place});
                (Some(proxy), rest)
            }
            By::Token => {
                let rest = cluster.rest();
                let proxy = Proxy::on_tcp(&rest.address).await;
                let rest = json!({"url": proxy.place, "user": cluster.user, "token": rest.token});
                (Some(proxy), rest)
            }
        };
        let mut config = json!({"discover": {"scripts": "tools"}, "accounting_wait": "1s"});
        if !rest.is_null() {
            config["rest"] = rest;
        }
        Self { world: World::on(cluster, config).await, proxy, offered: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Fixture for Lab {
    const CLAIMS: Claims = Claims {
        repeat: Repeat::SameJob,
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
        troubles: &[
            Trouble::StartReplyLost,
            Trouble::StartUnavailable,
            Trouble::StartLimited,
            Trouble::LookUnavailable,
            Trouble::DiscoveryUnavailable,
            Trouble::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeds(&self) -> (JobSpec, String) {
        (self.world.job("succeeds", "echo all is well"), "all is well".to_owned())
    }

    fn fails(&self) -> JobSpec {
        self.world.job("fails", "echo the tray is empty >&2; exit 3")
    }

    fn runs_long(&self) -> JobSpec {
        self.world.job("waits", "exec sleep 600")
    }

    fn unknown(&self) -> JobHandle {
        JobHandle::new("lab/999999/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa")
    }

    fn asks(&self) -> Option<Asking> {
        let target = json!({"approval": "Shall this run?"});
        let job = self.world.job_with("approved", "echo it runs", json!({}), target);
        Some(Asking { job, answer: Map::from_iter([("approve".to_owned(), json!(true))]) })
    }

    fn prints(&self) -> Option<Printing> {
        let lines = ["the first line", "a second one", "the third of them"];
        let script = lines.map(|line| format!("echo {line}")).join("\n");
        Some(Printing { job: self.world.job("prints", &script), lines: lines.map(str::to_owned).to_vec() })
    }

    fn leaves(&self) -> Option<Leaving> {
        let target = json!({"artifacts": ["report/*.csv"]});
        let lines = r"mkdir report; printf 'a,b\n1,2\n' >report/table.csv";
        let job = self.world.job_with("leaves", lines, json!({}), target);
        Some(Leaving { job, name: "report/table.csv".to_owned(), bytes: b"a,b\n1,2\n".to_vec() })
    }

    async fn offers(&self) -> Option<Offering> {
        let tool = format!("offer-{}", self.offered.fetch_add(1, Ordering::Relaxed));
        self.world.script(&format!("tools/{tool}.sh"), "echo discovered and run");
        Some(Offering { tool, arguments: json!({}), text: "discovered and run".to_owned() })
    }

    async fn withdraws(&self, tool: &str) {
        fs::remove_file(self.world.folder().join(format!("tools/{tool}.sh"))).unwrap();
    }

    fn missing(&self) -> Option<Value> {
        Some(json!({"script": "nowhere.sh"}))
    }

    fn refused(&self) -> Option<Refusal> {
        let target = json!({"resources": {"partition": "nowhere"}});
        let job = self.world.job_with("refused", "true", json!({}), target);
        Some(Refusal { job, words: "nvalid partition".to_owned() })
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// A held job that was removed has not begun and never will.
    async fn starts(&self, key: &JobKey) -> usize {
        let columns = ["-h", "-t", "all", "-n", key.as_str(), "-o", "%T %r"];
        let jobs = block_in_place(|| self.world.cluster.run("squeue", &columns));
        jobs.lines().filter(|job| *job != "CANCELLED JobHeldUser").count()
    }

    async fn make(&self, trouble: Trouble) {
        if let Some(proxy) = &self.proxy {
            let (request, fault) = match trouble {
                Trouble::StartReplyLost => ("/job/submit", proxy::Fault::ReplyLost),
                Trouble::StartUnavailable => ("/job/submit", proxy::Fault::Answered(500, AWAY_REST)),
                Trouble::StartLimited => ("/job/submit", proxy::Fault::Answered(500, BUSY_REST)),
                Trouble::LookUnavailable => ("/job", proxy::Fault::Answered(500, AWAY_REST)),
                Trouble::DiscoveryUnavailable | Trouble::CheckupUnavailable => {
                    ("/partitions", proxy::Fault::Answered(500, AWAY_REST))
                }
                Trouble::JobUnlisted => unreachable!("it is not claimed"),
            };
            return proxy.make(request, fault);
        }
        let (command, fault) = match trouble {
            Trouble::StartReplyLost => ("sbatch", Fault::Lost),
            Trouble::StartUnavailable => ("sbatch", Fault::Refused(AWAY)),
            Trouble::StartLimited => ("sbatch", Fault::Refused(BUSY)),
            Trouble::LookUnavailable => ("squeue", Fault::Refused(AWAY)),
            Trouble::DiscoveryUnavailable | Trouble::CheckupUnavailable => ("scontrol", Fault::Refused(AWAY)),
            Trouble::JobUnlisted => unreachable!("it is not claimed"),
        };
        self.world.commands.fault(command, fault);
    }
}

mod accounting {
    taskbridge_sdk::behaviour_suite!(super::Lab::on(super::Held::shared(), super::By::Commands).await);
}

mod no_accounting {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::Held::without_accounting(), super::By::Commands).await
    );
}

mod rest_by_socket {
    taskbridge_sdk::behaviour_suite!(super::Lab::on(super::Held::shared(), super::By::Socket).await);
}

mod rest_by_token_without_accounting {
    taskbridge_sdk::behaviour_suite!(
        super::Lab::on(super::Held::without_accounting(), super::By::Token).await
    );
}
