//! The partitions, accounts and qualities of service of a cluster, parsed from the output of scontrol,
//! sacctmgr and slurmrestd. Pure: it must not run anything.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::notation::amount;

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
            max_time: fields.get("MaxTime").and_then(|time| parse_limit(time)),
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
        let (Some(association_user), Some(account), Some(qos)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if !association_user.is_empty() && user.is_none_or(|user| user == association_user) {
            let account_qos = rights.accounts.entry(account.to_owned()).or_default();
            account_qos.extend(qos.split(',').filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    for (name, time) in qos.lines().filter_map(|line| line.split_once('|')) {
        rights.qos.insert(name.to_owned(), parse_limit(time.split('|').next().unwrap_or_default()));
    }
    rights
}

fn parse_limit(text: &str) -> Option<Duration> {
    if text == "UNLIMITED" || text.is_empty() { None } else { amount::time(text) }
}

/// Parses slurmrestd's partitions.
pub(crate) fn partitions_from_json(body: &Value) -> Vec<Partition> {
    let partition = |value: &Value| {
        // Newer versions group related fields in nested objects.
        let state = value["state"].as_str().or(value["partition"]["state"][0].as_str()).unwrap_or("UP");
        let time =
            limit_minutes(&value["max_time_limit"]).or_else(|| limit_minutes(&value["maximums"]["time"]));
        Some(Partition {
            name: value["name"].as_str()?.to_owned(),
            up: state == "UP",
            default: value["flags"]
                .as_array()
                .is_some_and(|flags| flags.iter().any(|flag| flag == "default")),
            max_time: time.map(|minutes| Duration::from_secs(minutes * 60)),
        })
    };
    body["partitions"].as_array().into_iter().flatten().filter_map(partition).collect()
}

/// Parses slurmrestd's associations and qualities of service.
pub(crate) fn rights_from_json(associations: &Value, qos: &Value, user: Option<&str>) -> Rights {
    let mut rights = Rights::default();
    for association in associations["associations"].as_array().into_iter().flatten() {
        let (association_user, account) =
            (association["user"].as_str().unwrap_or_default(), association["account"].as_str());
        if let Some(account) = account
            .filter(|_| !association_user.is_empty() && user.is_none_or(|user| user == association_user))
        {
            let qos = association["qos"].as_array().into_iter().flatten().filter_map(Value::as_str);
            rights.accounts.entry(account.to_owned()).or_default().extend(qos.map(str::to_owned));
        }
    }
    for qos_entry in qos["QOS"].as_array().or(qos["qos"].as_array()).into_iter().flatten() {
        if let Some(name) = qos_entry["name"].as_str() {
            let minutes = limit_minutes(&qos_entry["limits"]["max"]["wall_clock"]["per"]["job"]);
            rights.qos.insert(name.to_owned(), minutes.map(|minutes| Duration::from_secs(minutes * 60)));
        }
    }
    rights
}

/// Parses a number of minutes. Returns `None` for no limit.
fn limit_minutes(value: &Value) -> Option<u64> {
    let is_set = value["infinite"] != true && value["set"] != false;
    value
        .as_u64()
        .or_else(|| value["number"].as_u64().filter(|_| is_set))
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
        let expected = [
            Partition { name: "main".to_owned(), up: true, default: true, max_time: day },
            Partition { name: "closed".to_owned(), up: false, default: false, max_time: None },
        ];
        assert_eq!(partitions(text), expected);
        let response = json!({"partitions": [
            {"name": "main", "state": "UP", "flags": ["default"], "max_time_limit": 1440},
            {"name": "closed", "state": "DOWN", "flags": [], "max_time_limit": null},
        ]});
        assert_eq!(partitions_from_json(&response), expected);
    }

    #[test]
    fn rights_are_those_of_the_user() {
        let qos = "normal|\nfast|00:01:00\n";
        let from_text = rights("ann|lab|fast,normal\nbob|other|normal\n|lab|\n", qos, Some("ann"));
        assert_eq!(
            from_text.accounts,
            [("lab".to_owned(), vec!["fast".to_owned(), "normal".to_owned()])].into()
        );
        assert_eq!(from_text.qos["fast"], Some(Duration::from_mins(1)));
        assert_eq!(rights("ann|lab|\nbob|other|\n", "", None).accounts.len(), 2);
        let from_json = rights_from_json(
            &json!({"associations": [{"user": "ann", "account": "lab", "qos": ["fast", "normal"]}, {"user": "", "account": "x"}]}),
            &json!({"QOS": [
                {"name": "normal", "limits": {"max": {"wall_clock": {"per": {"job": null}}}}},
                {"name": "fast", "limits": {"max": {"wall_clock": {"per": {"job": 1}}}}},
            ]}),
            Some("ann"),
        );
        assert_eq!(from_json, from_text);
    }
}
