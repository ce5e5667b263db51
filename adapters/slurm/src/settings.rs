//! The resources that a job requests: rendered, valid, and within the bounds of the config. Pure.

use std::collections::BTreeMap;

use taskbridge_sdk::{Context, Error, Result, Templates, short_line};

use crate::config::{Bounded, Resources, Setting};
use crate::driver::Options;
use crate::pattern::fits;
use crate::{amount, directives};

/// Maximum number of characters of a value in a message.
const SHOWN: usize = 80;

/// The separators between names where Slurm accepts several: partitions, reservations, features.
const BETWEEN_NAMES: [char; 7] = [',', '&', '|', '(', ')', '[', ']'];

/// The kind of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Name,
    Time,
    Size,
    Count,
    Gpus,
}

impl Resources {
    /// Returns each setting with its field, its sbatch option, and its kind.
    pub(crate) fn each(&self) -> [(&'static str, &'static str, Kind, Option<&Setting>); 12] {
        [
            ("partition", "partition", Kind::Name, self.partition.as_ref()),
            ("account", "account", Kind::Name, self.account.as_ref()),
            ("qos", "qos", Kind::Name, self.qos.as_ref()),
            ("reservation", "reservation", Kind::Name, self.reservation.as_ref()),
            ("constraint", "constraint", Kind::Name, self.constraint.as_ref()),
            ("time", "time", Kind::Time, self.time.as_ref()),
            ("memory", "mem", Kind::Size, self.memory.as_ref()),
            ("memory_per_cpu", "mem-per-cpu", Kind::Size, self.memory_per_cpu.as_ref()),
            ("cpus", "cpus-per-task", Kind::Count, self.cpus.as_ref()),
            ("gpus", "gpus", Kind::Gpus, self.gpus.as_ref()),
            ("nodes", "nodes", Kind::Count, self.nodes.as_ref()),
            ("tasks", "ntasks", Kind::Count, self.tasks.as_ref()),
        ]
    }
}

impl Kind {
    /// Returns the amount for the comparison with a bound.
    pub(crate) fn amount(self, text: &str) -> Option<u64> {
        match self {
            Kind::Name => None,
            Kind::Time => amount::time(text).map(|time| time.as_secs()),
            Kind::Size => amount::size(text),
            Kind::Count => count(text),
            Kind::Gpus => count(text.rsplit(':').next().unwrap_or(text)),
        }
    }

    /// Returns whether zero means everything to Slurm: `--time=0`, `--mem=0`.
    pub(crate) fn zero_is_all(self) -> bool {
        matches!(self, Kind::Time | Kind::Size)
    }

    /// Describes the valid values.
    pub(crate) fn form(self) -> &'static str {
        match self {
            Kind::Name => "letters, digits and `_-.,+&|*()[]:@`",
            Kind::Time => "a time such as `90` (minutes), `1:30:00` or `1-12:00:00`",
            Kind::Size => "a size such as `4G` or `500M`",
            Kind::Count => "a number of 1 or more",
            Kind::Gpus => "a number such as `2`, or a type and a number such as `a100:2`",
        }
    }

    pub(crate) fn takes(self, text: &str) -> bool {
        let name = |text: &str| {
            let fits = |c: char| c.is_alphanumeric() || "_-.,+&|*()[]:@".contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
        };
        match self {
            Kind::Name => name(text),
            Kind::Gpus => {
                let kind = text.rsplit_once(':').map(|(kind, _)| kind);
                self.amount(text).is_some()
                    && kind.is_none_or(|kind| name(kind) && !kind.contains([',', ':']))
            }
            Kind::Time | Kind::Size | Kind::Count => self.amount(text).is_some(),
        }
    }

    /// Formats the value for sbatch.
    fn written(self, text: &str) -> String {
        match (self, amount::time(text)) {
            (Kind::Time, Some(time)) => amount::time_in_words(time),
            _ => text.trim().to_owned(),
        }
    }
}

fn count(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?.filter(|number| *number > 0)
}

/// Adds all settings to the options, and records which parameter set which option.
pub(crate) fn ask(
    resources: &Resources,
    templates: &Templates,
    context: &Context,
    options: &mut Options,
    parameters: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (field, option, kind, setting) in resources.each() {
        let (text, bounded) = match setting {
            None => continue,
            Some(Setting::Number(number)) => (number.to_string(), None),
            Some(Setting::Text(text)) => (text.clone(), None),
            Some(Setting::Bounded(bounded)) if !context.gives(&bounded.value) => continue,
            Some(Setting::Bounded(bounded)) => {
                (templates.word(&format!("resources.{field}"), &bounded.value, context)?, Some(bounded))
            }
        };
        if !kind.takes(&text) {
            return Err(Error::rejected(format!(
                "`{field}` is `{}`, and must be {}",
                short_line(&text, SHOWN),
                kind.form()
            )));
        }
        if let Some(bounded) = bounded {
            within(field, kind, &text, bounded)?;
            if let Some(name) = first_name(&bounded.value) {
                parameters.insert(option.to_owned(), name.to_owned());
            }
        }
        directives::put(options, option, Some(kind.written(&text)));
    }
    Ok(())
}

/// Returns the first parameter in a template such as `{{ hours }}:00:00`.
fn first_name(template: &str) -> Option<&str> {
    let (_, rest) = template.split_once("{{")?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

fn within(field: &str, kind: Kind, text: &str, bounded: &Bounded) -> Result<()> {
    let refused =
        |why: String| Err(Error::rejected(format!("`{field}` is `{}`, {why}", short_line(text, SHOWN))));
    if let Some(allowed) = &bounded.allowed
        && !is_allowed(kind, text, allowed)
    {
        return refused(format!("and may be `{}`", allowed.join("`, `")));
    }
    let amount = kind.amount(text);
    let in_words = bounded.allowed.iter().flatten().any(|allowed| allowed == text);
    if kind.zero_is_all() && amount == Some(0) && !in_words {
        return refused("by which Slurm understands no limit at all".to_owned());
    }
    if let Some(max) = &bounded.max
        && amount > kind.amount(&max.text())
    {
        return refused(format!("over the limit of `{}`", max.text()));
    }
    if let Some(min) = &bounded.min
        && amount < kind.amount(&min.text())
    {
        return refused(format!("under the least of `{}`", min.text()));
    }
    Ok(())
}

/// Returns whether a text is allowed. If Slurm accepts several names at once, each of them must be allowed:
/// `*` does not match separators.
fn is_allowed(kind: Kind, text: &str, allowed: &[String]) -> bool {
    let fits_any = |text: &str| allowed.iter().any(|pattern| fits(pattern, text));
    match kind {
        Kind::Name => {
            allowed.iter().any(|pattern| fits_name_by_name(pattern, text))
                || text.split(BETWEEN_NAMES).all(fits_any)
        }
        _ => fits_any(text),
    }
}

fn fits_name_by_name(pattern: &str, text: &str) -> bool {
    let between = |text: &str| text.chars().filter(|c| BETWEEN_NAMES.contains(c)).collect::<String>();
    between(pattern) == between(text)
        && pattern.split(BETWEEN_NAMES).zip(text.split(BETWEEN_NAMES)).all(|(part, name)| fits(part, name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asked(resources: Value, arguments: Value) -> std::result::Result<Vec<String>, String> {
        let resources: Resources = serde_json::from_value(resources).unwrap();
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let mut options = Options::from([("mem-per-cpu".to_owned(), Some("1G".to_owned()))]);
        let context = Context::new(&arguments, Value::Null, Value::Null);
        let asked = ask(&resources, &Templates::new(), &context, &mut options, &mut BTreeMap::new());
        let written =
            options.into_iter().map(|(name, value)| format!("{name}={}", value.unwrap_or_default()));
        asked.map(|()| written.collect()).map_err(|e| e.to_string())
    }

    /// A value outside of `min`, `max` or `allowed` is refused.
    #[test]
    fn resource_arguments_stay_within_bounds() {
        let resources = json!({
            "partition": {"value": "{{ p }}", "allowed": ["gpu*", "debug"]},
            "time": {"value": "{{ hours }}:00:00", "max": "1-00:00:00", "min": "5"},
            "memory": {"value": "{{ memory }}", "max": "64G"},
            "gpus": {"value": "{{ gpus }}", "max": 4},
            "tasks": {"value": "{{ tasks }}", "max": 8, "min": 2},
            "cpus": 2,
        });
        let given = json!({"p": "gpu-a", "hours": 24, "memory": "64G", "gpus": "a100:4"});
        assert_eq!(
            asked(resources.clone(), given).unwrap(),
            ["cpus-per-task=2", "gpus=a100:4", "mem=64G", "partition=gpu-a", "time=1-00:00:00"]
        );
        for (arguments, part) in [
            (json!({"p": "cpu", "hours": 1}), "`partition` is `cpu`, and may be `gpu*`, `debug`"),
            (json!({"p": "gpu --uid=0", "hours": 1}), "`partition` is `gpu --uid=0`, and must be letters"),
            (json!({"p": "debug", "hours": 25}), "`time` is `25:00:00`, over the limit of `1-00:00:00`"),
            (json!({"p": "debug", "hours": 1, "tasks": 1}), "`tasks` is `1`, under the least of `2`"),
            (json!({"p": "debug", "hours": 0}), "`time` is `0:00:00`, by which Slurm understands no limit"),
            (json!({"p": "debug", "hours": "-1"}), "must be a time"),
            (
                json!({"p": "debug", "hours": 1, "memory": "65G"}),
                "`memory` is `65G`, over the limit of `64G`",
            ),
            (json!({"p": "debug", "hours": 1, "memory": "lots"}), "must be a size"),
            (json!({"p": "debug", "hours": 1, "gpus": 5}), "over the limit of `4`"),
            (json!({"p": "debug", "hours": 1, "gpus": 0}), "must be a number"),
            (json!({"p": "debug"}), "needs the parameter `hours`"),
            (
                json!({"p": "debug", "hours": 1, "memory": "0"}),
                "`memory` is `0`, by which Slurm understands no",
            ),
            (json!({"p": "debug", "hours": 1, "memory": "0.0001K"}), "no limit at all"),
            (json!({"p": "gpu-a,bigmem", "hours": 1}), "`partition` is `gpu-a,bigmem`, and may be"),
            (json!({"p": "gpu-a|bigmem", "hours": 1}), "and may be"),
            (json!({"p": "gpu-a,", "hours": 1}), "and may be"),
        ] {
            let error = asked(resources.clone(), arguments).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    /// Zero means no limit to Slurm, so a caller's zero is refused unless `allowed` lists it.
    #[test]
    fn unlimited_values_cannot_bypass_bounds() {
        let time = |bounds: Value| {
            let mut setting = json!({"value": "{{ time }}"});
            setting.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
            json!({"time": setting})
        };
        for zero in ["0", "00", "0:00", "0-0", "0:0:0"] {
            for bounds in [json!({"max": "1:00:00"}), json!({"allowed": ["*"]})] {
                let error = asked(time(bounds), json!({"time": zero})).unwrap_err();
                assert!(error.contains("no limit at all"), "{zero}: {error}");
            }
        }
        // An operator who lists zero explicitly wants it.
        assert!(asked(time(json!({"allowed": ["0", "60"]})), json!({"time": "0"})).is_ok());
        assert!(asked(json!({"time": "0", "memory": 0}), json!({})).is_ok());
    }

    /// Each part of a list or an expression of names must match `allowed`.
    #[test]
    fn each_listed_name_must_be_allowed() {
        let features =
            json!({"constraint": {"value": "{{ f }}", "allowed": ["ib*", "a100", "big|small", "[rack*]"]}});
        for (names, allowed) in [
            ("ib-hdr", true),
            ("ib-hdr&a100", true),
            ("ib-hdr&v100", false),
            ("[rack1]", true),
            ("[rack1|rack2]", false),
            ("big|small", true),
            ("big", false),
            (",", false),
        ] {
            assert_eq!(asked(features.clone(), json!({"f": names})).is_ok(), allowed, "{names}");
        }
        let partitions = json!({"partition": {"value": "{{ p }}", "allowed": ["gpu*", "debug"]}});
        assert!(asked(partitions, json!({"p": "gpu-a,debug"})).is_ok());
    }
}
