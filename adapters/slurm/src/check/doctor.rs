//! Findings for `taskbridge doctor`: whether the jobs folder, the controller and the accounting database
//! work, and whether the scripts, partitions and accounts of all targets exist. It must not submit or change
//! anything.

use std::time::Duration;

use rustix::fs::{Access, access};
use taskbridge_sdk::{Checkup, Error, Finding, ToolTarget, async_trait};

use crate::config::{Resources, Setting, Target};
use crate::core::Slurm;
use crate::driver::site::{Partition, Rights};
use crate::driver::{Feasibility, Submission};
use crate::notation::directives::Options;
use crate::notation::{amount, directives};
use crate::store::disk;
use crate::submit::request::read_script;

#[async_trait]
impl Checkup for Slurm {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        self.run_checks(tools, None).await
    }
}

/// A fault and its fix.
type FaultAndFix = (String, String);

/// The rights of a user. `None` is our own user.
type UserRights<'a> = (Option<&'a str>, Rights);

impl Slurm {
    /// Checks everything. Checks the tools as each of these users, or as our own user.
    pub(crate) async fn run_checks(&self, tools: &[ToolTarget], users: Option<&[&str]>) -> Vec<Finding> {
        let mut findings = vec![self.check_jobs_folder().await];
        findings.push(match self.driver.cluster().await {
            Ok(cluster) => {
                Finding::ok("controller", format!("the cluster {}, Slurm {}", cluster.name, cluster.version))
            }
            Err(error) => connection_fault("controller", &error),
        });
        let partitions = match self.driver.partitions().await {
            Ok(partitions) => {
                findings.push(partitions_finding(&partitions));
                Some(partitions)
            }
            Err(error) => {
                findings.push(connection_fault("partitions", &error));
                None
            }
        };
        findings.extend(self.invalid_script_findings().await);
        let user_rights = match (self.check_accounting(&mut findings).await, users) {
            (None, _) => Vec::new(),
            (Some(rights), None) => vec![(None, rights)],
            (Some(_), Some(users)) => self.rights_of(users, &mut findings).await,
        };
        for tool in tools {
            findings.push(self.check_tool(tool, partitions.as_deref(), &user_rights).await);
        }
        findings
    }

    async fn rights_of<'a>(&self, users: &[&'a str], findings: &mut Vec<Finding>) -> Vec<UserRights<'a>> {
        let mut user_rights = Vec::with_capacity(users.len());
        for user in users {
            match self.driver.rights(Some(user)).await {
                Ok(rights) => user_rights.push((Some(*user), rights)),
                Err(error) => findings.push(Finding::warning(
                    format!("rights of the user {user}"),
                    error.to_string(),
                    "check that slurmdbd runs, and that the server's user may query it for other users",
                )),
            }
        }
        user_rights
    }

    async fn check_jobs_folder(&self) -> Finding {
        let jobs = self.jobs_dir.clone();
        let check_access = move || {
            disk::enter_path(&jobs);
            access(&jobs, Access::WRITE_OK | Access::EXEC_OK)
        };
        let result = self.disks.jobs.run(check_access).await;
        let path = self.jobs_dir.display();
        let fix = "allow the server's user to write there, or set another `jobs_dir`; the nodes must see it at the same path";
        match result {
            Ok(Ok(())) => {
                Finding::ok("folder for jobs", format!("{path}; the nodes must see it at the same path"))
            }
            Ok(Err(error)) => Finding::fault("folder for jobs", format!("{path}: {error}"), fix),
            Err(error) => Finding::fault("folder for jobs", error.to_string(), fix),
        }
    }

    /// Checks whether we may act as this user, by a call that changes nothing.
    pub(crate) async fn check_user(&self, user: &str) -> Finding {
        let what = format!("as the user {user}");
        match self.driver.check_ready().await {
            Ok(()) => Finding::ok(what, "Slurm accepts requests as this user"),
            Err(error) => Finding::fault(
                what,
                error.to_string(),
                "add the sudo rule from the adapter's README, or create a new token for the user (`scontrol token`)",
            ),
        }
    }

    /// Returns our rights in the accounting database, if it is there and answers.
    async fn check_accounting(&self, findings: &mut Vec<Finding>) -> Option<Rights> {
        // Without an answer of Slurm, which is reported, it is not known.
        if !self.knows_accounting() {
            return None;
        }
        if !self.has_accounting() {
            findings.push(Finding::warning(
                "accounting",
                "the cluster has no accounting database: memory usage is unknown, and once the controller forgets a job, only \
                 the job's folder shows how it ended",
                "set up slurmdbd, or set a longer `MinJobAge` in slurm.conf",
            ));
            return None;
        }
        match self.driver.rights(None).await {
            Ok(rights) => {
                let names: Vec<&str> = rights.accounts.keys().map(String::as_str).collect();
                findings.push(Finding::ok(
                    "accounting",
                    format!("slurmdbd answers; accounts: {}", join_names(&names)),
                ));
                Some(rights)
            }
            Err(error) => {
                findings.push(Finding::warning(
                    "accounting",
                    error.to_string(),
                    "check that slurmdbd runs, and that this user may query it",
                ));
                None
            }
        }
    }

    async fn check_tool(
        &self,
        tool: &ToolTarget,
        partitions: Option<&[Partition]>,
        user_rights: &[UserRights<'_>],
    ) -> Finding {
        let what = format!("tool `{}`", tool.tool);
        let target: Target = match tool.parse() {
            Ok(target) => target,
            Err(finding) => return finding,
        };
        let Some(script) = &target.script else {
            return Finding::ok(what, "submits nothing");
        };
        let path = self.setup.config_dir.join(script);
        let script_path = path.display().to_string();
        let read = move || {
            disk::enter_path(&path);
            read_script(&path)
        };
        let read = self.disks.sources.run(read).await;
        let text = match read {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let fix =
                    "put the batch script there, allow the server's user to read it, or set another `script`";
                return Finding::fault(
                    what,
                    format!("its script {script_path} cannot be read: {error}"),
                    fix,
                );
            }
            Err(error) => {
                return Finding::fault(what, error.to_string(), "check the file system of the scripts");
            }
        };
        let options = match directives::read(&text) {
            Ok(directives) => directives.options,
            Err(reason) => {
                return Finding::fault(
                    what,
                    format!("its script {script_path}: {reason}"),
                    "correct its `#SBATCH` lines",
                );
            }
        };
        let check_user_rights = |(user, rights): &UserRights<'_>| {
            let (message, fix) = check_account(&target.resources, &options, rights).err()?;
            Some((user.map_or_else(|| message.clone(), |user| format!("as the user {user}: {message}")), fix))
        };
        let fault = check_partition(&target.resources, &options, partitions).err();
        let fault = match fault.or_else(|| user_rights.iter().find_map(check_user_rights)) {
            None => self.infeasibility_fault(&target, options).await,
            fault => fault,
        };
        match fault {
            None => Finding::ok(what, format!("submits {script_path}")),
            Some((message, fix)) => Finding::fault(what, message, fix),
        }
    }

    /// Checks whether no node could ever run what the tool always requests. Values that depend on a call are
    /// left out.
    async fn infeasibility_fault(&self, target: &Target, mut options: Options) -> Option<FaultAndFix> {
        for (name, value) in &target.options {
            directives::set_option(&mut options, name, Some(value.clone()).filter(|value| !value.is_empty()));
        }
        for (_, name, _, setting) in target.resources.each_setting() {
            if let Some(setting) = setting {
                options.remove(name);
                if let Some(value) = fixed_value(Some(setting), &options, name) {
                    directives::set_option(&mut options, name, Some(value));
                }
            }
        }
        let submission = Submission {
            name: "tb-doctor".to_owned(),
            comment: String::new(),
            script: "#!/bin/sh\n".to_owned(),
            output: "/dev/null".to_owned(),
            error: "/dev/null".to_owned(),
            working_dir: "/".to_owned(),
            requeue: false,
            options,
        };
        // A test that fails is no fault of the tool.
        let Ok(Feasibility::Infeasible(reason)) = self.driver.feasibility(&submission).await else {
            return None;
        };
        let message = format!("no node could ever run its jobs: {reason} (Slurm)");
        Some((message, "request fewer resources, or another partition".to_owned()))
    }
}

fn connection_fault(what: &str, error: &Error) -> Finding {
    let fix = "check that slurmctld runs and is reachable from here (`scontrol ping`), and that `commands_dir`, `slurm_conf`, `ssh` or \
               `rest` is correct";
    Finding::fault(what, error.to_string(), fix)
}

fn partitions_finding(partitions: &[Partition]) -> Finding {
    let describe = |partition: &Partition| {
        let time = partition
            .max_time
            .map_or("no time limit".to_owned(), |time| format!("at most {}", amount::time_in_words(time)));
        let down = if partition.up { "" } else { ", not up" };
        format!("{} ({time}{down})", partition.name)
    };
    let all: Vec<String> = partitions.iter().map(describe).collect();
    match partitions.iter().any(|partition| partition.up) {
        true => Finding::ok("partitions", all.join(", ")),
        false => Finding::fault(
            "partitions",
            format!("no partition is up: {}", join_names(&all)),
            "contact the administrator of the cluster",
        ),
    }
}

fn join_names<T: AsRef<str>>(names: &[T]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the fixed value of a setting, or `None` if it depends on the call.
fn fixed_value(setting: Option<&Setting>, options: &Options, name: &str) -> Option<String> {
    let text = match setting {
        Some(Setting::Text(text)) => text.clone(),
        Some(Setting::Number(number)) => number.to_string(),
        Some(Setting::Bounded(_)) => return None,
        None => options.get(name)?.clone()?,
    };
    (!text.contains("{{") && !text.contains("{%")).then_some(text)
}

fn time(resources: &Resources, options: &Options) -> Option<Duration> {
    fixed_value(resources.time.as_ref(), options, "time").and_then(|time| amount::time(&time))
}

/// Checks that the partition that a tool always requests exists and allows its time limit.
fn check_partition(
    resources: &Resources,
    options: &Options,
    partitions: Option<&[Partition]>,
) -> Result<(), FaultAndFix> {
    let partition = fixed_value(resources.partition.as_ref(), options, "partition");
    let time = time(resources, options);
    for name in partition.iter().flat_map(|names| names.split(',')) {
        let Some(partitions) = partitions else { break };
        let Some(cluster_partition) = partitions.iter().find(|partition| partition.name == name) else {
            let names: Vec<&str> = partitions.iter().map(|partition| partition.name.as_str()).collect();
            return Err((
                format!("there is no partition `{name}`"),
                format!("choose one of {}", join_names(&names)),
            ));
        };
        if let Some((limit, time)) = cluster_partition.max_time.zip(time).filter(|(limit, time)| time > limit)
        {
            let message = format!(
                "the tool requests {} in the partition `{name}`, which allows {}",
                amount::time_in_words(time),
                amount::time_in_words(limit)
            );
            return Err((message, "request less time, or another partition".to_owned()));
        }
    }
    Ok(())
}

/// Checks that a user may use the account and quality of service that a tool always requests.
fn check_account(resources: &Resources, options: &Options, rights: &Rights) -> Result<(), FaultAndFix> {
    // The list is empty where the site does not let users see other users' accounts.
    if rights.accounts.is_empty() {
        return Ok(());
    }
    let account = fixed_value(resources.account.as_ref(), options, "account");
    if let Some(account) = account.as_ref().filter(|account| !rights.accounts.contains_key(*account)) {
        let names: Vec<&str> = rights.accounts.keys().map(String::as_str).collect();
        return Err((
            format!("this user has no account `{account}`"),
            format!("choose one of {}", join_names(&names)),
        ));
    }
    let Some(qos) = fixed_value(resources.qos.as_ref(), options, "qos") else { return Ok(()) };
    let Some(limit) = rights.qos.get(&qos) else {
        let names: Vec<&str> = rights.qos.keys().map(String::as_str).collect();
        return Err((
            format!("there is no quality of service `{qos}`"),
            format!("choose one of {}", join_names(&names)),
        ));
    };
    // Without an account, the default account applies, which is one of these.
    let is_applicable = |name: &str| account.as_ref().is_none_or(|account| account == name);
    let qos_lists: Vec<&Vec<String>> =
        rights.accounts.iter().filter(|(name, _)| is_applicable(name)).map(|(_, list)| list).collect();
    if !qos_lists.iter().any(|list| list.is_empty() || list.contains(&qos)) {
        let mut names: Vec<&str> = qos_lists.into_iter().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let message = match account {
            Some(account) => format!("the account `{account}` does not have the quality of service `{qos}`"),
            None => format!("no account of this user has the quality of service `{qos}`"),
        };
        return Err((
            message,
            format!("choose one of {}, or have it added (`sacctmgr`)", join_names(&names)),
        ));
    }
    if let Some((limit, time)) = limit.zip(time(resources, options)).filter(|(limit, time)| time > limit) {
        let message = format!(
            "the tool requests {} with the quality of service `{qos}`, which allows {}",
            amount::time_in_words(time),
            amount::time_in_words(limit)
        );
        return Err((message, "request less time, or another quality of service".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The quality of service must be allowed for the account, and its time limit must suffice.
    #[test]
    fn qos_is_checked_against_account() {
        let mut rights = Rights::default();
        for (name, minutes) in [("normal", None), ("fast", Some(1)), ("gold", None)] {
            rights.qos.insert(name.to_owned(), minutes.map(Duration::from_mins));
        }
        rights.accounts.insert("lab".to_owned(), ["fast", "normal"].map(str::to_owned).to_vec());
        rights.accounts.insert("other".to_owned(), vec!["gold".to_owned()]);
        let problem = |resources: Value| {
            let resources: Resources = serde_json::from_value(resources).unwrap();
            check_account(&resources, &Options::new(), &rights).err().map(|(message, _)| message)
        };
        for (resources, part) in [
            (json!({"account": "none"}), "no account `none`"),
            (json!({"qos": "silver"}), "no quality of service `silver`"),
            (json!({"qos": "gold", "account": "lab"}), "the account `lab` does not have"),
            (json!({"qos": "fast", "account": "lab", "time": "2"}), "`fast`, which allows 00:01:00"),
        ] {
            let said = problem(resources.clone());
            assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{resources}: {said:?}");
        }
        for resources in [
            json!({"qos": "gold"}),
            json!({"qos": "fast", "account": "lab", "time": "1"}),
            json!({"qos": {"value": "{{ q }}", "allowed": ["silver"]}}),
        ] {
            assert_eq!(problem(resources.clone()), None, "{resources}");
        }
    }
}
