//! Turns a call into a submission and the files of the job's folder. Everything is validated before anything
//! is written. Text of a caller enters a script only as one quoted word.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Error, FileContent, JobSpec, Result, SourceFile, TemplateContext, Templates, Trace};

use crate::config::{Array, Target};
use crate::core::Setup;
use crate::driver::Submission;
use crate::notation::directives::{self, Options};
use crate::notation::quote::{line_word, set_arguments};
use crate::store::folder::{Folder, Stream};
use crate::store::plan::Plan;
use crate::store::{disk, folder};
use crate::submit::root::root;
use crate::submit::settings;
use crate::submit::wrapper::wrapper;

/// Default maximum size of an artifact in bytes.
const DEFAULT_MAX_ARTIFACT_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum size of a script in bytes. Slurm's default limit is 4 MB (`max_script_size`).
const MAX_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// The files to write into the job's folder, and the submission.
pub(crate) struct SubmitRequest {
    pub(crate) plan: Plan,
    pub(crate) submission: Submission,
    pub(crate) files: Vec<(String, Vec<u8>, u32)>,
    /// Files of the caller to copy: the source and the new name.
    pub(crate) copies: Vec<(SourceFile, String)>,
}

impl SubmitRequest {
    pub(crate) fn new(job: &JobSpec, target: &Target, setup: &Setup, folder: &Folder) -> Result<Self> {
        let script_path =
            target.script.as_ref().ok_or_else(|| Error::config("the tool's target has no `script`"))?;
        let script_path = setup.config_dir.join(script_path);
        disk::enter_path(&script_path);
        let script = read_script(&script_path).map_err(|e| {
            let path = script_path.display();
            Error::config(format!("the script {path} cannot be read: {e}; correct the tool's `script`"))
        })?;
        let directives = directives::read(&script)
            .map_err(|reason| Error::config(format!("the script {}: {reason}", script_path.display())))?;

        let templates = Templates::new();
        let mut files = vec![("script".to_owned(), script.into_bytes(), 0o700)];
        let mut copies = Vec::new();
        let arguments = stage_files(job, folder, &mut files, &mut copies)?;
        let context =
            TemplateContext::new(&arguments, json!({"job": utf8_path(folder.path())?}), Value::Null);

        let mut options = directives.options;
        for (name, value) in &target.options {
            directives::set_option(&mut options, name, Some(value.clone()).filter(|value| !value.is_empty()));
        }
        let mut parameters = BTreeMap::new();
        settings::add_settings(&target.resources, &templates, &context, &mut options, &mut parameters)?;

        let root = root(target, setup, folder, directives.chdir, &templates, &context)?;

        if let Some(array) = &target.array {
            let elements = elements(&arguments, array, setup.max_array)?;
            let last = elements.len() - 1;
            let limit = array.at_once.map_or_else(String::new, |limit| format!("%{limit}"));
            options.insert("array".to_owned(), Some(format!("0-{last}{limit}")));
            files.push((
                "tasks".to_owned(),
                render_tasks(target, &arguments, elements, &templates, folder)?,
                0o600,
            ));
        }
        files.push((
            "arguments.json".to_owned(),
            Value::Object(arguments.clone()).to_string().into_bytes(),
            0o600,
        ));
        let mut environment = environment(job, target, setup, &templates, &context, folder)?;
        // Many scripts begin with a `cd` to it. The server's working directory means nothing to them.
        environment.insert("SLURM_SUBMIT_DIR".to_owned(), utf8_path(&root)?);
        let script_args = match &target.array {
            Some(_) => Vec::new(),
            None => templates.render_arguments("args", &target.args, &context, false)?,
        };
        files.push(("parameters".to_owned(), parameters_file(&environment, &script_args), 0o600));

        let approval = match &target.approval {
            Some(template) => Some(templates.render_text("approval", template, &context)?),
            None => None,
        };
        let array = options.get("array").cloned().flatten();
        let asked = options.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        let plan = Plan {
            array: array.clone(),
            asked,
            parameters,
            root: root.clone(),
            result: target.result.clone(),
            artifacts: target.artifacts.clone(),
            max_artifact_bytes: target.max_artifact_bytes.unwrap_or(DEFAULT_MAX_ARTIFACT_BYTES),
            requeue: target.requeue,
            approval,
            user: setup.user.clone(),
            attached: None,
        };
        if array.is_some() && plan.tasks().is_none() {
            return Err(Error::config(format!(
                "the script {}: the range of its `--array` is invalid",
                script_path.display()
            )));
        }
        let submission = submission(job, target, folder, &plan, options)?;
        Ok(Self { plan, submission, files, copies })
    }

    /// Adds the dependency on another job, if there is one.
    pub(crate) fn add_dependency(&mut self, dependency: Option<String>) {
        let Some(dependency) = dependency else { return };
        // A job whose dependency can never be satisfied would wait forever.
        for (name, value) in [("dependency", dependency), ("kill-on-invalid-dep", "yes".to_owned())] {
            self.plan.asked.insert(name.to_owned(), value.clone());
            self.submission.options.insert(name.to_owned(), Some(value));
        }
    }
}

fn submission(
    job: &JobSpec,
    target: &Target,
    folder: &Folder,
    plan: &Plan,
    options: Options,
) -> Result<Submission> {
    // We must be able to read and later remove what the script leaves there.
    let shared = plan.user.is_some() && plan.root == folder.work();
    let script = wrapper(&utf8_path(folder.path())?, target.requeue, shared, target.array.is_some());
    let in_array = options.contains_key("array");
    let log = |stream: Stream| {
        let path = utf8_path(&folder.log(stream, None))?;
        Ok::<_, Error>(if in_array { format!("{path}.%a") } else { path })
    };
    Ok(Submission {
        name: job.key.as_str().to_owned(),
        comment: INITIAL_COMMENT.to_owned(),
        script,
        output: log(Stream::Out)?,
        error: log(Stream::Err)?,
        working_dir: utf8_path(&plan.root)?,
        requeue: target.requeue,
        options,
    })
}

/// The initial comment of a job.
pub(crate) const INITIAL_COMMENT: &str = "taskbridge";

/// Returns the list that becomes an array. Rejected if its length is not allowed.
fn elements<'a>(
    arguments: &'a Map<String, Value>,
    array: &Array,
    max_array: Option<u32>,
) -> Result<&'a Vec<Value>> {
    let name = &array.parameter;
    let Some(Value::Array(elements)) = arguments.get(name) else {
        return Err(Error::rejected(format!("`{name}` must be a list: each of its elements becomes a task")));
    };
    let max = max_array.map_or(array.max, |cluster| cluster.min(array.max)) as usize;
    if elements.is_empty() || elements.len() > max {
        let count = elements.len();
        return Err(Error::rejected(format!("`{name}` has {count} elements, and must have 1 to {max}")));
    }
    Ok(elements)
}

/// Renders one line per task: its element and the script's arguments.
fn render_tasks(
    target: &Target,
    arguments: &Map<String, Value>,
    elements: &[Value],
    templates: &Templates,
    folder: &Folder,
) -> Result<Vec<u8>> {
    let mut lines = String::new();
    for (index, element) in elements.iter().enumerate() {
        let task_values = json!({"element": element, "index": index});
        let context = TemplateContext::new(arguments, json!({"job": utf8_path(folder.path())?}), task_values);
        let script_args = templates.render_arguments("args", &target.args, &context, false)?;
        let element = element.as_str().map_or_else(|| element.to_string(), str::to_owned);
        if element.contains('\0') {
            return Err(Error::rejected(
                "an element contains a NUL character, which cannot be passed to a program",
            ));
        }
        let element = line_word(&element);
        lines.push_str(&format!(
            "export TASKBRIDGE_ELEMENT={element} TASKBRIDGE_INDEX={index}; {}\n",
            set_arguments(&script_args)
        ));
    }
    Ok(lines.into_bytes())
}

fn environment(
    job: &JobSpec,
    target: &Target,
    setup: &Setup,
    templates: &Templates,
    context: &TemplateContext,
    folder: &Folder,
) -> Result<BTreeMap<String, String>> {
    let mut variables: BTreeMap<String, String> =
        setup.env.iter().map(|(name, value)| (name.as_str().to_owned(), value.clone())).collect();
    for (name, template) in &target.env {
        if context.has_value(template) {
            let name = name.as_str();
            let value = templates.render_argument(&format!("env.{name}"), template, context)?;
            variables.insert(name.to_owned(), value);
        }
    }
    // The config's values take precedence.
    for (name, value) in job.trace.iter().flat_map(Trace::variables) {
        variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
    variables.insert("TASKBRIDGE_JOB".to_owned(), utf8_path(folder.path())?);
    variables.insert("TASKBRIDGE_ARGUMENTS".to_owned(), utf8_path(&folder.file("arguments.json"))?);
    Ok(variables)
}

/// Reads a script. The config names it, so its path may be a symbolic link.
pub(crate) fn read_script(path: &Path) -> io::Result<String> {
    let bytes = folder::read_open(File::open(path)?, path, MAX_SCRIPT_BYTES)?;
    String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Returns the file that the wrapper reads before it runs the script.
fn parameters_file(environment: &BTreeMap<String, String>, script_args: &[String]) -> Vec<u8> {
    let mut lines = String::new();
    for (name, value) in environment {
        lines.push_str(&format!("export {name}={}\n", line_word(value)));
    }
    lines.push_str(&set_arguments(script_args));
    lines.push('\n');
    lines.into_bytes()
}

/// Replaces every argument that is a file by a path, and collects the files to write and to copy.
fn stage_files(
    job: &JobSpec,
    folder: &Folder,
    files: &mut Vec<(String, Vec<u8>, u32)>,
    copies: &mut Vec<(SourceFile, String)>,
) -> Result<Map<String, Value>> {
    let Value::Object(mut arguments) = job.arguments.clone() else {
        return Err(Error::rejected("the arguments are not an object"));
    };
    for (number, file) in job.files.iter().enumerate() {
        let name = format!("files/{number}-{}", file.plain_name());
        let path = utf8_path(&folder.file(&name))?;
        match &file.content {
            FileContent::Source(from) => copies.push((from.clone(), name)),
            FileContent::Inline(bytes) => files.push((name, bytes.clone(), 0o600)),
        }
        arguments.insert(file.parameter.clone(), path.into());
    }
    Ok(arguments)
}

fn utf8_path(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::config(format!("the path `{}` is not UTF-8", path.display())))
}
