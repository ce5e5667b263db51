//! The command-line driver: sbatch, squeue, sacct, sacctmgr, scontrol and scancel. Like every driver, it must
//! not decide anything. `process` runs the commands, and other modules parse their output.

use std::time::Duration;

use taskbridge_sdk::{Error, Result, async_trait};

use super::error::{self, uncertain};
use super::process::{CommandFailure, CommandOutput, Runner};
use super::site::{self, Partition, Rights};
use super::{
    Cluster, Driver, Feasibility, PendingJob, Record, Row, Signal, Submission, accounting_text, nodes,
    queue_text,
};
use crate::config::Config;
use crate::identity::handle::JobId;

/// A driver that runs Slurm's commands.
pub(crate) struct Commands {
    runner: Runner,
    /// The value of `--clusters`, if the config names a cluster.
    cluster: Option<String>,
}

impl Commands {
    /// Creates a driver that runs the commands as our own user, or as another.
    pub(crate) fn new(config: &Config, timeout: Duration, user: Option<&str>) -> Result<Self> {
        Ok(Self { runner: Runner::new(config, timeout, user)?, cluster: config.cluster.clone() })
    }

    async fn run(&self, name: &str, arguments: Vec<String>) -> Result<CommandOutput> {
        Ok(self.runner.run(name, &self.with_cluster(arguments), "").await?)
    }

    /// Runs a command and returns its output. A non-zero exit code is an error.
    async fn run_checked(&self, name: &str, arguments: Vec<String>) -> Result<String> {
        let output = self.run(name, arguments).await?;
        if output.success { Ok(output.stdout) } else { Err(error::parse(name, &output.stderr)) }
    }

    fn with_cluster(&self, mut arguments: Vec<String>) -> Vec<String> {
        if let Some(cluster) = &self.cluster {
            arguments.insert(0, format!("--clusters={cluster}"));
        }
        arguments
    }

    async fn squeue(&self, extra: &[String]) -> Result<Vec<Row>> {
        let mut arguments = to_strings(&["--noheader", "--states=all"]);
        arguments.push(format!("--Format={}", queue_text::row_format()));
        arguments.extend(extra.iter().cloned());
        let output = self.run("squeue", arguments).await?;
        match output.success {
            true => Ok(queue_text::rows(&output.stdout)),
            // squeue reports this only for a query about a single job.
            false if error::is_ended_or_unknown(&output.stderr) => Ok(Vec::new()),
            false => Err(error::parse("squeue", &output.stderr)),
        }
    }

    async fn sacct(&self, extra: &[String]) -> Result<Vec<Record>> {
        let mut arguments = to_strings(&["--noheader", "--parsable2", "--starttime=1970-01-02"]);
        arguments.push(format!("--format={}", accounting_text::FIELDS));
        arguments.extend(extra.iter().cloned());
        Ok(accounting_text::records(&self.run_checked("sacct", arguments).await?))
    }

    /// Tests a submission with the nodes that are up.
    async fn test(&self, submission: &Submission) -> Result<Feasibility> {
        let arguments = self.with_cluster(test_arguments(submission));
        let output = self.runner.run("sbatch", &arguments, &submission.script).await?;
        let text = format!("{}\n{}", output.stdout, output.stderr);
        let message = error::infeasible_message(&text).filter(|_| !output.success);
        Ok(message.map_or(Feasibility::Feasible, |message| Feasibility::Infeasible(message.to_owned())))
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[async_trait]
impl Driver for Commands {
    async fn cluster(&self) -> Result<Cluster> {
        let text = self.run_checked("scontrol", to_strings(&["show", "config"])).await?;
        let value = |key: &str| {
            let line =
                text.lines().find(|line| line.split('=').next().is_some_and(|name| name.trim() == key))?;
            Some(line.split_once('=')?.1.trim().to_owned())
        };
        let name = value("ClusterName")
            .ok_or_else(|| Error::config("the output of `scontrol show config` has no `ClusterName`"))?;
        Ok(Cluster {
            name: self.cluster.clone().unwrap_or(name),
            version: value("SLURM_VERSION").unwrap_or_default(),
            accounting: value("AccountingStorageType").is_some_and(|kind| kind.ends_with("slurmdbd")),
            boot_time: value("BOOT_TIME").as_deref().and_then(queue_text::parse_timestamp),
            // `root(0)`
            slurmd_user: value("SlurmdUser")
                .and_then(|user| user.split_once('(')?.1.strip_suffix(')')?.parse().ok()),
            max_array: value("MaxArraySize").and_then(|number| number.parse().ok()),
        })
    }

    async fn submit(&self, submission: &Submission) -> Result<JobId> {
        let arguments = self.with_cluster(submit_arguments(submission));
        let output = match self.runner.run("sbatch", &arguments, &submission.script).await {
            Ok(output) => output,
            Err(CommandFailure::NotStarted(error)) => return Err(error),
            Err(CommandFailure::OutcomeUnknown(error)) => return Err(uncertain(&error)),
        };
        if !output.success {
            let error = error::parse("sbatch", &output.stderr);
            return Err(if error::may_have_arrived(&output.stderr) { uncertain(&error) } else { error });
        }
        // `ID` or `ID;cluster`
        let id = output.stdout.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::uncertain(format!("sbatch printed no job id: {:?}", output.stdout.trim())))
    }

    async fn feasibility(&self, submission: &Submission) -> Result<Feasibility> {
        if self.test(submission).await? == Feasibility::Feasible {
            return Ok(Feasibility::Feasible);
        }
        let text = self.run_checked("scontrol", to_strings(&["--all", "--oneliner", "show", "node"])).await?;
        if nodes::unavailable_nodes_may_matter(&nodes::nodes(&text), &submission.options) {
            return Ok(Feasibility::Unknown);
        }
        // Nodes that register after a restart of the controller may have done so between the test and the
        // list. Only a test after the list counts.
        self.test(submission).await
    }

    async fn release(&self, job: JobId) -> Result<()> {
        let output = self.run("scontrol", vec!["release".to_owned(), job.to_string()]).await?;
        if output.success || output.stderr.contains("Job has already finished") {
            return Ok(());
        }
        Err(error::parse("scontrol release", &output.stderr))
    }

    async fn queue(&self) -> Result<Vec<Row>> {
        self.squeue(&to_strings(&["--me"])).await
    }

    async fn jobs_by_name(&self, name: &str) -> Result<Vec<Row>> {
        self.squeue(&["--me".to_owned(), format!("--name={name}")]).await
    }

    async fn job(&self, job: JobId) -> Result<Vec<Row>> {
        self.squeue(&[format!("--jobs={job}")]).await
    }

    async fn pending_jobs(&self) -> Result<Vec<PendingJob>> {
        let mut arguments = to_strings(&["--noheader", "--states=PENDING"]);
        arguments.push(format!("--Format={}", queue_text::pending_format()));
        Ok(queue_text::pending_jobs(&self.run_checked("squeue", arguments).await?))
    }

    async fn accounting_records(&self, jobs: &[JobId]) -> Result<Vec<Record>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
        self.sacct(&[format!("--jobs={}", ids.join(","))]).await
    }

    async fn cancel(&self, job: JobId, name: &str) -> Result<()> {
        let output = self.run("scancel", vec![format!("--name={name}"), job.to_string()]).await?;
        if output.success || error::is_ended_or_unknown(&output.stderr) {
            return Ok(());
        }
        Err(error::parse("scancel", &output.stderr))
    }

    async fn signal(&self, job: JobId, signal: &Signal) -> Result<()> {
        let mut arguments = vec![format!("--signal={}", signal.name)];
        arguments.extend(signal.batch.then(|| "--batch".to_owned()));
        arguments.push(job.to_string());
        let output = match self.runner.run("scancel", &self.with_cluster(arguments), "").await {
            Ok(output) => output,
            Err(CommandFailure::NotStarted(error)) => return Err(error),
            Err(CommandFailure::OutcomeUnknown(error)) => return Err(uncertain(&error)),
        };
        if output.success {
            return Ok(());
        }
        let error = error::parse("scancel", &output.stderr);
        Err(if error::signal_may_have_arrived(&output.stderr) { uncertain(&error) } else { error })
    }

    async fn check_ready(&self) -> Result<()> {
        for name in ["sbatch", "squeue", "scontrol", "scancel", "sacct"] {
            let output = self.runner.run(name, &to_strings(&["--version"]), "").await?;
            if !output.success {
                return Err(error::parse(name, &output.stderr));
            }
        }
        match self.cluster().await?.boot_time {
            Some(_) => Ok(()),
            None => Err(Error::config(
                "scontrol ignores `SLURM_TIME_FORMAT=%s`: sudo does not pass the variable on; add it to `env_keep` in the sudo rule",
            )),
        }
    }

    async fn partitions(&self) -> Result<Vec<Partition>> {
        let text =
            self.run_checked("scontrol", to_strings(&["--all", "--oneliner", "show", "partition"])).await?;
        Ok(site::partitions(&text))
    }

    async fn rights(&self, user: Option<&str>) -> Result<Rights> {
        // sacctmgr queries the accounting database and no cluster, so it takes no `--clusters`.
        let query = async |what: &[&str]| {
            let arguments = to_strings(&["--noheader", "--parsable2", "--readonly", "show"])
                .into_iter()
                .chain(to_strings(what))
                .collect::<Vec<_>>();
            let output = self.runner.run("sacctmgr", &arguments, "").await?;
            if output.success { Ok(output.stdout) } else { Err(error::parse("sacctmgr", &output.stderr)) }
        };
        let associations = query(&["associations", "format=user,account,qos"]).await?;
        let qos = query(&["qos", "format=name,maxwall"]).await?;
        Ok(site::rights(&associations, &qos, user.or(self.runner.user())))
    }
}

/// Returns the arguments of sbatch. Each option is one word with its value, so that no value can become an
/// option. Later options override earlier ones.
fn submit_arguments(submission: &Submission) -> Vec<String> {
    let mut arguments = to_strings(&["--parsable"]);
    for (name, value) in &submission.options {
        arguments.push(match value {
            Some(value) => format!("--{name}={value}"),
            None => format!("--{name}"),
        });
    }
    arguments.extend([
        "--hold".to_owned(),
        if submission.requeue { "--requeue" } else { "--no-requeue" }.to_owned(),
        format!("--job-name={}", submission.name),
        format!("--comment={}", submission.comment),
        format!("--output={}", submission.output),
        format!("--error={}", submission.error),
        format!("--chdir={}", submission.working_dir),
        // Slurm may start a job twice, and the second run must not erase the first run's output.
        "--open-mode=append".to_owned(),
        "--export=ALL".to_owned(),
    ]);
    arguments
}

/// Returns the arguments of a test, which submits nothing. A dependency does not decide whether the job could
/// ever run.
fn test_arguments(submission: &Submission) -> Vec<String> {
    let mut arguments = submit_arguments(submission);
    let is_submit_only =
        |word: &str| matches!(word, "--hold" | "--parsable") || word.starts_with("--dependency=");
    arguments.retain(|word| !is_submit_only(word));
    arguments.push("--test-only".to_owned());
    arguments
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::ErrorKind;

    use super::*;

    /// Other users can give their jobs any name. Such a job must not be adopted.
    #[tokio::test]
    async fn search_finds_only_own_jobs() {
        let dir = tempfile::tempdir().unwrap();
        let arguments_file = dir.path().join("asked");
        let config =
            serde_json::json!({"sudo": ["sh", "-c", format!("echo \"$@\" >{}", arguments_file.display())]});
        let config = serde_json::from_value(config).unwrap();
        let commands = Commands::new(&config, Duration::from_secs(20), Some("lab")).unwrap();
        assert_eq!(commands.jobs_by_name("tb-a").await.unwrap(), []);
        let arguments = std::fs::read_to_string(arguments_file).unwrap();
        assert!(arguments.contains(" --me ") && arguments.contains(" --name=tb-a"), "{arguments}");
    }

    /// After a restart of the controller, a test fails until the nodes have registered. The list of nodes may
    /// come from just after that.
    #[tokio::test]
    async fn unregistered_nodes_refuse_no_job() {
        let dir = tempfile::tempdir().unwrap();
        let tests = dir.path().join("tests");
        let (path, refusal) = (tests.display(), "Requested node configuration is not available");
        let script = |failures: usize| {
            format!(
                "case $* in
                     *scontrol*) echo 'NodeName=n CPUTot=4 State=IDLE' ;;
                     *sbatch*) echo >>{path}; [ $(wc -l <{path}) -gt {failures} ] || {{ echo '{refusal}' >&2; exit 1; }} ;;
                 esac"
            )
        };
        let infeasible = Feasibility::Infeasible(refusal.to_owned());
        for (failures, expected) in [(1, Feasibility::Feasible), (2, infeasible)] {
            let _ = std::fs::remove_file(&tests);
            let config = serde_json::json!({"sudo": ["sh", "-c", script(failures)]});
            let config = serde_json::from_value(config).unwrap();
            let commands = Commands::new(&config, Duration::from_secs(20), Some("lab")).unwrap();
            assert_eq!(commands.feasibility(&submission()).await.unwrap(), expected);
        }
    }

    /// An error states whether the signal may have been sent.
    #[tokio::test]
    async fn unsent_signal_is_distinguished() {
        let send = async |sudo: serde_json::Value, timeout: Duration| {
            let config = serde_json::from_value(serde_json::json!({ "sudo": sudo })).unwrap();
            let commands = Commands::new(&config, timeout, Some("lab")).unwrap();
            let signal = Signal { name: "USR1".to_owned(), batch: true };
            commands.signal(7, &signal).await.map_err(|error| error.kind())
        };
        let long_timeout = Duration::from_secs(20);
        for (message, kind) in [
            ("Unable to contact slurm controller (connect failure)", ErrorKind::Unavailable),
            ("Kill job error on job id 7: Invalid job id specified", ErrorKind::Rejected),
            ("Kill job error on job id 7: Access/permission denied", ErrorKind::Denied),
            ("slurm_kill_job2: Socket timed out on send/recv operation", ErrorKind::Uncertain),
            // Recorded from Slurm 22.05 for an array with pending tasks.
            ("Job can not be altered now, try again later", ErrorKind::Uncertain),
            ("", ErrorKind::Uncertain),
        ] {
            let script = format!("echo '{message}' >&2; exit 1");
            assert_eq!(
                send(serde_json::json!(["sh", "-c", script]), long_timeout).await,
                Err(kind),
                "{message}"
            );
        }
        assert_eq!(send(serde_json::json!(["/nowhere/sudo"]), long_timeout).await, Err(ErrorKind::Config));
        let short_timeout = Duration::from_millis(50);
        let hanging_sudo = serde_json::json!(["sh", "-c", "exec sleep 20"]);
        assert_eq!(send(hanging_sudo, short_timeout).await, Err(ErrorKind::Uncertain));
    }

    fn submission() -> Submission {
        Submission {
            name: "tb-a".to_owned(),
            comment: "--uid=0".to_owned(),
            script: String::new(),
            output: "/j/out".to_owned(),
            error: "/j/err".to_owned(),
            working_dir: "/w".to_owned(),
            requeue: false,
            options: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn no_value_becomes_an_option() {
        let options =
            [("partition".to_owned(), Some("--wrap=x y".to_owned())), ("exclusive".to_owned(), None)].into();
        let submission = Submission { options, ..submission() };
        let arguments = submit_arguments(&submission);
        for expected in
            ["--partition=--wrap=x y", "--exclusive", "--comment=--uid=0", "--hold", "--no-requeue"]
        {
            assert!(
                arguments.iter().any(|argument| argument == expected),
                "{expected} is not in {arguments:?}"
            );
        }
        assert!(arguments.iter().all(|argument| argument.starts_with("--")));
    }
}
