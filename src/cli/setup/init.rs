//! `taskbridge init`: writes a first config for an engine, with its schema beside it, checks it, and prints
//! the command that connects a client. It must not read or store a credential: a config refers to it.

mod answers;
mod engines;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use taskbridge_sdk::Registry;

use self::answers::Prompt;
use self::engines::Engine;
use super::connect;
use crate::cli::{doctor, print, print_error};
use crate::config;
use crate::config::locate::Environment;

/// The name of the schema file, beside the config.
const SCHEMA: &str = "taskbridge.schema.json";

#[derive(Args)]
pub(in crate::cli) struct Options {
    /// The engine: local, github-actions, step-functions or slurm.
    #[arg(long, value_name = "KIND")]
    engine: Option<String>,
    #[command(flatten)]
    answers: Flags,
    /// The config file to write [default: $XDG_CONFIG_HOME/taskbridge/taskbridge.toml].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// Do not run `taskbridge doctor` on the new config.
    #[arg(long)]
    no_doctor: bool,
}

/// What an engine needs to know. On a terminal, init asks for what is missing.
#[derive(Args)]
pub(super) struct Flags {
    /// GitHub Actions: the repository.
    #[arg(long, value_name = "OWNER/NAME")]
    repository: Option<String>,
    /// GitHub Actions: the file of the workflow, such as release.yml.
    #[arg(long, value_name = "FILE")]
    workflow: Option<String>,
    /// GitHub Actions: the environment variable that holds the token.
    #[arg(long, value_name = "VARIABLE")]
    token_env: Option<String>,
    /// GitHub Enterprise Server: the address of its API.
    #[arg(long, value_name = "URL")]
    api: Option<String>,
    /// Step Functions: the AWS region.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Step Functions: the name or ARN of the state machine.
    #[arg(long, value_name = "NAME")]
    state_machine: Option<String>,
    /// Slurm: a folder that the nodes see at the same path.
    #[arg(long, value_name = "FOLDER")]
    jobs_dir: Option<String>,
    /// Slurm: the batch script, as an absolute path.
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
    /// Slurm: run its commands on this machine, by ssh.
    #[arg(long, value_name = "HOST")]
    ssh: Option<String>,
}

impl Flags {
    fn get(&self, name: &str) -> Option<&str> {
        let value = match name {
            "repository" => &self.repository,
            "workflow" => &self.workflow,
            "token-env" => &self.token_env,
            "api" => &self.api,
            "region" => &self.region,
            "state-machine" => &self.state_machine,
            "jobs-dir" => &self.jobs_dir,
            "script" => &self.script,
            "ssh" => &self.ssh,
            _ => &None,
        };
        value.as_deref()
    }

    /// Returns a flag that was given and that this engine does not have.
    fn foreign(&self, engine: &Engine) -> Option<&'static str> {
        let mut names = engines::ALL.iter().flat_map(|engine| engine.questions).map(|question| question.name);
        let has = |name: &str| engine.questions.iter().any(|question| question.name == name);
        names.find(|name| self.get(name).is_some() && !has(name))
    }
}

/// Writes the config and the schema, and checks them.
pub(in crate::cli) fn run(registry: &Registry, options: &Options) -> Result<ExitCode, String> {
    let error_text = |text: String| format!("taskbridge: {text}");
    let prompt = Prompt::of_terminal();
    let engine = choose(registry, options.engine.as_deref(), prompt.as_ref()).map_err(error_text)?;
    if let Some(name) = options.answers.foreign(engine) {
        return Err(format!("taskbridge: --{name} does not belong to --engine {}", engine.kind));
    }
    let file = output(options).map_err(error_text)?;
    if file.exists() && !options.force {
        return Err(format!(
            "taskbridge: {} exists: replace it with --force, or write another with --output",
            file.display()
        ));
    }
    let text =
        answers::fill(engine, |name| options.answers.get(name), prompt.as_ref()).map_err(error_text)?;
    let unwritable = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("taskbridge: {path}: cannot be written: {error}")
    };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(unwritable(folder))?;
    let schema = folder.join(SCHEMA);
    replace(&schema, &format!("{:#}\n", config::schema::generate(registry))).map_err(unwritable(&schema))?;
    replace(&file, &text).map_err(unwritable(&file))?;
    print(&format!("wrote {} and {}\n", file.display(), schema.display()));
    let code = match options.no_doctor {
        true => ExitCode::SUCCESS,
        false => {
            print("\n");
            doctor::run(registry, &doctor::Options::of(file.clone()))?
        }
    };
    print(&format!(
        "\nNext:\n  taskbridge doctor --config {file}    # after you have edited the file\n  taskbridge serve --config {file}\n  \
         taskbridge call    # in another terminal: lists the tools; taskbridge call TOOL NAME=VALUE starts one\n  {}\n",
        connect::command_line(&file),
        file = file.display(),
    ));
    Ok(code)
}

/// Writes a file: the whole text, or nothing.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new().permissions(config_permissions()).tempfile_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.persist(file).map(drop).map_err(|error| error.error)
}

/// A config contains no credential, and other users may read it if the user's mask permits it.
fn config_permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

fn output(options: &Options) -> Result<PathBuf, String> {
    if let Some(file) = &options.output {
        return Ok(file.clone());
    }
    let home = Environment::of_process().config_home;
    let home = home.ok_or("there is no home folder: name the file with --output FILE")?;
    Ok(home.join("taskbridge").join("taskbridge.toml"))
}

fn choose(
    registry: &Registry,
    asked: Option<&str>,
    prompt: Option<&Prompt>,
) -> Result<&'static Engine, String> {
    let available: Vec<&Engine> =
        engines::ALL.iter().filter(|engine| registry.get(engine.kind).is_some()).collect();
    let kinds = available.iter().map(|engine| engine.kind).collect::<Vec<_>>().join(", ");
    let find = |kind: &str| available.iter().find(|engine| engine.kind == kind).copied();
    if let Some(kind) = asked {
        return find(kind)
            .ok_or_else(|| {
                format!(
                    "--engine {kind}: init does not ask about this engine: it knows {kinds}. For engines with an HTTP API, see \
                     `taskbridge presets`"
                )
            });
    }
    let Some(prompt) = prompt else {
        return Err(format!("name the engine with --engine KIND: {kinds}. On a terminal, init asks for it"));
    };
    for (n, engine) in available.iter().enumerate() {
        print_error(&format!("  {}  {:<15} {}", n + 1, engine.kind, engine.title));
    }
    prompt.ask("Which engine?", Some("1"), |answer| {
        let by_number = answer.parse::<usize>().ok().and_then(|n| available.get(n.checked_sub(1)?).copied());
        by_number.or_else(|| find(answer)).ok_or_else(|| format!("write a number, or one of {kinds}"))
    })
}
