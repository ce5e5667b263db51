//! The command-line driver: sbatch, squeue, sacct, sacctmgr, scontrol and scancel. Like every driver, it must
//! not decide anything. `process` runs the commands, and other modules parse their output.

use std::time::Duration;

use taskbridge_sdk::{Error, ErrorKind, Result, async_trait};

use super::process::{CommandFailure, CommandOutput, Runner};
use super::site::{self, Partition, Rights};
use super::{
    Cluster, Driver, JobId, PendingJob, Record, Row, Signal, Submission, accounting_text, nodes, queue_text,
    refusal,
};
use crate::config::Config;

/// A driver that runs Slurm's commands.
pub(crate) struct Commands {
    runner: Runner,
    /// The value of `--clusters`, if the config names a cluster.
    cluster: Option<String>,
}

impl Commands {
    /// Creates a driver that runs the commands as our own user, or as another.
    pub(crate) fn new(config: &Config, limit: Duration, user: Option<&str>) -> Result<Self> {
        Ok(Self { runner: Runner::new(config, limit, user)?, cluster: config.cluster.clone() })
    }

    async fn run(&self, name: &str, arguments: Vec<String>) -> Result<CommandOutput> {
        Ok(self.runner.run(name, &self.with_cluster(arguments), "").await?)
    }

    /// Runs a command and returns its output. A non-zero exit code is an error.
    async fn ask(&self, name: &str, arguments: Vec<String>) -> Result<String> {
        let printed = self.run(name, arguments).await?;
        if printed.succeeded { Ok(printed.out) } else { Err(refusal::error(name, &printed.err)) }
    }

    fn with_cluster(&self, mut arguments: Vec<String>) -> Vec<String> {
        if let Some(cluster) = &self.cluster {
            arguments.insert(0, format!("--clusters={cluster}"));
        }
        arguments
    }

    async fn squeue(&self, more: &[String]) -> Result<Vec<Row>> {
        let mut arguments = words(&["--noheader", "--states=all"]);
        arguments.push(format!("--Format={}", queue_text::row_format()));
        arguments.extend(more.iter().cloned());
        let printed = self.run("squeue", arguments).await?;
        match printed.succeeded {
            true => Ok(queue_text::rows(&printed.out)),
            // squeue reports this only for a query about a single job.
            false if refusal::is_over(&printed.err) => Ok(Vec::new()),
            false => Err(refusal::error("squeue", &printed.err)),
        }
    }

    async fn sacct(&self, more: &[String]) -> Result<Vec<Record>> {
        let mut arguments = words(&["--noheader", "--parsable2", "--starttime=1970-01-02"]);
        arguments.push(format!("--format={}", accounting_text::FIELDS));
        arguments.extend(more.iter().cloned());
        Ok(accounting_text::records(&self.ask("sacct", arguments).await?))
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[async_trait]
impl Driver for Commands {
    async fn cluster(&self) -> Result<Cluster> {
        let text = self.ask("scontrol", words(&["show", "config"])).await?;
        let value = |key: &str| {
            let line =
                text.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key))?;
            Some(line.split_once('=')?.1.trim().to_owned())
        };
        let name =
            value("ClusterName").ok_or_else(|| Error::config("scontrol show config names no cluster"))?;
        Ok(Cluster {
            name: self.cluster.clone().unwrap_or(name),
            version: value("SLURM_VERSION").unwrap_or_default(),
            accounting: value("AccountingStorageType").is_some_and(|kind| kind.ends_with("slurmdbd")),
            booted: value("BOOT_TIME").as_deref().and_then(queue_text::moment),
            // `root(0)`
            slurmd_user: value("SlurmdUser")
                .and_then(|user| user.split_once('(')?.1.strip_suffix(')')?.parse().ok()),
            max_array: value("MaxArraySize").and_then(|number| number.parse().ok()),
        })
    }

    async fn submit(&self, order: &Submission) -> Result<JobId> {
        let arguments = self.with_cluster(submission(order));
        let printed = match self.runner.run("sbatch", &arguments, &order.script).await {
            Ok(printed) => printed,
            Err(CommandFailure::NotRun(error)) => return Err(error),
            Err(CommandFailure::Lost(error)) => return Err(uncertain(error)),
        };
        if !printed.succeeded {
            let error = refusal::error("sbatch", &printed.err);
            return Err(if refusal::may_have_arrived(&printed.err) { uncertain(error) } else { error });
        }
        // `ID` or `ID;cluster`
        let id = printed.out.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::uncertain(format!("sbatch printed no job id: {:?}", printed.out.trim())))
    }

    async fn never_fits(&self, order: &Submission) -> Result<Option<String>> {
        let arguments = self.with_cluster(test(order));
        let printed = self.runner.run("sbatch", &arguments, &order.script).await?;
        let said = format!("{}\n{}", printed.out, printed.err);
        let Some(words) = refusal::of_configuration(&said).filter(|_| !printed.succeeded) else {
            return Ok(None);
        };
        let nodes = nodes::nodes(&self.ask("scontrol", self::words(&["--oneliner", "show", "node"])).await?);
        Ok(Some(words.to_owned()).filter(|_| !nodes::absence_may_matter(&nodes, &order.options)))
    }

    async fn release(&self, job: JobId) -> Result<()> {
        let printed = self.run("scontrol", vec!["release".to_owned(), job.to_string()]).await?;
        if printed.succeeded || printed.err.contains("Job has already finished") {
            return Ok(());
        }
        Err(refusal::error("scontrol release", &printed.err))
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        self.squeue(&words(&["--me"])).await
    }

    async fn named(&self, name: &str) -> Result<Vec<Row>> {
        self.squeue(&["--me".to_owned(), format!("--name={name}")]).await
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        self.squeue(&[format!("--jobs={job}")]).await
    }

    async fn waiting(&self) -> Result<Vec<PendingJob>> {
        let mut arguments = words(&["--noheader", "--states=PENDING"]);
        arguments.push(format!("--Format={}", queue_text::waiting_format()));
        Ok(queue_text::waiting(&self.ask("squeue", arguments).await?))
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
        self.sacct(&[format!("--jobs={}", ids.join(","))]).await
    }

    async fn cancel(&self, job: JobId, name: &str) -> Result<()> {
        let printed = self.run("scancel", vec![format!("--name={name}"), job.to_string()]).await?;
        if printed.succeeded || refusal::is_over(&printed.err) {
            return Ok(());
        }
        Err(refusal::error("scancel", &printed.err))
    }

    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()> {
        let mut arguments = vec![format!("--signal={}", signal.name)];
        arguments.extend(signal.batch.then(|| "--batch".to_owned()));
        arguments.push(job.to_string());
        let printed = match self.runner.run("scancel", &self.with_cluster(arguments), "").await {
            Ok(printed) => printed,
            Err(CommandFailure::NotRun(error)) => return Err(error),
            Err(CommandFailure::Lost(error)) => return Err(uncertain(error)),
        };
        if printed.succeeded {
            return Ok(());
        }
        let error = refusal::error("scancel", &printed.err);
        Err(if refusal::signal_may_have_arrived(&printed.err) { uncertain(error) } else { error })
    }

    async fn readiness(&self) -> Result<()> {
        for name in ["sbatch", "squeue", "scontrol", "scancel", "sacct"] {
            let printed = self.runner.run(name, &words(&["--version"]), "").await?;
            if !printed.succeeded {
                return Err(refusal::error(name, &printed.err));
            }
        }
        match self.cluster().await?.booted {
            Some(_) => Ok(()),
            None => Err(Error::config(
                "scontrol does not write moments as `SLURM_TIME_FORMAT=%s` tells it to: sudo does not hand the variable on",
            )),
        }
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        let text = self.ask("scontrol", words(&["--oneliner", "show", "partition"])).await?;
        Ok(site::partitions(&text))
    }

    async fn rights(&self, user: Option<&str>) -> Result<Rights> {
        // sacctmgr queries the accounting database and no cluster, so it takes no `--clusters`.
        let ask = async |what: &[&str]| {
            let arguments = words(&["--noheader", "--parsable2", "--readonly", "show"])
                .into_iter()
                .chain(words(what))
                .collect::<Vec<_>>();
            let printed = self.runner.run("sacctmgr", &arguments, "").await?;
            if printed.succeeded { Ok(printed.out) } else { Err(refusal::error("sacctmgr", &printed.err)) }
        };
        let associations = ask(&["associations", "format=user,account,qos"]).await?;
        let qos = ask(&["qos", "format=name,maxwall"]).await?;
        Ok(site::rights(&associations, &qos, user.or(self.runner.user())))
    }
}

/// Converts a failure into `Uncertain`, since the request may have taken effect.
fn uncertain(error: Error) -> Error {
    Error::new(ErrorKind::Uncertain, error.to_string())
}

/// Returns the arguments of sbatch. Each option is one word with its value, so that no value can become an
/// option. Later options override earlier ones.
fn submission(order: &Submission) -> Vec<String> {
    let mut arguments = words(&["--parsable"]);
    for (name, value) in &order.options {
        arguments.push(match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
    }
    arguments.extend([
        "--hold".to_owned(),
        if order.requeue { "--requeue" } else { "--no-requeue" }.to_owned(),
        format!("--job-name={}", order.name),
        format!("--comment={}", order.comment),
        format!("--output={}", order.output),
        format!("--error={}", order.error),
        format!("--chdir={}", order.working_dir),
        // Slurm may start a job twice, and the second run must not erase the first run's output.
        "--open-mode=append".to_owned(),
        "--export=ALL".to_owned(),
    ]);
    arguments
}

/// Returns the arguments of a test, which submits nothing. A dependency does not decide whether the job could
/// ever run.
fn test(order: &Submission) -> Vec<String> {
    let mut arguments = submission(order);
    let is_of_the_start =
        |word: &str| matches!(word, "--hold" | "--parsable") || word.starts_with("--dependency=");
    arguments.retain(|word| !is_of_the_start(word));
    arguments.push("--test-only".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other users can give their jobs any name. Such a job must not be adopted.
    #[tokio::test]
    async fn search_finds_only_own_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let asked = dir.path().join("asked");
        let config = serde_json::json!({"sudo": ["sh", "-c", format!("echo \"$@\" >{}", asked.display())]});
        let config = serde_json::from_value(config).unwrap();
        let commands = Commands::new(&config, Duration::from_secs(20), Some("lab")).unwrap();
        assert_eq!(commands.named("tb-a").await.unwrap(), []);
        let asked = std::fs::read_to_string(asked).unwrap();
        assert!(asked.contains(" --me ") && asked.contains(" --name=tb-a"), "{asked}");
    }

    /// An error states whether the signal may have been sent.
    #[tokio::test]
    async fn unsent_signal_is_distinguished() {
        let send = async |sudo: serde_json::Value, limit: Duration| {
            let config = serde_json::from_value(serde_json::json!({ "sudo": sudo })).unwrap();
            let commands = Commands::new(&config, limit, Some("lab")).unwrap();
            let signal = Signal { name: "USR1".to_owned(), batch: true };
            commands.signal(7, &signal).await.map_err(|error| error.kind())
        };
        let long = Duration::from_secs(20);
        for (words, kind) in [
            ("Unable to contact slurm controller (connect failure)", ErrorKind::Unavailable),
            ("Kill job error on job id 7: Invalid job id specified", ErrorKind::Rejected),
            ("Kill job error on job id 7: Access/permission denied", ErrorKind::Denied),
            ("slurm_kill_job2: Socket timed out on send/recv operation", ErrorKind::Uncertain),
            // Recorded from Slurm 22.05 for an array with pending tasks.
            ("Job can not be altered now, try again later", ErrorKind::Uncertain),
            ("", ErrorKind::Uncertain),
        ] {
            let says = format!("echo '{words}' >&2; exit 1");
            assert_eq!(send(serde_json::json!(["sh", "-c", says]), long).await, Err(kind), "{words}");
        }
        assert_eq!(send(serde_json::json!(["/nowhere/sudo"]), long).await, Err(ErrorKind::Config));
        let short = Duration::from_millis(50);
        let hangs = serde_json::json!(["sh", "-c", "exec sleep 20"]);
        assert_eq!(send(hangs, short).await, Err(ErrorKind::Uncertain));
    }

    #[test]
    fn no_value_becomes_an_option() {
        let order = Submission {
            name: "tb-a".to_owned(),
            comment: "--uid=0".to_owned(),
            script: String::new(),
            output: "/j/out".to_owned(),
            error: "/j/err".to_owned(),
            working_dir: "/w".to_owned(),
            requeue: false,
            options: [
                ("partition".to_owned(), Some("--wrap=x y".to_owned())),
                ("exclusive".to_owned(), None),
            ]
            .into(),
        };
        let arguments = submission(&order);
        for wanted in ["--partition=--wrap=x y", "--exclusive", "--comment=--uid=0", "--hold", "--no-requeue"]
        {
            assert!(arguments.iter().any(|argument| argument == wanted), "{wanted} is not in {arguments:?}");
        }
        assert!(arguments.iter().all(|argument| argument.starts_with("--")));
    }
}
