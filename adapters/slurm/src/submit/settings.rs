//! The resources that a job requests: rendered, valid, and within the bounds of the config. Pure.

use std::collections::BTreeMap;

use taskbridge_sdk::{Error, Result, TemplateContext, Templates, short_line};

use crate::config::{Bounded, Resources, Setting};
use crate::notation::directives::Options;
use crate::notation::pattern::fits;
use crate::notation::{amount, directives};

/// Maximum number of characters of a value in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// The separators between names where Slurm accepts several: partitions, reservations, features.
const NAME_SEPARATORS: [char; 7] = [',', '&', '|', '(', ')', '[', ']'];

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
    pub(crate) fn each_setting(&self) -> [(&'static str, &'static str, Kind, Option<&Setting>); 12] {
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
    pub(crate) fn zero_is_unlimited(self) -> bool {
        matches!(self, Kind::Time | Kind::Size)
    }

    /// Describes the valid values.
    pub(crate) fn format_hint(self) -> &'static str {
        match self {
            Kind::Name => "letters, digits and `_-.,+&|*()[]:@`",
            Kind::Time => "a time such as `90` (minutes), `1:30:00` or `1-12:00:00`",
            Kind::Size => "a size such as `4G` or `500M`",
            Kind::Count => "a number of 1 or more",
            Kind::Gpus => "a number such as `2`, or a type and a number such as `a100:2`",
        }
    }

    pub(crate) fn accepts(self, text: &str) -> bool {
        let name = |text: &str| {
            let is_name_char = |c: char| c.is_alphanumeric() || "_-.,+&|*()[]:@".contains(c);
            !text.is_empty() && !text.starts_with('-') && text.chars().all(is_name_char)
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
    fn format_value(self, text: &str) -> String {
        match (self, amount::time(text)) {
            (Kind::Time, Some(time)) => amount::time_in_words(time),
            _ => text.trim().to_owned(),
        }
    }
}

fn count(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok())?.filter(|number| *number > 0)
}

/// Adds all settings to the options, and records which parameter set which option.
pub(crate) fn add_settings(
    resources: &Resources,
    templates: &Templates,
    context: &TemplateContext,
    options: &mut Options,
    parameters: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (field, option, kind, setting) in resources.each_setting() {
        let (text, bounded) = match setting {
            None => continue,
            Some(Setting::Number(number)) => (number.to_string(), None),
            Some(Setting::Text(text)) => (text.clone(), None),
            Some(Setting::Bounded(bounded)) if !context.has_value(&bounded.value) => continue,
            Some(Setting::Bounded(bounded)) => (
                templates.render_argument(&format!("resources.{field}"), &bounded.value, context)?,
                Some(bounded),
            ),
        };
        if !kind.accepts(&text) {
            return Err(Error::rejected(format!(
                "`{field}` is `{}`, and must be {}",
                short_line(&text, MAX_SHOWN_CHARS),
                kind.format_hint()
            )));
        }
        if let Some(bounded) = bounded {
            check_bounds(field, kind, &text, bounded)?;
            if let Some(name) = first_parameter(&bounded.value) {
                parameters.insert(option.to_owned(), name.to_owned());
            }
        }
        directives::set_option(options, option, Some(kind.format_value(&text)));
    }
    Ok(())
}

/// Returns the first parameter in a template such as `{{ hours }}:00:00`.
fn first_parameter(template: &str) -> Option<&str> {
    let (_, rest) = template.split_once("{{")?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

fn check_bounds(field: &str, kind: Kind, text: &str, bounded: &Bounded) -> Result<()> {
    let reject = |reason: String| {
        Err(Error::rejected(format!("`{field}` is `{}`, {reason}", short_line(text, MAX_SHOWN_CHARS))))
    };
    if let Some(allowed) = &bounded.allowed
        && !is_allowed(kind, text, allowed)
    {
        return reject(format!("but must match one of `{}`", allowed.join("`, `")));
    }
    let amount = kind.amount(text);
    let is_listed = bounded.allowed.iter().flatten().any(|allowed| allowed == text);
    if kind.zero_is_unlimited() && amount == Some(0) && !is_listed {
        return reject("which means unlimited in Slurm; give a value above zero".to_owned());
    }
    if let Some(max) = &bounded.max
        && amount > kind.amount(&max.text())
    {
        return reject(format!("over the limit of `{}`", max.text()));
    }
    if let Some(min) = &bounded.min
        && amount < kind.amount(&min.text())
    {
        return reject(format!("below the minimum of `{}`", min.text()));
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
                || text.split(NAME_SEPARATORS).all(fits_any)
        }
        _ => fits_any(text),
    }
}

fn fits_name_by_name(pattern: &str, text: &str) -> bool {
    let separators = |text: &str| text.chars().filter(|c| NAME_SEPARATORS.contains(c)).collect::<String>();
    separators(pattern) == separators(text)
        && pattern
            .split(NAME_SEPARATORS)
            .zip(text.split(NAME_SEPARATORS))
            .all(|(part, name)| fits(part, name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn apply_settings(resources: Value, arguments: Value) -> std::result::Result<Vec<String>, String> {
        let resources: Resources = serde_json::from_value(resources).unwrap();
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let mut options = Options::from([("mem-per-cpu".to_owned(), Some("1G".to_owned()))]);
        let context = TemplateContext::new(&arguments, Value::Null, Value::Null);
        let result =
            add_settings(&resources, &Templates::new(), &context, &mut options, &mut BTreeMap::new());
        let formatted =
            options.into_iter().map(|(name, value)| format!("{name}={}", value.unwrap_or_default()));
        result.map(|()| formatted.collect()).map_err(|e| e.to_string())
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
        let valid_arguments = json!({"p": "gpu-a", "hours": 24, "memory": "64G", "gpus": "a100:4"});
        assert_eq!(
            apply_settings(resources.clone(), valid_arguments).unwrap(),
            ["cpus-per-task=2", "gpus=a100:4", "mem=64G", "partition=gpu-a", "time=1-00:00:00"]
        );
        for (arguments, part) in [
            (json!({"p": "cpu", "hours": 1}), "`partition` is `cpu`, but must match one of `gpu*`, `debug`"),
            (json!({"p": "gpu --uid=0", "hours": 1}), "`partition` is `gpu --uid=0`, and must be letters"),
            (json!({"p": "debug", "hours": 25}), "`time` is `25:00:00`, over the limit of `1-00:00:00`"),
            (json!({"p": "debug", "hours": 1, "tasks": 1}), "`tasks` is `1`, below the minimum of `2`"),
            (json!({"p": "debug", "hours": 0}), "`time` is `0:00:00`, which means unlimited in Slurm"),
            (json!({"p": "debug", "hours": "-1"}), "must be a time"),
            (
                json!({"p": "debug", "hours": 1, "memory": "65G"}),
                "`memory` is `65G`, over the limit of `64G`",
            ),
            (json!({"p": "debug", "hours": 1, "memory": "lots"}), "must be a size"),
            (json!({"p": "debug", "hours": 1, "gpus": 5}), "over the limit of `4`"),
            (json!({"p": "debug", "hours": 1, "gpus": 0}), "must be a number"),
            (json!({"p": "debug"}), "needs the parameter `hours`"),
            (json!({"p": "debug", "hours": 1, "memory": "0"}), "`memory` is `0`, which means unlimited"),
            (json!({"p": "debug", "hours": 1, "memory": "0.0001K"}), "means unlimited"),
            (json!({"p": "gpu-a,bigmem", "hours": 1}), "`partition` is `gpu-a,bigmem`, but must match"),
            (json!({"p": "gpu-a|bigmem", "hours": 1}), "but must match"),
            (json!({"p": "gpu-a,", "hours": 1}), "but must match"),
        ] {
            let error = apply_settings(resources.clone(), arguments).unwrap_err();
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
                let error = apply_settings(time(bounds), json!({"time": zero})).unwrap_err();
                assert!(error.contains("means unlimited"), "{zero}: {error}");
            }
        }
        // An operator who lists zero explicitly wants it.
        assert!(apply_settings(time(json!({"allowed": ["0", "60"]})), json!({"time": "0"})).is_ok());
        assert!(apply_settings(json!({"time": "0", "memory": 0}), json!({})).is_ok());
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
            assert_eq!(apply_settings(features.clone(), json!({"f": names})).is_ok(), allowed, "{names}");
        }
        let partitions = json!({"partition": {"value": "{{ p }}", "allowed": ["gpu*", "debug"]}});
        assert!(apply_settings(partitions, json!({"p": "gpu-a,debug"})).is_ok());
    }
}
