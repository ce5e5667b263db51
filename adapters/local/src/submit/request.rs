//! [`LaunchRequest`]: what a supervisor must run, which is a target rendered with a job's arguments. The
//! server sends it through the supervisor's standard input. It must not be written to disk, because arguments
//! can be secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use taskbridge_sdk::{
    Error, FileContent, InputFile, JobSpec, Result, SourceFile, TemplateContext, Templates, Trace,
};

use crate::config::Target;
use crate::core::Setup;
use crate::store::job_dir::{self, JobDir};

/// Reply of a supervisor after the job was claimed, by it or by another.
pub(crate) const CLAIMED_REPLY: &str = "taken";

/// One job, ready to run. It can contain secrets, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    pub(crate) working_dir: PathBuf,
    /// Complete environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) stdin: Option<String>,
    pub(crate) files: Vec<StagedFile>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) kill_grace: Duration,
    pub(crate) max_output_bytes: u64,
    pub(crate) success_exit_codes: Vec<u8>,
}

/// File that came with the arguments. It is written before the command starts.
#[derive(Serialize, Deserialize)]
pub(crate) struct StagedFile {
    pub(crate) path: PathBuf,
    pub(crate) content: StagedContent,
}

/// Source of the bytes of a staged file.
#[derive(Serialize, Deserialize)]
pub(crate) enum StagedContent {
    Base64(String),
    /// File that the supervisor copies. The job does not get the original path, because others could replace
    /// the file.
    Source(SourceFile),
}

impl LaunchRequest {
    /// Checks that the files on the server can be read, so that the call is refused early if not. The
    /// supervisor repeats this check when it copies them.
    pub(crate) fn check_sources(files: &[InputFile]) -> Result<()> {
        files.iter().try_for_each(|file| match &file.content {
            FileContent::Source(source) => source.open().map(drop),
            FileContent::Inline(_) => Ok(()),
        })
    }

    /// Renders a job's target. Returns `Rejected` if that fails because of the caller's arguments.
    pub(crate) fn new(job: &JobSpec, setup: &Setup, dir: &JobDir) -> Result<Self> {
        let target: Target = job.parse_target()?;
        let (arguments, files) = stage(job, dir)?;
        let (templates, context) = (Templates::new(), context(job, &arguments, dir));
        let stdin = target.stdin.as_deref();
        Ok(Self {
            command: command(&target, &templates, &context, &setup.config_dir)?,
            working_dir: working_dir(&target, &templates, &context, setup, dir)?,
            env: environment(job, &target, &templates, &context, setup, dir)?,
            stdin: stdin.map(|template| templates.render_text("stdin", template, &context)).transpose()?,
            files,
            timeout: target.timeout,
            kill_grace: setup.config.kill_grace,
            max_output_bytes: setup.config.max_output_bytes.get(),
            success_exit_codes: target.success_exit_codes,
        })
    }
}

/// Returns the variables of the templates.
fn context(job: &JobSpec, arguments: &Map<String, Value>, dir: &JobDir) -> TemplateContext {
    let server_values = job_dir::PROVIDED_NAMES
        .map(|name| (name.to_owned(), dir.provided_path(name).to_string_lossy().into()));
    let mut caller_values = json!({"arguments": arguments});
    if let Some(caller) = &job.on_behalf_of {
        caller_values["caller"] = caller.name.as_str().into();
    }
    TemplateContext::new(arguments, Map::from_iter(server_values).into(), caller_values)
}

fn command(
    target: &Target,
    templates: &Templates,
    context: &TemplateContext,
    config_dir: &Path,
) -> Result<Vec<String>> {
    let mut command =
        templates.render_arguments("command", &target.command, context, target.allow_leading_dash)?;
    match command.first_mut() {
        Some(program) if program.contains('/') => *program = utf8(&config_dir.join(&*program))?,
        Some(program) if !program.is_empty() => {}
        _ => return Err(Error::rejected("`command[0]` renders empty, so there is no program to run")),
    }
    Ok(command)
}

fn working_dir(
    target: &Target,
    templates: &Templates,
    context: &TemplateContext,
    setup: &Setup,
    dir: &JobDir,
) -> Result<PathBuf> {
    let rendered = match &target.working_dir {
        Some(template) => templates.render_argument("working_dir", template, context)?,
        None => String::new(),
    };
    Ok(match (&setup.config.working_dir, rendered.as_str()) {
        (None, "") => dir.work_dir(),
        (Some(folder), "") => setup.config_dir.join(folder),
        (_, folder) => setup.config_dir.join(folder),
    })
}

fn environment(
    job: &JobSpec,
    target: &Target,
    templates: &Templates,
    context: &TemplateContext,
    setup: &Setup,
    dir: &JobDir,
) -> Result<BTreeMap<String, String>> {
    let mut env = setup.environment.clone();
    for (name, template) in &target.env {
        let name = name.as_str();
        env.insert(name.to_owned(), templates.render_argument(&format!("env.{name}"), template, context)?);
    }
    for name in job_dir::PROVIDED_NAMES {
        env.insert(format!("TASKBRIDGE_{}", name.to_uppercase()), utf8(&dir.provided_path(name))?);
    }
    // Variables that the config sets take precedence.
    for (name, value) in job.trace.iter().flat_map(Trace::variables) {
        env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(env)
}

/// Replaces every argument that is a file with the path of the job's own copy, and collects the files to
/// write.
fn stage(job: &JobSpec, dir: &JobDir) -> Result<(Map<String, Value>, Vec<StagedFile>)> {
    let Value::Object(mut arguments) = job.arguments.clone() else {
        return Err(Error::rejected("the arguments are not an object"));
    };
    let mut staged = Vec::new();
    for (number, file) in job.files.iter().enumerate() {
        let path = dir.input_path(number, file.plain_name());
        let content = match &file.content {
            FileContent::Source(source) => StagedContent::Source(source.clone()),
            FileContent::Inline(bytes) => StagedContent::Base64(BASE64.encode(bytes)),
        };
        arguments.insert(file.parameter.clone(), utf8(&path)?.into());
        staged.push(StagedFile { path, content });
    }
    Ok((arguments, staged))
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::config(format!("the path `{}` is not UTF-8", path.display())))
}
