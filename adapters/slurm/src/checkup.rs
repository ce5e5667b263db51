//! Findings for `taskbridge doctor`: whether the jobs folder, the controller and the accounting database
//! work, and whether the scripts, partitions and accounts of all targets exist. It must not submit or change
//! anything.

use std::time::Duration;

use rustix::fs::{Access, access};
use serde::Deserialize as _;
use taskbridge_sdk::{Checkup, Error, Finding, ToolTarget, async_trait};

use crate::amount;
use crate::backend::Slurm;
use crate::config::{Resources, Setting, Target};
use crate::driver::site::{Partition, Rights};
use crate::driver::{Options, Submission};
use crate::job_request::read_script;
use crate::{directives, disk};

#[async_trait]
impl Checkup for Slurm {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        self.look_over(tools, None).await
    }
}

/// A fault and its fix.
type Wrong = (String, String);

/// The rights of a user. `None` is our own user.
type UserRights<'a> = (Option<&'a str>, Rights);

impl Slurm {
    /// Checks everything. Checks the tools as each of these users, or as our own user.
    pub(crate) async fn look_over(&self, tools: &[ToolTarget], users: Option<&[&str]>) -> Vec<Finding> {
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
        found.extend(self.scripts_that_are_no_tools().await);
        let whose = match (self.accounting_is_there(&mut found).await, users) {
            (None, _) => Vec::new(),
            (Some(rights), None) => vec![(None, rights)],
            (Some(_), Some(users)) => self.rights_of(users, &mut found).await,
        };
        for tool in tools {
            found.push(self.tool(tool, partitions.as_deref(), &whose).await);
        }
        found
    }

    async fn rights_of<'a>(&self, users: &[&'a str], found: &mut Vec<Finding>) -> Vec<UserRights<'a>> {
        let mut whose = Vec::with_capacity(users.len());
        for user in users {
            match self.driver.rights(Some(user)).await {
                Ok(rights) => whose.push((Some(*user), rights)),
                Err(error) => found.push(Finding::warning(
                    format!("what the user {user} may use"),
                    error.to_string(),
                    "see that slurmdbd runs, and that the server's user may ask it for others",
                )),
            }
        }
        whose
    }

    async fn folder_for_jobs(&self) -> Finding {
        let jobs = self.jobs.clone();
        let look = move || {
            disk::enter_path(&jobs);
            access(&jobs, Access::WRITE_OK | Access::EXEC_OK)
        };
        let looked = self.disks.jobs.run(look).await;
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

    /// Checks whether we may act as this user, by a call that changes nothing.
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

    /// Returns our rights in the accounting database, if it is there and answers.
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
        match self.driver.rights(None).await {
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
        whose: &[UserRights<'_>],
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
        let read = move || {
            disk::enter_path(&path);
            read_script(&path)
        };
        let read = self.disks.sources.run(read).await;
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
        let of_user = |(user, rights): &UserRights<'_>| {
            let (says, fix) = may_use(&target.resources, &options, rights).err()?;
            Some((user.map_or_else(|| says.clone(), |user| format!("as the user {user}: {says}")), fix))
        };
        let wrong = asked(&target.resources, &options, partitions).err();
        let wrong = match wrong.or_else(|| whose.iter().find_map(of_user)) {
            None => self.never_fits(&target, options).await,
            wrong => wrong,
        };
        match wrong {
            None => Finding::ok(what, format!("it submits {shown}")),
            Some((says, fix)) => Finding::fault(what, says, fix),
        }
    }

    /// Checks whether no node could ever run what the tool always requests. Values that depend on a call are
    /// left out.
    async fn never_fits(&self, target: &Target, mut options: Options) -> Option<Wrong> {
        for (name, value) in &target.options {
            directives::put(&mut options, name, Some(value.clone()).filter(|value| !value.is_empty()));
        }
        for (_, name, _, setting) in target.resources.each() {
            if let Some(setting) = setting {
                options.remove(name);
                if let Some(value) = fixed(Some(setting), &options, name) {
                    directives::put(&mut options, name, Some(value));
                }
            }
        }
        let order = Submission {
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
        let words = self.driver.never_fits(&order).await.ok().flatten()?;
        let says = format!("no node could ever run its jobs: {words} (Slurm)");
        Some((says, "have it ask for less, or for another partition".to_owned()))
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

/// Returns the fixed value of a setting, or `None` if it depends on the call.
fn fixed(setting: Option<&Setting>, options: &Options, name: &str) -> Option<String> {
    let text = match setting {
        Some(Setting::Text(text)) => text.clone(),
        Some(Setting::Number(number)) => number.to_string(),
        Some(Setting::Bounded(_)) => return None,
        None => options.get(name)?.clone()?,
    };
    (!text.contains("{{") && !text.contains("{%")).then_some(text)
}

fn time(resources: &Resources, options: &Options) -> Option<Duration> {
    fixed(resources.time.as_ref(), options, "time").and_then(|time| amount::time(&time))
}

/// Checks that the partition that a tool always requests exists and allows its time limit.
fn asked(resources: &Resources, options: &Options, partitions: Option<&[Partition]>) -> Result<(), Wrong> {
    let partition = fixed(resources.partition.as_ref(), options, "partition");
    let time = time(resources, options);
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
    Ok(())
}

/// Checks that a user may use the account and quality of service that a tool always requests.
fn may_use(resources: &Resources, options: &Options, rights: &Rights) -> Result<(), Wrong> {
    // The list is empty where the site does not let users see other users' accounts.
    if rights.accounts.is_empty() {
        return Ok(());
    }
    let account = fixed(resources.account.as_ref(), options, "account");
    if let Some(account) = account.as_ref().filter(|account| !rights.accounts.contains_key(*account)) {
        let names: Vec<&str> = rights.accounts.keys().map(String::as_str).collect();
        return Err((
            format!("this user has no account `{account}`"),
            format!("choose one of {}", listed(&names)),
        ));
    }
    let Some(qos) = fixed(resources.qos.as_ref(), options, "qos") else { return Ok(()) };
    let Some(limit) = rights.qos.get(&qos) else {
        let names: Vec<&str> = rights.qos.keys().map(String::as_str).collect();
        return Err((
            format!("there is no quality of service `{qos}`"),
            format!("choose one of {}", listed(&names)),
        ));
    };
    // Without an account, the default account applies, which is one of these.
    let mine = |name: &str| account.as_ref().is_none_or(|account| account == name);
    let lists: Vec<&Vec<String>> =
        rights.accounts.iter().filter(|(name, _)| mine(name)).map(|(_, list)| list).collect();
    if !lists.iter().any(|list| list.is_empty() || list.contains(&qos)) {
        let mut names: Vec<&str> = lists.into_iter().flatten().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let says = match account {
            Some(account) => format!("the account `{account}` does not have the quality of service `{qos}`"),
            None => format!("no account of this user has the quality of service `{qos}`"),
        };
        return Err((says, format!("choose one of {}, or have it added (`sacctmgr`)", listed(&names))));
    }
    if let Some((limit, time)) = limit.zip(time(resources, options)).filter(|(limit, time)| time > limit) {
        let says = format!(
            "it asks for {} with the quality of service `{qos}`, which allows {}",
            amount::time_in_words(time),
            amount::time_in_words(limit)
        );
        return Err((says, "ask for less time, or for another quality of service".to_owned()));
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
        let says = |resources: Value| {
            let resources: Resources = serde_json::from_value(resources).unwrap();
            may_use(&resources, &Options::new(), &rights).err().map(|(says, _)| says)
        };
        for (resources, part) in [
            (json!({"account": "none"}), "no account `none`"),
            (json!({"qos": "silver"}), "no quality of service `silver`"),
            (json!({"qos": "gold", "account": "lab"}), "the account `lab` does not have"),
            (json!({"qos": "fast", "account": "lab", "time": "2"}), "`fast`, which allows 00:01:00"),
        ] {
            let said = says(resources.clone());
            assert!(said.as_ref().is_some_and(|said| said.contains(part)), "{resources}: {said:?}");
        }
        for resources in [
            json!({"qos": "gold"}),
            json!({"qos": "fast", "account": "lab", "time": "1"}),
            json!({"qos": {"value": "{{ q }}", "allowed": ["silver"]}}),
        ] {
            assert_eq!(says(resources.clone()), None, "{resources}");
        }
    }
}
