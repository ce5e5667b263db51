//! What `taskbridge doctor` is told: whether the jobs' folder, the controller and the accounting are there, and whether the scripts,
//! partitions and accounts that targets name are. It must not submit or change anything.

use rustix::fs::{Access, access};
use serde::Deserialize as _;
use taskbridge_sdk::{Checkup, Error, Finding, ToolTarget, async_trait};

use crate::amount;
use crate::backend::{Slurm, disk};
use crate::config::{Resources, Setting, Target};
use crate::directives;
use crate::driver::Options;
use crate::driver::site::{Partition, Rights};

#[async_trait]
impl Checkup for Slurm {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let mut found = vec![self.folder_for_jobs().await];
        found.push(match self.driver.cluster().await {
            Ok(cluster) => {
                Finding::ok("controller", format!("the cluster {}, Slurm {}", cluster.name, cluster.version))
            }
            Err(error) => away("controller", &error),
        });
        let partitions = match self.driver.partitions().await {
            Ok(partitions) => {
                found.push(told(&partitions));
                Some(partitions)
            }
            Err(error) => {
                found.push(away("partitions", &error));
                None
            }
        };
        let rights = self.accounting_is_there(&mut found).await;
        for tool in tools {
            found.push(self.tool(tool, partitions.as_deref(), rights.as_ref()).await);
        }
        found
    }
}

/// What is wrong, and how it is mended.
type Wrong = (String, String);

impl Slurm {
    async fn folder_for_jobs(&self) -> Finding {
        let jobs = self.jobs.clone();
        let looked = disk(move || access(&jobs, Access::WRITE_OK | Access::EXEC_OK)).await;
        let shown = self.jobs.display();
        let fix = "let the server's user write there, or set another `jobs_dir`; the nodes must see it at the same path";
        match looked {
            Ok(Ok(())) => {
                Finding::ok("folder for jobs", format!("{shown}; the nodes must see it at the same path"))
            }
            Ok(Err(error)) => Finding::fault("folder for jobs", format!("{shown}: {error}"), fix),
            Err(error) => Finding::fault("folder for jobs", error.to_string(), fix),
        }
    }

    /// Whether we may act as this user, by a call that does nothing.
    pub(crate) async fn may_act(&self, user: &str) -> Finding {
        let what = format!("as the user {user}");
        match self.driver.readiness().await {
            Ok(()) => Finding::ok(what, "Slurm takes what is asked as them"),
            Err(error) => Finding::fault(
                what,
                error.to_string(),
                "give the server's user the rule for sudo that the adapter's README has, or the user a new token (`scontrol token`)",
            ),
        }
    }

    /// What it lets us use, if there is one.
    async fn accounting_is_there(&self, found: &mut Vec<Finding>) -> Option<Rights> {
        if !self.has_accounting() {
            found.push(Finding::warning(
                "accounting",
                "there is none: how much memory jobs used stays unknown, and jobs that the controller forgot are known by what they \
                 wrote into their folders alone",
                "set up slurmdbd, or leave it so; a longer `MinJobAge` in slurm.conf helps",
            ));
            return None;
        }
        match self.driver.rights().await {
            Ok(rights) => {
                let names: Vec<&str> = rights.accounts.keys().map(String::as_str).collect();
                found.push(Finding::ok("accounting", format!("it answers; accounts: {}", listed(&names))));
                Some(rights)
            }
            Err(error) => {
                found.push(Finding::warning(
                    "accounting",
                    error.to_string(),
                    "see that slurmdbd runs, and that this user may ask it",
                ));
                None
            }
        }
    }

    async fn tool(
        &self,
        tool: &ToolTarget,
        partitions: Option<&[Partition]>,
        rights: Option<&Rights>,
    ) -> Finding {
        let what = format!("tool `{}`", tool.tool);
        let target = match Target::deserialize(&tool.target) {
            Ok(target) => target,
            Err(error) => {
                return Finding::fault(
                    what,
                    error.to_string(),
                    "`taskbridge check` says what its target must hold",
                );
            }
        };
        let Some(script) = &target.script else {
            return Finding::ok(what, "it submits nothing");
        };
        let path = self.setup.config_dir.join(script);
        let shown = path.display().to_string();
        let read = disk(move || std::fs::read_to_string(path)).await;
        let text = match read {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let fix =
                    "put the batch script there, let the server's user read it, or set another `script`";
                return Finding::fault(what, format!("its script {shown} cannot be read: {error}"), fix);
            }
            Err(error) => {
                return Finding::fault(what, error.to_string(), "look at the file system of the scripts");
            }
        };
        let options = match directives::read(&text) {
            Ok(directives) => directives.options,
            Err(why) => {
                return Finding::fault(
                    what,
                    format!("its script {shown}: {why}"),
                    "mend its `#SBATCH` lines",
                );
            }
        };
        match asked(&target.resources, &options, partitions, rights) {
            Ok(()) => Finding::ok(what, format!("it submits {shown}")),
            Err((says, fix)) => Finding::fault(what, says, fix),
        }
    }
}

fn away(what: &str, error: &Error) -> Finding {
    let fix = "see that slurmctld runs and can be reached from here (`scontrol ping`), and that `commands_dir`, `slurm_conf`, `ssh` or \
               `rest` are right";
    Finding::fault(what, error.to_string(), fix)
}

fn told(partitions: &[Partition]) -> Finding {
    let shown = |partition: &Partition| {
        let time = partition
            .max_time
            .map_or("no limit of time".to_owned(), |time| format!("at most {}", amount::time_in_words(time)));
        let down = if partition.up { "" } else { ", not up" };
        format!("{} ({time}{down})", partition.name)
    };
    let all: Vec<String> = partitions.iter().map(shown).collect();
    match partitions.iter().any(|partition| partition.up) {
        true => Finding::ok("partitions", all.join(", ")),
        false => Finding::fault(
            "partitions",
            format!("none is up: {}", listed(&all)),
            "ask whoever runs the cluster",
        ),
    }
}

fn listed<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
    }
}

/// What a setting says word for word; one that a call decides is none.
fn fixed(setting: Option<&Setting>, options: &Options, name: &str) -> Option<String> {
    let text = match setting {
        Some(Setting::Text(text)) => text.clone(),
        Some(Setting::Number(number)) => number.to_string(),
        Some(Setting::Bounded(_)) => return None,
        None => options.get(name)?.clone()?,
    };
    (!text.contains("{{") && !text.contains("{%")).then_some(text)
}

/// Whether what a tool always asks for is there.
fn asked(
    resources: &Resources,
    options: &Options,
    partitions: Option<&[Partition]>,
    rights: Option<&Rights>,
) -> Result<(), Wrong> {
    let partition = fixed(resources.partition.as_ref(), options, "partition");
    let time = fixed(resources.time.as_ref(), options, "time").and_then(|time| amount::time(&time));
    for name in partition.iter().flat_map(|names| names.split(',')) {
        let Some(partitions) = partitions else { break };
        let Some(known) = partitions.iter().find(|partition| partition.name == name) else {
            let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
            return Err((
                format!("there is no partition `{name}`"),
                format!("choose one of {}", listed(&names)),
            ));
        };
        if let Some((limit, time)) = known.max_time.zip(time).filter(|(limit, time)| time > limit) {
            let says = format!(
                "it asks for {} in the partition `{name}`, which allows {}",
                amount::time_in_words(time),
                amount::time_in_words(limit)
            );
            return Err((says, "ask for less time, or for another partition".to_owned()));
        }
    }
    let Some(rights) = rights.filter(|rights| !rights.accounts.is_empty()) else { return Ok(()) };
    let account = fixed(resources.account.as_ref(), options, "account");
    if let Some(account) = account.filter(|account| !rights.accounts.contains_key(account)) {
        let names: Vec<&str> = rights.accounts.keys().map(String::as_str).collect();
        return Err((
            format!("this user has no account `{account}`"),
            format!("choose one of {}", listed(&names)),
        ));
    }
    let qos = fixed(resources.qos.as_ref(), options, "qos");
    if let Some(qos) = qos.filter(|qos| !rights.qos.contains_key(qos)) {
        let names: Vec<&str> = rights.qos.keys().map(String::as_str).collect();
        return Err((
            format!("there is no quality of service `{qos}`"),
            format!("choose one of {}", listed(&names)),
        ));
    }
    Ok(())
}
