//! A submission as slurmrestd takes it. Pure. What has no field there is refused, and not left out.

use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, Result};

use crate::amount;
use crate::driver::Submission;

/// How a value is written.
#[derive(Clone, Copy)]
enum As {
    Text,
    Number,
    /// `1-02:00:00`, in newer versions as minutes.
    Minutes,
    /// `4G`, in newer versions as megabytes.
    Megabytes,
    /// Nodes are a range.
    Range,
    /// An option without a value.
    Flag,
}

/// The options of sbatch that slurmrestd has a field for.
const FIELDS: [(&str, &str, As); 30] = [
    ("account", "account", As::Text),
    ("array", "array", As::Text),
    ("begin", "begin_time", As::Number),
    ("constraint", "constraints", As::Text),
    ("cpus-per-gpu", "cpus_per_gpu", As::Text),
    ("cpus-per-task", "cpus_per_task", As::Number),
    ("deadline", "deadline", As::Text),
    ("dependency", "dependency", As::Text),
    ("distribution", "distribution", As::Text),
    ("exclusive", "exclusive", As::Flag),
    ("gpus", "gpus", As::Text),
    ("gpus-per-node", "gpus_per_node", As::Text),
    ("gpus-per-task", "gpus_per_task", As::Text),
    ("gres", "gres", As::Text),
    ("kill-on-invalid-dep", "kill_on_invalid_dependency", As::Flag),
    ("licenses", "licenses", As::Text),
    ("mail-type", "mail_type", As::Text),
    ("mail-user", "mail_user", As::Text),
    ("mem", "memory_per_node", As::Megabytes),
    ("mem-per-cpu", "memory_per_cpu", As::Megabytes),
    ("mem-per-gpu", "memory_per_gpu", As::Megabytes),
    ("nice", "nice", As::Number),
    ("nodes", "nodes", As::Range),
    ("ntasks", "tasks", As::Number),
    ("ntasks-per-node", "tasks_per_node", As::Number),
    ("partition", "partition", As::Text),
    ("qos", "qos", As::Text),
    ("reservation", "reservation", As::Text),
    ("time", "time_limit", As::Minutes),
    ("time-min", "time_minimum", As::Minutes),
];

/// From this version on, numbers that can be unset are objects, and the environment is a list.
const OBJECTS: u32 = 39;

/// The environment of the batch script before Slurm adds its own: nothing of the server's. There must be something.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The body of a submission.
pub(super) fn submission(order: &Submission, version: u32) -> Result<Value> {
    let mut job = Map::new();
    for (name, value) in &order.options {
        let field = FIELDS.iter().find(|(option, _, _)| option == name);
        let Some((_, field, kind)) = field else {
            return Err(Error::rejected(format!(
                "slurmrestd takes no option `{name}`: leave it out, or let this backend run Slurm's commands"
            )));
        };
        let value = written(name, value.as_deref().unwrap_or_default(), *kind, version)?;
        job.insert((*field).to_owned(), value);
    }
    let path = match version >= OBJECTS {
        true => json!([format!("PATH={PATH}")]),
        false => json!({"PATH": PATH}),
    };
    let ours = json!({
        "name": order.name,
        "comment": order.comment,
        "hold": true,
        "requeue": order.requeue,
        "standard_output": order.output,
        "standard_error": order.error,
        "current_working_directory": order.working_dir,
        "open_mode": if version >= OBJECTS { json!(["APPEND"]) } else { json!("append") },
        "environment": path,
    });
    // What is ours wins.
    job.extend(ours.as_object().cloned().unwrap_or_default());
    Ok(json!({"script": order.script, "job": job}))
}

fn written(name: &str, value: &str, kind: As, version: u32) -> Result<Value> {
    let wrong = || Error::rejected(format!("`{name}` cannot be `{value}`"));
    let number = |number: u64| match version >= OBJECTS {
        true => json!({"set": true, "infinite": false, "number": number}),
        false => json!(number),
    };
    Ok(match kind {
        As::Text => json!(value),
        As::Flag if name == "exclusive" => json!(if value.is_empty() { "true" } else { value }),
        As::Flag => json!(!matches!(value, "no" | "false")),
        As::Number => json!(value.parse::<i64>().map_err(|_| wrong())?),
        As::Range => {
            let (least, most) = value.split_once('-').unwrap_or((value, value));
            let nodes = [least, most].map(str::parse::<u32>);
            match (nodes, version >= OBJECTS) {
                ([Ok(least), Ok(most)], false) => json!([least, most]),
                ([Ok(_), Ok(_)], true) => json!(value),
                _ => return Err(wrong()),
            }
        }
        As::Minutes => {
            let minutes = amount::time(value).ok_or_else(wrong)?;
            number(minutes.max(Duration::from_mins(1)).as_secs().div_ceil(60))
        }
        As::Megabytes => number(amount::size(value).ok_or_else(wrong)?.div_ceil(1 << 20)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(options: &[(&str, &str)]) -> Submission {
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

    #[test]
    fn options_are_fields_and_what_is_ours_wins() {
        let asked = [
            ("time", "1-00:30:00"),
            ("mem", "1G"),
            ("nodes", "2-4"),
            ("cpus-per-task", "3"),
            ("partition", "main"),
        ];
        let old = submission(&order(&asked), 38).unwrap();
        let job = &old["job"];
        assert_eq!((&job["time_limit"], &job["memory_per_node"]), (&json!(1470), &json!(1024)));
        assert_eq!(
            (&job["nodes"], &job["cpus_per_task"], &job["hold"]),
            (&json!([2, 4]), &json!(3), &json!(true))
        );
        assert_eq!((&job["environment"], &old["script"]), (&json!({"PATH": PATH}), &json!("#!/bin/sh\n")));
        let new = submission(&order(&asked), 40).unwrap();
        assert_eq!(new["job"]["time_limit"], json!({"set": true, "infinite": false, "number": 1470}));
        assert_eq!(new["job"]["environment"], json!([format!("PATH={PATH}")]));
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        for (name, value) in
            [("uid", "0"), ("cpus-per-task", "many"), ("time", "soon"), ("mem", "much"), ("nodes", "a-b")]
        {
            let error = submission(&order(&[(name, value)]), 38).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
