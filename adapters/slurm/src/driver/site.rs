//! The partitions, accounts and qualities of service of a cluster, parsed from the output of scontrol,
//! sacctmgr and slurmrestd. Pure: it must not run anything.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::amount;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) name: String,
    /// Whether the partition accepts and starts jobs.
    pub(crate) up: bool,
    pub(crate) default: bool,
    /// Maximum run time of a job; `None` for no limit.
    pub(crate) max_time: Option<Duration>,
}

/// What the accounting database permits a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The user's accounts, each with its qualities of service.
    pub(crate) accounts: BTreeMap<String, Vec<String>>,
    /// All qualities of service, with the maximum run time of a job.
    pub(crate) qos: BTreeMap<String, Option<Duration>>,
}

/// Parses the output of `scontrol --oneliner show partition`.
pub(crate) fn partitions(text: &str) -> Vec<Partition> {
    let partition = |line: &str| {
        let fields: BTreeMap<&str, &str> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        Some(Partition {
            name: (*fields.get("PartitionName")?).to_owned(),
            up: fields.get("State") == Some(&"UP"),
            default: fields.get("Default") == Some(&"YES"),
            max_time: fields.get("MaxTime").and_then(|time| limit(time)),
        })
    };
    text.lines().filter_map(partition).collect()
}

/// Parses the output of `sacctmgr --parsable2 show associations` (user, account and qualities of service) and
/// of `show qos` (name and limit). Without a user, includes the accounts of all users.
pub(crate) fn rights(associations: &str, qos: &str, user: Option<&str>) -> Rights {
    let mut rights = Rights::default();
    for line in associations.lines() {
        let mut fields = line.split('|');
        let (Some(whose), Some(account), Some(qos)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if !whose.is_empty() && user.is_none_or(|user| user == whose) {
            let known = rights.accounts.entry(account.to_owned()).or_default();
            known.extend(qos.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    for (name, time) in qos.lines().filter_map(|line| line.split_once('|')) {
        rights.qos.insert(name.to_owned(), limit(time.split('|').next().unwrap_or_default()));
    }
    rights
}

fn limit(text: &str) -> Option<Duration> {
    if text == "UNLIMITED" || text.is_empty() { None } else { amount::time(text) }
}

/// Parses slurmrestd's partitions.
pub(crate) fn partitions_of(body: &Value) -> Vec<Partition> {
    let partition = |told: &Value| {
        // Newer versions group related fields in nested objects.
        let state = told["state"].as_str().or(told["partition"]["state"][0].as_str()).unwrap_or("UP");
        let time = number(&told["max_time_limit"]).or_else(|| number(&told["maximums"]["time"]));
        Some(Partition {
            name: told["name"].as_str()?.to_owned(),
            up: state == "UP",
            default: told["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "default")),
            max_time: time.map(|minutes| Duration::from_secs(minutes * 60)),
        })
    };
    body["partitions"].as_array().into_iter().flatten().filter_map(partition).collect()
}

/// Parses slurmrestd's associations and qualities of service.
pub(crate) fn rights_of(associations: &Value, qos: &Value, user: Option<&str>) -> Rights {
    let mut rights = Rights::default();
    for told in associations["associations"].as_array().into_iter().flatten() {
        let (whose, account) = (told["user"].as_str().unwrap_or_default(), told["account"].as_str());
        if let Some(account) = account.filter(|_| !whose.is_empty() && user.is_none_or(|user| user == whose))
        {
            let qos = told["qos"].as_array().into_iter().flatten().filter_map(Value::as_str);
            rights.accounts.entry(account.to_owned()).or_default().extend(qos.map(str::to_owned));
        }
    }
    for told in qos["QOS"].as_array().or(qos["qos"].as_array()).into_iter().flatten() {
        if let Some(name) = told["name"].as_str() {
            let minutes = number(&told["limits"]["max"]["wall_clock"]["per"]["job"]);
            rights.qos.insert(name.to_owned(), minutes.map(|minutes| Duration::from_secs(minutes * 60)));
        }
    }
    rights
}

/// Parses a number of minutes. Returns `None` for no limit.
fn number(value: &Value) -> Option<u64> {
    let set = value["infinite"] != true && value["set"] != false;
    value
        .as_u64()
        .or_else(|| value["number"].as_u64().filter(|_| set))
        .filter(|minutes| *minutes < u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The output of `scontrol` and the response of slurmrestd are read alike.
    #[test]
    fn partitions_of_22_05_parse() {
        let text = "\
PartitionName=main AllowGroups=ALL Default=YES QoS=N/A DefaultTime=01:00:00 MaxTime=1-00:00:00 Nodes=vm State=UP TotalCPUs=64
PartitionName=closed AllowGroups=ALL Default=NO QoS=N/A DefaultTime=NONE MaxTime=UNLIMITED Nodes=vm State=DOWN TotalCPUs=64
";
        let day = Some(Duration::from_hours(24));
        let wanted = [
            Partition { name: "main".to_owned(), up: true, default: true, max_time: day },
            Partition { name: "closed".to_owned(), up: false, default: false, max_time: None },
        ];
        assert_eq!(partitions(text), wanted);
        let told = json!({"partitions": [
            {"name": "main", "state": "UP", "flags": ["default"], "max_time_limit": 1440},
            {"name": "closed", "state": "DOWN", "flags": [], "max_time_limit": null},
        ]});
        assert_eq!(partitions_of(&told), wanted);
    }

    #[test]
    fn rights_are_those_of_the_user() {
        let qos = "normal|\nfast|00:01:00\n";
        let read = rights("ann|lab|fast,normal\nbob|other|normal\n|lab|\n", qos, Some("ann"));
        assert_eq!(read.accounts, [("lab".to_owned(), vec!["fast".to_owned(), "normal".to_owned()])].into());
        assert_eq!(read.qos["fast"], Some(Duration::from_mins(1)));
        assert_eq!(rights("ann|lab|\nbob|other|\n", "", None).accounts.len(), 2);
        let told = rights_of(
            &json!({"associations": [{"user": "ann", "account": "lab", "qos": ["fast", "normal"]}, {"user": "", "account": "x"}]}),
            &json!({"QOS": [
                {"name": "normal", "limits": {"max": {"wall_clock": {"per": {"job": null}}}}},
                {"name": "fast", "limits": {"max": {"wall_clock": {"per": {"job": 1}}}}},
            ]}),
            Some("ann"),
        );
        assert_eq!(told, read);
    }
}
