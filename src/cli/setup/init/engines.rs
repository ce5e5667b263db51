//! The engines that `taskbridge init` knows: the template of a config, and the questions that fill it in. A
//! template names an answer as `@NAME@`. The line of an optional one is a comment, unless its flag is given.

/// An engine.
pub(super) struct Engine {
    /// Its `kind` in a config.
    pub(super) kind: &'static str,
    /// What it is.
    pub(super) title: &'static str,
    /// The config.
    pub(super) template: &'static str,
    /// The questions.
    pub(super) questions: &'static [Question],
}

/// A question, and a flag of the same name.
pub(super) struct Question {
    /// The name of the flag, and of the place in the template.
    pub(super) name: &'static str,
    /// What is asked. `None`: the flag is optional, and nobody is asked.
    pub(super) prompt: Option<&'static str>,
    /// The answer if there is none. Of an optional flag: the example in the comment.
    pub(super) default: Option<&'static str>,
    /// What an answer must be.
    pub(super) is_valid: fn(&str) -> bool,
    /// What an invalid answer should have been.
    pub(super) expected: &'static str,
}

fn is_repository(text: &str) -> bool {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    text.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

fn is_variable(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_region(text: &str) -> bool {
    text.contains('-') && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_absolute(text: &str) -> bool {
    text.starts_with('/')
}

fn is_workflow(text: &str) -> bool {
    text.ends_with(".yml") || text.ends_with(".yaml")
}

fn is_api(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['@', '?', '#', ' ']))
}

fn is_ssh_host(text: &str) -> bool {
    !text.starts_with('-') && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@:".contains(c))
}

fn is_any(_: &str) -> bool {
    true
}

/// All engines, in the order in which they are offered.
pub(super) const ALL: [Engine; 4] = [
    Engine {
        kind: "local",
        title: "commands on this machine",
        template: include_str!("local.toml"),
        questions: &[],
    },
    Engine {
        kind: "github-actions",
        title: "workflows of GitHub Actions",
        template: include_str!("github-actions.toml"),
        questions: &[
            Question {
                name: "repository",
                prompt: Some("Which repository (OWNER/NAME)?"),
                default: None,
                is_valid: is_repository,
                expected: "write OWNER/NAME, such as octo-org/app",
            },
            Question {
                name: "workflow",
                prompt: Some(
                    "Which workflow (a file in .github/workflows, with the trigger workflow_dispatch)?",
                ),
                default: None,
                is_valid: is_workflow,
                expected: "write the name of its file, such as release.yml",
            },
            Question {
                name: "token-env",
                prompt: Some("Which environment variable holds the token?"),
                default: Some("GITHUB_TOKEN"),
                is_valid: is_variable,
                expected: "write the name of a variable, not the token, such as GITHUB_TOKEN",
            },
            Question {
                name: "api",
                prompt: None,
                default: Some("https://github.example.com/api/v3"),
                is_valid: is_api,
                expected: "write the URL of the API, such as https://github.example.com/api/v3",
            },
        ],
    },
    Engine {
        kind: "step-functions",
        title: "state machines of AWS Step Functions",
        template: include_str!("step-functions.toml"),
        questions: &[
            Question {
                name: "region",
                prompt: Some("Which region?"),
                default: None,
                is_valid: is_region,
                expected: "write a region, such as eu-central-1",
            },
            Question {
                name: "state-machine",
                prompt: Some("Which state machine (its name or ARN)?"),
                default: None,
                is_valid: is_any,
                expected: "",
            },
        ],
    },
    Engine {
        kind: "slurm",
        title: "batch scripts on a Slurm cluster",
        template: include_str!("slurm.toml"),
        questions: &[
            Question {
                name: "jobs-dir",
                prompt: Some("In which folder may jobs keep files (the nodes see it at the same path)?"),
                default: None,
                is_valid: is_absolute,
                expected: "write an absolute path, such as /home/lab/.taskbridge",
            },
            Question {
                name: "script",
                prompt: Some("Which batch script?"),
                default: None,
                is_valid: is_absolute,
                expected: "write an absolute path, such as /home/lab/dock/dock.sh",
            },
            Question {
                name: "ssh",
                prompt: None,
                default: Some("bridge@login1"),
                is_valid: is_ssh_host,
                expected: "write a host as ssh knows it, such as bridge@login1",
            },
        ],
    },
];
