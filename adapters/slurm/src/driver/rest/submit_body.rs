//! Builds the body of a submission for slurmrestd. Pure. An option without a field is refused, not omitted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, Result};

use crate::driver::Submission;
use crate::notation::amount;

/// The format of a value.
#[derive(Clone, Copy)]
enum OptionFormat {
    Text,
    Number,
    /// A time as sbatch accepts it; in one version as seconds since 1970.
    Timestamp,
    /// `1-02:00:00`, in newer versions in minutes.
    Minutes,
    /// `4G`, in newer versions in megabytes.
    Megabytes,
    /// A number of nodes or a range.
    Range,
    /// An option without a value.
    Flag,
    /// Whether other jobs may share the nodes, as a value of `exclusive` or of `shared`.
    Exclusive,
    Shared,
    /// `2` or `a100:2`, as a generic resource per job, node or task.
    Gpus,
    /// `4G` for each GPU.
    MegabytesPerGpu,
    /// `gpu:2,shard:1`
    Gres,
    /// What happens to a job that can never begin, as one of several flags.
    KillOnInvalidDependency,
    /// `BEGIN,TIME_LIMIT_80`, as a list with slurmrestd's own names.
    MailEvents,
}

/// The options of sbatch that have a field in slurmrestd.
const FIELDS: [(&str, &str, OptionFormat); 30] = [
    ("account", "account", OptionFormat::Text),
    ("array", "array", OptionFormat::Text),
    ("begin", "begin_time", OptionFormat::Timestamp),
    ("constraint", "constraints", OptionFormat::Text),
    ("cpus-per-gpu", "cpus_per_gpu", OptionFormat::Text),
    ("cpus-per-task", "cpus_per_task", OptionFormat::Number),
    ("deadline", "deadline", OptionFormat::Timestamp),
    ("dependency", "dependency", OptionFormat::Text),
    ("distribution", "distribution", OptionFormat::Text),
    ("exclusive", "exclusive", OptionFormat::Exclusive),
    ("gpus", "gpus", OptionFormat::Text),
    ("gpus-per-node", "gpus_per_node", OptionFormat::Text),
    ("gpus-per-task", "gpus_per_task", OptionFormat::Text),
    ("gres", "gres", OptionFormat::Text),
    ("kill-on-invalid-dep", "kill_on_invalid_dependency", OptionFormat::Flag),
    ("licenses", "licenses", OptionFormat::Text),
    ("mail-type", "mail_type", OptionFormat::Text),
    ("mail-user", "mail_user", OptionFormat::Text),
    ("mem", "memory_per_node", OptionFormat::Megabytes),
    ("mem-per-cpu", "memory_per_cpu", OptionFormat::Megabytes),
    ("mem-per-gpu", "memory_per_gpu", OptionFormat::Megabytes),
    ("nice", "nice", OptionFormat::Number),
    ("nodes", "nodes", OptionFormat::Range),
    ("ntasks", "tasks", OptionFormat::Number),
    ("ntasks-per-node", "tasks_per_node", OptionFormat::Number),
    ("partition", "partition", OptionFormat::Text),
    ("qos", "qos", OptionFormat::Text),
    ("reservation", "reservation", OptionFormat::Text),
    ("time", "time_limit", OptionFormat::Minutes),
    ("time-min", "time_minimum", OptionFormat::Minutes),
];

/// Fields that differ from version [`DATA_PARSER_SINCE`] on. Version 0.0.39 ignores an unknown field
/// silently, later versions with a warning (`JOB_DESC_MSG` in `data_parser`).
const DATA_PARSER_FIELDS: [(&str, &str, OptionFormat); 9] = [
    ("cpus-per-gpu", "cpus_per_tres", OptionFormat::Gpus),
    ("exclusive", "shared", OptionFormat::Shared),
    ("gpus", "tres_per_job", OptionFormat::Gpus),
    ("gpus-per-node", "tres_per_node", OptionFormat::Gpus),
    ("gpus-per-task", "tres_per_task", OptionFormat::Gpus),
    ("gres", "tres_per_node", OptionFormat::Gres),
    ("kill-on-invalid-dep", "flags", OptionFormat::KillOnInvalidDependency),
    ("mail-type", "mail_type", OptionFormat::MailEvents),
    ("mem-per-gpu", "memory_per_tres", OptionFormat::MegabytesPerGpu),
];

/// From this version on, slurmrestd has its own parsers for a job's description, instead of sbatch's options.
/// Numbers that can be unset are objects, and the environment is a list.
const DATA_PARSER_SINCE: u32 = 39;

/// The only version that accepts times only as numbers, and names resources `gres:gpu` instead of `gres/gpu`.
const FIRST_DATA_PARSER: u32 = 39;

/// From this version on, the field for the distribution of tasks exists again.
const DISTRIBUTION_SINCE: u32 = 41;

/// Returns the field of an option, if this version has one.
fn field(option: &str, version: u32) -> Option<(&'static str, OptionFormat)> {
    if option == "distribution" && (DATA_PARSER_SINCE..DISTRIBUTION_SINCE).contains(&version) {
        return None;
    }
    let newer_fields = DATA_PARSER_FIELDS.iter().filter(|_| version >= DATA_PARSER_SINCE);
    let entry = newer_fields.chain(&FIELDS).find(|(name, _, _)| *name == option);
    entry.map(|(_, field, kind)| (*field, *kind))
}

/// The `PATH` of a batch script. Nothing of the server's environment is sent.
pub(super) const SCRIPT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the body of a submission.
pub(super) fn build(
    submission: &Submission,
    version: u32,
    environment: &BTreeMap<&'static str, String>,
) -> Result<Value> {
    let mut job = Map::new();
    for (name, value) in &submission.options {
        let Some((field, kind)) = field(name, version) else {
            return Err(Error::rejected(format!(
                "slurmrestd does not support the option `{name}`: remove the option, or use Slurm's commands instead of `rest`"
            )));
        };
        let value = format_value(name, value.as_deref().unwrap_or_default(), kind, version)?;
        match (job.get_mut(field), value) {
            // Two options can request resources in the same field.
            (Some(Value::String(existing)), Value::String(value)) => {
                existing.push(',');
                existing.push_str(&value);
            }
            (_, value) => drop(job.insert(field.to_owned(), value)),
        }
    }
    // The environment must not be empty.
    let environment = match version >= DATA_PARSER_SINCE {
        true => json!(environment.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()),
        false => json!(environment),
    };
    let fixed_fields = json!({
        "name": submission.name,
        "comment": submission.comment,
        "hold": true,
        "requeue": submission.requeue,
        "standard_output": submission.output,
        "standard_error": submission.error,
        "current_working_directory": submission.working_dir,
        "open_mode": if version >= DATA_PARSER_SINCE { json!(["APPEND"]) } else { json!("append") },
        "environment": environment,
    });
    // The adapter's own fields override the options.
    job.extend(fixed_fields.as_object().cloned().unwrap_or_default());
    Ok(json!({"script": submission.script, "job": job}))
}

fn format_value(name: &str, value: &str, kind: OptionFormat, version: u32) -> Result<Value> {
    let invalid = || Error::rejected(format!("`{name}` cannot be `{value}`"));
    let number = |number: u64| match version >= DATA_PARSER_SINCE {
        true => json!({"set": true, "infinite": false, "number": number}),
        false => json!(number),
    };
    let megabytes = || Ok::<_, Error>(amount::size(value).ok_or_else(invalid)?.div_ceil(1 << 20));
    let gres = if version > FIRST_DATA_PARSER { "gres/" } else { "gres:" };
    Ok(match kind {
        OptionFormat::Text => json!(value),
        OptionFormat::Number => json!(value.parse::<i64>().map_err(|_| invalid())?),
        OptionFormat::Timestamp if version == FIRST_DATA_PARSER => {
            json!(value.parse::<i64>().map_err(|_| invalid())?)
        }
        OptionFormat::Timestamp => json!(value),
        OptionFormat::Flag => json!(!is_no(value)),
        OptionFormat::Exclusive => json!(if value.is_empty() { "exclusive" } else { value }),
        OptionFormat::Shared => json!([if matches!(value, "" | "exclusive") { "none" } else { value }]),
        OptionFormat::KillOnInvalidDependency if is_no(value) => json!(["NO_KILL_INVALID_DEPENDENCY"]),
        OptionFormat::KillOnInvalidDependency => json!(["KILL_INVALID_DEPENDENCY"]),
        OptionFormat::MailEvents => json!(mail_events(value)),
        OptionFormat::Gpus => json!(with_prefix(&format!("{gres}gpu:"), value)),
        OptionFormat::MegabytesPerGpu => json!(format!("{gres}gpu:{}", megabytes()?)),
        OptionFormat::Gres => json!(with_prefix(gres, value)),
        OptionFormat::Range => {
            let (min, max) = value.split_once('-').unwrap_or((value, value));
            let nodes = [min, max].map(str::parse::<u32>);
            match (nodes, version >= DATA_PARSER_SINCE) {
                ([Ok(min), Ok(max)], false) => json!([min, max]),
                ([Ok(_), Ok(_)], true) => json!(value),
                _ => return Err(invalid()),
            }
        }
        OptionFormat::Minutes => {
            let minutes = amount::time(value).ok_or_else(invalid)?;
            number(minutes.max(Duration::from_mins(1)).as_secs().div_ceil(60))
        }
        OptionFormat::Megabytes => number(megabytes()?),
    })
}

fn is_no(value: &str) -> bool {
    matches!(value, "no" | "false")
}

/// Puts the prefix before each resource of a list, as sbatch writes them.
fn with_prefix(prefix: &str, value: &str) -> String {
    let one = |part: &str| {
        let name = part.strip_prefix("gres:").or_else(|| part.strip_prefix("gres/")).unwrap_or(part);
        format!("{prefix}{name}")
    };
    value.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// Converts the events of `mail-type` to slurmrestd's names.
fn mail_events(value: &str) -> Vec<String> {
    let event = |event: &str| match event.to_uppercase().as_str() {
        "NONE" | "" => Vec::new(),
        "ALL" => {
            ["BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY"].map(str::to_owned).to_vec()
        }
        "INVALID_DEPEND" => vec!["INVALID_DEPENDENCY".to_owned()],
        "TIME_LIMIT" => vec!["TIME=100%".to_owned()],
        other => vec![match other.strip_prefix("TIME_LIMIT_") {
            Some(part) => format!("TIME={part}%"),
            None => other.to_owned(),
        }],
    };
    value.split(',').flat_map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_body(submission: &Submission, version: u32) -> Result<Value> {
        let environment =
            [("HOME", "/home/lab"), ("PATH", SCRIPT_PATH)].map(|(name, value)| (name, value.to_owned()));
        super::build(submission, version, &environment.into())
    }

    fn submission_with(options: &[(&str, &str)]) -> Submission {
        Submission {
            name: "tb-a".to_owned(),
            comment: "c".to_owned(),
            script: "#!/bin/sh\n".to_owned(),
            output: "/j/out".to_owned(),
            error: "/j/err".to_owned(),
            working_dir: "/w".to_owned(),
            requeue: false,
            options: options
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
                .collect(),
        }
    }

    /// Options become fields of the submission, and the fields that this server sets win.
    #[test]
    fn rest_submission_overrides_caller_options() {
        let options = [
            ("time", "1-00:30:00"),
            ("mem", "1G"),
            ("nodes", "2-4"),
            ("cpus-per-task", "3"),
            ("partition", "main"),
        ];
        let old = build_body(&submission_with(&options), 38).unwrap();
        let job = &old["job"];
        assert_eq!((&job["time_limit"], &job["memory_per_node"]), (&json!(1470), &json!(1024)));
        assert_eq!(
            (&job["nodes"], &job["cpus_per_task"], &job["hold"]),
            (&json!([2, 4]), &json!(3), &json!(true))
        );
        assert_eq!(
            (&job["environment"], &old["script"]),
            (&json!({"HOME": "/home/lab", "PATH": SCRIPT_PATH}), &json!("#!/bin/sh\n"))
        );
        let new = build_body(&submission_with(&options), 40).unwrap();
        assert_eq!(new["job"]["time_limit"], json!({"set": true, "infinite": false, "number": 1470}));
        assert_eq!(
            new["job"]["environment"],
            json!(["HOME=/home/lab".to_owned(), format!("PATH={SCRIPT_PATH}")])
        );
    }

    /// The fields come from `JOB_DESC_MSG` in Slurm's source. The values are those that sbatch of the same
    /// version writes.
    #[test]
    fn resources_fit_each_api_version() {
        let options = [
            ("gpus", "a100:2"),
            ("gpus-per-node", "1"),
            ("gpus-per-task", "1"),
            ("gres", "shard:1,gres:lane:2"),
            ("cpus-per-gpu", "4"),
            ("mem-per-gpu", "2G"),
            ("exclusive", ""),
            ("kill-on-invalid-dep", "yes"),
            ("mail-type", "END,TIME_LIMIT_80"),
            ("begin", "1795340000"),
        ];
        let old = &build_body(&submission_with(&options), 38).unwrap()["job"];
        assert_eq!((&old["gpus"], &old["exclusive"]), (&json!("a100:2"), &json!("exclusive")));
        assert_eq!(
            (&old["kill_on_invalid_dependency"], &old["begin_time"]),
            (&json!(true), &json!("1795340000"))
        );
        for (version, gres, begin) in [
            (39, "gres:", json!(1_795_340_000)),
            (40, "gres/", json!("1795340000")),
            (45, "gres/", json!("1795340000")),
        ] {
            let body = build_body(&submission_with(&options), version).unwrap();
            let job = body["job"].as_object().unwrap();
            for (name, expected) in [
                ("tres_per_job", json!(format!("{gres}gpu:a100:2"))),
                ("tres_per_node", json!(format!("{gres}gpu:1,{gres}shard:1,{gres}lane:2"))),
                ("tres_per_task", json!(format!("{gres}gpu:1"))),
                ("cpus_per_tres", json!(format!("{gres}gpu:4"))),
                ("memory_per_tres", json!(format!("{gres}gpu:2048"))),
                ("shared", json!(["none"])),
                ("flags", json!(["KILL_INVALID_DEPENDENCY"])),
                ("mail_type", json!(["END", "TIME=80%"])),
                ("begin_time", begin),
            ] {
                assert_eq!(job[name], expected, "{name} of {version}");
            }
            let is_removed = |name: &&str| {
                name.starts_with("gpus") || ["gres", "exclusive", "cpus_per_gpu"].contains(name)
            };
            assert_eq!(job.keys().map(String::as_str).filter(is_removed).count(), 0, "{version}: {job:?}");
        }
        let exclusive = |value, version| {
            build_body(&submission_with(&[("exclusive", value)]), version).unwrap()["job"].clone()
        };
        assert_eq!(exclusive("user", 43)["shared"], json!(["user"]));
        let distribution = [("distribution", "block")];
        assert!(
            build_body(&submission_with(&distribution), 40).is_err()
                && build_body(&submission_with(&distribution), 41).is_ok()
        );
    }

    #[test]
    fn inexpressible_option_is_refused() {
        for (name, value) in
            [("uid", "0"), ("cpus-per-task", "many"), ("time", "soon"), ("mem", "much"), ("nodes", "a-b")]
        {
            let error = build_body(&submission_with(&[(name, value)]), 38).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
