//! Validates a target offline. Whether the script and the partition exist is not checked: that is the state
//! of the cluster, not of the config.

use taskbridge_sdk::{CommandArgument, Problem, Templates, unknown_parameter};

use crate::config::{Config, Setting, SignalTo, Target};
use crate::identity::handle::is_user;
use crate::notation::directives;
use crate::notation::pattern::path_problem;
use crate::observe::active_job;
use crate::submit::settings::Kind;
use crate::submit::wrapper::FORWARDED_SIGNALS;

/// Returns all problems of a target, for a tool with these parameters.
pub(crate) fn check(config: &Config, target: &Target, parameters: &[&str]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Templates::reserved_name_problem(parameters).into_iter().collect();
    let mut add_problem =
        |field: &str, message: String| problems.push(Problem { field: field.to_owned(), message });
    let templates = Templates::new();
    for (field, template, in_array) in each_template(target) {
        let builtins: &[&str] = if in_array { &["element", "index", "job"] } else { &["job"] };
        for message in templates.check(template, parameters, builtins) {
            add_problem(&field, message);
        }
    }
    let modes = [target.script.is_some(), target.attach.is_some(), target.signal.is_some()];
    if modes.iter().filter(|mode| **mode).count() != 1 {
        add_problem("script", "a target has exactly one of `script`, `attach` and `signal`".to_owned());
    }
    for (field, _, kind, setting) in target.resources.each_setting() {
        if let Some(message) = setting.and_then(|setting| setting_problem(kind, setting)) {
            add_problem(&format!("resources.{field}"), message);
        }
    }
    if target.resources.memory.is_some() && target.resources.memory_per_cpu.is_some() {
        add_problem(
            "resources.memory_per_cpu",
            "cannot be combined with `memory`: Slurm accepts only one of them".to_owned(),
        );
    }
    if let Some(array) = &target.array {
        if !parameters.contains(&array.parameter.as_str()) {
            add_problem("array.parameter", unknown_parameter(&array.parameter, parameters));
        }
        if array.max == 0 || array.at_once == Some(0) {
            add_problem("array", "`max` and `at_once` must be 1 or more".to_owned());
        }
    }
    for name in target.options.keys() {
        let is_valid = !name.is_empty()
            && !name.starts_with('-')
            && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        match () {
            () if !is_valid => add_problem(
                &format!("options.{name}"),
                "must be the long name of an option, without dashes, such as `licenses`".to_owned(),
            ),
            () if directives::is_reserved(name) => add_problem(
                &format!("options.{name}"),
                "cannot be set: the adapter sets this option itself".to_owned(),
            ),
            () if name == "array" => add_problem(
                "options.array",
                "use the target's `array`, or `#SBATCH --array` in the script".to_owned(),
            ),
            () => {}
        }
    }
    for (field, path) in target
        .result
        .iter()
        .map(|path| ("result", path))
        .chain(target.artifacts.iter().map(|path| ("artifacts", path)))
    {
        if let Some(message) = path_problem(path) {
            add_problem(field, message);
        }
    }
    if let Some(message) = target.signal.as_ref().and_then(signal_problem) {
        add_problem("signal.name", message);
    }
    if config
        .ssh
        .as_ref()
        .is_some_and(|ssh| ssh.host.starts_with('-') || ssh.host.is_empty() || ssh.command.is_empty())
    {
        add_problem(
            "",
            "the backend's `ssh` needs a command, and a host that does not begin with a dash".to_owned(),
        );
    }
    for message in run_as_problems(config) {
        add_problem("", message);
    }
    problems
}

/// Signals that Slurm knows by name but that can only be sent to steps. Sent to the script, they would end or
/// stop the shell that runs it instead.
const STEP_SIGNALS: [&str; 6] = ["KILL", "STOP", "CONT", "TSTP", "TTIN", "TTOU"];

fn signal_problem(signal: &SignalTo) -> Option<String> {
    let name = signal.name.as_str();
    let (to_script, to_steps) = (FORWARDED_SIGNALS.contains(&name), STEP_SIGNALS.contains(&name));
    if to_script || (to_steps && signal.steps) {
        return None;
    }
    let script_signals = FORWARDED_SIGNALS.join("`, `");
    Some(match to_steps {
        true => format!(
            "`{name}` can only be sent to steps: set `steps = true`, or use one of `{script_signals}`"
        ),
        false if signal.steps => {
            format!(
                "`{name}` is not a signal that Slurm can send: use one of `{script_signals}`, `{}`",
                STEP_SIGNALS.join("`, `")
            )
        }
        false => format!("`{name}` cannot be sent to a script: use one of `{script_signals}`"),
    })
}

/// Returns the problems in the backend's `sudo` and `run_as`.
fn run_as_problems(config: &Config) -> Vec<String> {
    let mut problems = Vec::new();
    if config.sudo.is_empty() {
        problems.push("the backend's `sudo` must name a command".to_owned());
    }
    for (caller, person) in config.run_as.iter().flatten() {
        let field = format!("the backend's `run_as.\"{caller}\"`");
        let names = [("user", Some(&person.user)), ("group", person.group.as_ref())];
        for (what, name) in names.into_iter().filter_map(|(what, name)| Some((what, name?))) {
            if !is_user(name) {
                problems.push(format!("{field}: `{what}` must be the name of a Unix {what}"));
            }
        }
        if person.user == "root" {
            problems.push(format!("{field}: jobs cannot run as root; name another user"));
        }
        let (by_url, has_token) =
            (config.rest.as_ref().is_some_and(|rest| rest.url.is_some()), person.token.is_some());
        match &config.rest {
            Some(_) if !by_url || !has_token => {
                problems.push(format!("{field}: with `rest`, set `rest.url` and the user's `token`"));
            }
            None if has_token => problems.push(format!(
                "{field}: `token` is only used with slurmrestd: set `rest`, or remove `token`"
            )),
            _ => {}
        }
    }
    problems
}

fn setting_problem(kind: Kind, setting: &Setting) -> Option<String> {
    let invalid = |what: &str, text: &str| format!("{what} is `{text}`, and must be {}", kind.format_hint());
    match setting {
        Setting::Number(number) => {
            let text = number.to_string();
            (!kind.accepts(&text)).then(|| invalid("the value", &text))
        }
        Setting::Text(text) if text.contains("{{") => {
            Some("a template needs bounds: `{ value = .., max = .. }`, or `allowed`".to_owned())
        }
        Setting::Text(text) => (!kind.accepts(text)).then(|| invalid("the value", text)),
        Setting::Bounded(bounded) => {
            let bounds = [("max", &bounded.max), ("min", &bounded.min)];
            for (name, bound) in bounds {
                let Some(bound) = bound.as_ref().map(|bound| bound.text()) else { continue };
                if kind == Kind::Name {
                    return Some(format!("a name has no `{name}`: use `allowed`"));
                }
                match kind.amount(&bound) {
                    None => return Some(invalid(name, &bound)),
                    Some(0) if name == "max" => {
                        return Some(
                            "`max` is zero, which means unlimited in Slurm; give a value above zero"
                                .to_owned(),
                        );
                    }
                    Some(_) => {}
                }
            }
            let bounded_above = bounded.allowed.is_some() || (kind != Kind::Name && bounded.max.is_some());
            let bound = if kind == Kind::Name { "`allowed`" } else { "`max` or `allowed`" };
            (!bounded_above).then(|| format!("needs {bound}: without it, a caller can request any value"))
        }
    }
}

/// Returns every template of a target, with its field and whether it is rendered for each task of an array.
fn each_template(target: &Target) -> impl Iterator<Item = (String, &str, bool)> {
    let in_array = target.array.is_some();
    let args = CommandArgument::templates("args", &target.args)
        .map(move |(field, template)| (field, template, in_array));
    let env =
        target.env.iter().map(|(name, value)| (format!("env.{}", name.as_str()), value.as_str(), false));
    let resources =
        target.resources.each_setting().into_iter().filter_map(|(field, _, _, setting)| match setting {
            Some(Setting::Bounded(bounded)) => {
                Some((format!("resources.{field}.value"), bounded.value.as_str(), false))
            }
            _ => None,
        });
    let others = [
        ("working_dir", target.working_dir.as_deref()),
        (active_job::APPROVAL, target.approval.as_deref()),
        ("attach", target.attach.as_deref()),
        ("after.job", target.after.as_ref().map(|after| after.job.as_str())),
        ("signal.job", target.signal.as_ref().map(|signal| signal.job.as_str())),
    ];
    let others =
        others.into_iter().filter_map(|(field, template)| Some((field.to_owned(), template?, false)));
    args.chain(env).chain(resources).chain(others)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn problems(target: Value) -> Vec<(String, String)> {
        let target: Target = serde_json::from_value(target).unwrap();
        let problems = check(&Config::default(), &target, &["hours", "list"]);
        problems.into_iter().map(|p| (p.field, p.message)).collect()
    }

    #[test]
    fn a_right_target_has_no_problems() {
        let target = json!({
            "script": "dock.sh", "args": ["--hours", "{{ hours }}", ["-x", "{{ taskbridge.element }}"]],
            "env": {"A": "{{ hours }}"}, "working_dir": "{{ taskbridge.job }}", "array": {"parameter": "list", "at_once": 4},
            "resources": {"time": {"value": "{{ hours }}:00:00", "max": "1-0"}, "memory": "4G", "partition": "debug"},
            "options": {"exclusive": ""}, "result": "out/result.json", "artifacts": ["**/*.csv"], "approval": "Run {{ hours }} h?",
        });
        assert_eq!(problems(target), []);
        assert_eq!(problems(json!({"attach": "{{ hours }}"})), []);
        assert_eq!(problems(json!({"signal": {"job": "{{ hours }}", "name": "USR1"}})), []);
        assert_eq!(problems(json!({"signal": {"job": "{{ hours }}", "name": "STOP", "steps": true}})), []);
    }

    /// A plain value where a table is expected is refused with an example of the table.
    #[test]
    fn wrong_value_shows_table_form() {
        fn parse_error<T: serde::de::DeserializeOwned>(value: Value) -> String {
            serde_json::from_value::<T>(value).err().unwrap().to_string()
        }
        let config =
            |field: &str, value: &str| parse_error::<Config>(json!({"jobs_dir": "/x", field: value}));
        let login = config("ssh", "login1");
        assert!(login.ends_with(r#""login1", expected a table: { host = "user@login1" }"#), "{login}");
        assert!(config("rest", "/run/slurmrestd.sock").contains(r#"{ socket = "PATH" } or { url = "URL" }"#));
        assert!(config("discover", "scripts").contains(r#"{ scripts = "FOLDER" }"#));
        let person = parse_error::<Config>(json!({"jobs_dir": "/x", "run_as": {"ann": "asmith"}}));
        assert!(person.contains(r#"{ user = "NAME" }"#), "{person}");
        assert!(parse_error::<Target>(json!("dock.sh")).contains(r#"{ script = "FILE" }"#));
        for (field, form) in [
            ("array", r#"{ parameter = "LIST" }"#),
            ("after", r#"{ job = "{{ before }}" }"#),
            ("resources", r#"{ memory = "4G" }"#),
            ("signal", r#"{ job = "{{ job }}", name = "USR1" }"#),
        ] {
            let message = parse_error::<Target>(json!({"script": "x", field: "list"}));
            assert!(message.contains(form), "{message}");
        }
    }

    /// Each problem names its field and how to correct it.
    #[test]
    fn slurm_target_problem_names_field() {
        for (target, field, part) in [
            (json!({}), "script", "exactly one"),
            (json!({"script": "x", "attach": "{{ hours }}"}), "script", "exactly one"),
            (json!({"script": "x", "args": ["{{ hour }}"]}), "args[0]", "parameters are `hours`, `list`"),
            (
                json!({"script": "x", "args": ["{{ taskbridge.element }}"]}),
                "args[0]",
                "`taskbridge` has `job` here",
            ),
            (json!({"script": "x", "env": {"A": "{{ hours"}}), "env.A", "syntax error"),
            (
                json!({"script": "x", "resources": {"time": {"value": "{{ hours }}"}}}),
                "resources.time",
                "needs `max`",
            ),
            (
                json!({"script": "x", "resources": {"partition": {"value": "{{ hours }}"}}}),
                "resources.partition",
                "`allowed`",
            ),
            (
                json!({"script": "x", "resources": {"partition": {"value": "a", "max": 1}}}),
                "resources.partition",
                "no `max`",
            ),
            (json!({"script": "x", "resources": {"time": "{{ hours }}"}}), "resources.time", "needs bounds"),
            (json!({"script": "x", "resources": {"time": "soon"}}), "resources.time", "must be a time"),
            (
                json!({"script": "x", "resources": {"memory": {"value": "{{ hours }}", "max": "big"}}}),
                "resources.memory",
                "a size",
            ),
            (
                json!({"script": "x", "resources": {"time": {"value": "{{ hours }}", "max": 0}}}),
                "resources.time",
                "`max` is zero",
            ),
            (json!({"script": "x", "array": {"parameter": "lst"}}), "array.parameter", "`lst` is unknown"),
            (json!({"script": "x", "array": {"parameter": "list", "max": 0}}), "array", "1 or more"),
            (json!({"script": "x", "options": {"hold": ""}}), "options.hold", "itself"),
            (json!({"script": "x", "options": {"--x": ""}}), "options.--x", "long name"),
            (json!({"script": "x", "result": "../x"}), "result", "`..`"),
            (json!({"script": "x", "artifacts": ["/etc/*"]}), "artifacts", "relative"),
            (json!({"signal": {"job": "{{ hours }}", "name": "USR1 "}}), "signal.name", "`USR1`, `USR2`"),
            (
                json!({"signal": {"job": "{{ hours }}", "name": "WINCH"}}),
                "signal.name",
                "cannot be sent to a script",
            ),
            (json!({"signal": {"job": "{{ hours }}", "name": "KILL"}}), "signal.name", "`steps = true`"),
            (json!({"signal": {"job": "{{ hours }}", "name": "X", "steps": true}}), "signal.name", "`KILL`"),
        ] {
            let reported = problems(target.clone());
            assert_eq!(reported.len(), 1, "{target}: {reported:?}");
            assert_eq!(reported[0].0, field, "{target}");
            assert!(reported[0].1.contains(part), "{target}: {reported:?}");
        }
    }
}
