//! `taskbridge tasks`: lists, shows and changes tasks while servers run. It reads and writes rows and starts
//! no loop: a server executes the changes.

mod filter;
mod live;
mod print;
mod view;
mod watch;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::{Args, Subcommand};
use taskbridge_sdk::{Error, Output, Registry, Result as JobResult, Timestamp};
use tokio_util::sync::CancellationToken;

use self::filter::Filter;
use self::view::TaskView;
use super::operate::{OperatorContext, open};
use super::store::runtime;
use super::{File, print, print_error};
use crate::app::pluralize;
use crate::audit::{AuditDependencies, Auditor, RequestContext};
use crate::clock::{self, System};
use crate::seal::Seal;
use crate::store::survey::SurveyRow;
use crate::tasks::history::HistoryRecorder;
use crate::tasks::machine::{CancelMode, Event};
use crate::tasks::meter::Unmetered;
use crate::tasks::store::time::StoreTime;
use crate::tasks::store::{Holder, Lease, SlotLimit, StoreError};
use crate::tasks::task::{Job, Outcome, Spec, Task, TaskId};
use crate::tasks::task_writer::{ReconcilerSignals, TaskWriter};
use crate::tasks::tools::{OpenedSpec as Arguments, ToolCatalog};
use crate::tasks::watch::ChangeNotifier;

/// Number of rows that are read at a time.
const PAGE: usize = 500;

/// Minimum length of an id prefix. A shorter one may match another task tomorrow.
const MIN_PREFIX_CHARS: usize = 4;

#[derive(Subcommand)]
pub(super) enum Command {
    /// List tasks, newest first.
    List {
        #[command(flatten)]
        file: File,
        #[command(flatten)]
        filter: Filter,
        /// Print a JSON array, in the format of `export` without histories.
        #[arg(long)]
        json: bool,
    },
    /// Show one task and its history.
    Show(TaskOptions),
    /// Show tasks until Ctrl-C: a live table on a terminal, or a line for each change. $NO_COLOR turns off
    /// colors.
    Watch {
        #[command(flatten)]
        file: File,
        #[command(flatten)]
        filter: Filter,
        /// Time between two reads of the store.
        #[arg(
            long,
            value_name = "DURATION",
            default_value = "1s",
            value_parser = humantime_serde::re::humantime::parse_duration
        )]
        interval: Duration,
    },
    /// Cancel a task: its state changes immediately, and a server stops its job.
    Cancel(TaskOptions),
    /// Retry a failed start, cancellation or answer now, or poll the job now.
    RetryNow(TaskOptions),
    /// End an unfinished task with an unknown outcome, without a call to its engine: its job may continue.
    Abandon(TaskOptions),
    /// Print tasks with their histories as JSON lines, without arguments, results and answers.
    Export {
        #[command(flatten)]
        file: File,
        #[command(flatten)]
        filter: Filter,
    },
}

#[derive(Args)]
pub(super) struct TaskOptions {
    /// The task's id, or a unique prefix of it.
    id: String,
    #[command(flatten)]
    file: File,
}

/// Runs the subcommand.
pub(super) fn run(registry: &Registry, command: Command) -> Result<ExitCode, String> {
    runtime()?.block_on(async {
        match command {
            Command::List { file, filter, json } => list(&open(registry, &file).await?, &filter, json).await,
            Command::Export { file, filter } => export(&open(registry, &file).await?, &filter).await,
            Command::Watch { file, filter, interval } => {
                watch::watch(&open(registry, &file).await?, &filter, interval).await
            }
            Command::Show(options) => show(&open(registry, &options.file).await?, &options.id).await,
            Command::Cancel(options) => cancel(&open(registry, &options.file).await?, &options.id).await,
            Command::RetryNow(options) => retry(&open(registry, &options.file).await?, &options.id).await,
            Command::Abandon(options) => abandon(&open(registry, &options.file).await?, &options.id).await,
        }
    })
}

fn store_error_text(error: StoreError) -> String {
    format!("taskbridge: {error}")
}

/// Returns all rows that match the filter, newest first. Prints the number of rows that cannot be parsed.
async fn load_views(
    context: &OperatorContext,
    filter: &Filter,
) -> Result<(Vec<TaskView>, Timestamp), String> {
    let now = context.store.now().await.map_err(store_error_text)?;
    let (mut views, mut after, mut unreadable) = (Vec::new(), String::new(), 0);
    loop {
        let rows = context.store.rows(&after, PAGE).await.map_err(store_error_text)?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.id);
        for row in &rows {
            match &row.task {
                Ok(task) if filter.matches(task, now) => views.push(TaskView::of(row, task)),
                Ok(_) => {}
                Err(_) => unreadable += 1,
            }
        }
    }
    if unreadable > 0 {
        print_error(&format!(
            "taskbridge: {} unreadable and not shown: run `taskbridge store check` for details",
            pluralize(unreadable, "row")
        ));
    }
    views.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    Ok((views, now))
}

async fn list(context: &OperatorContext, filter: &Filter, json: bool) -> Result<ExitCode, String> {
    let (views, now) = load_views(context, filter).await?;
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&views).map_err(|error| error.to_string())?));
    } else if views.is_empty() {
        print_error(&format!(
            "no tasks {}in {}",
            if filter.is_empty() { "" } else { "that match " },
            context.location
        ));
    } else {
        print(&print::table(&views, now));
    }
    Ok(ExitCode::SUCCESS)
}

async fn export(context: &OperatorContext, filter: &Filter) -> Result<ExitCode, String> {
    let (views, _) = load_views(context, filter).await?;
    for view in views {
        let id = TaskId::from_wire(view.id.clone());
        let history = context.store.entries(&id).await.map_err(store_error_text)?;
        let line = serde_json::to_string(&view.with_history(&history)).map_err(|error| error.to_string())?;
        print(&format!("{line}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the id of the task with this id, or of the only one with this prefix of at least
/// `MIN_PREFIX_CHARS` characters.
async fn resolve_id(context: &OperatorContext, prefix: &str) -> Result<TaskId, String> {
    let location = &context.location;
    let exact = TaskId::from_wire(prefix);
    let ids = context.store.ids(prefix, 10).await.map_err(store_error_text)?;
    if ids.contains(&exact) {
        return Ok(exact);
    }
    match ids.as_slice() {
        [] => Err(format!(
            "taskbridge: no task `{prefix}` in {location}: run `taskbridge tasks list` for all tasks"
        )),
        [_] if prefix.len() < MIN_PREFIX_CHARS => Err(format!(
            "taskbridge: `{prefix}` is too short for the prefix of an id: use at least {MIN_PREFIX_CHARS} characters"
        )),
        [id] => Ok(id.clone()),
        several => {
            let ids: Vec<&str> = several.iter().map(TaskId::as_str).collect();
            let more = if several.len() == 10 { ", ..." } else { "" };
            Err(format!("taskbridge: several tasks begin with `{prefix}`: {}{more}", ids.join(", ")))
        }
    }
}

/// Returns the row of a task, if it still exists and can be parsed.
async fn row(context: &OperatorContext, id: &TaskId) -> Result<Option<(SurveyRow, Task)>, String> {
    // `rows` returns ids after a given one. The id without its last character sorts just before the id. Only
    // ids with that same prefix lie in between.
    if context.store.get(id, None).await.map_err(store_error_text)?.is_none() {
        return Ok(None);
    }
    let mut after: String = id.as_str().to_owned();
    after.pop();
    loop {
        let rows = context.store.rows(&after, PAGE).await.map_err(store_error_text)?;
        let Some(last) = rows.last() else { return Ok(None) };
        after.clone_from(&last.id);
        if let Some(row) = rows.iter().find(|row| row.id == id.as_str()) {
            return Ok(row.task.clone().ok().map(|task| (row.clone(), task)));
        }
        if after.as_str() > id.as_str() {
            return Ok(None);
        }
    }
}

async fn show(context: &OperatorContext, id: &str) -> Result<ExitCode, String> {
    let id = resolve_id(context, id).await?;
    let history = context.store.entries(&id).await.map_err(store_error_text)?;
    let now = context.store.now().await.map_err(store_error_text)?;
    match row(context, &id).await? {
        Some((row, task)) => print(&print::task(&TaskView::of(&row, &task), now)),
        None => print(&format!("{:<11} {id}\n{:<11} deleted: only its history is left\n", "task", "state")),
    }
    print(&print::history(&history, context.history_enabled));
    Ok(ExitCode::SUCCESS)
}

/// Changes a row with the state machine, as a server does, and records that in the audit log. Returns the row
/// before and after, or `None` if it no longer exists.
async fn apply_event(
    context: &OperatorContext,
    id: &TaskId,
    (command, event): (&str, Event),
) -> Result<Option<(Task, Task)>, String> {
    let key = context.store.seal_key(clock::random(&System)).await.map_err(store_error_text)?;
    let entropy = System::entropy();
    let seal = Seal::new(&key, Arc::clone(&entropy));
    let dependencies =
        AuditDependencies { seal, clock: System::clock(), entropy, replica: context.replica.clone() };
    let (audit, writer) = Auditor::new(&context.audit, dependencies, Arc::clone(&context.audit_lines));
    let (audit, stop) = (Arc::new(audit), CancellationToken::new());
    let request_context = Arc::new(RequestContext::operator(format!(
        "uid {}, {}",
        rustix::process::getuid().as_raw(),
        context.replica
    )));
    let command_run = request_context.scope(async {
        let result = apply_audited(context, id, (command, event), &audit).await;
        stop.cancel();
        result
    });
    let audit_writing = async {
        if let Some(writer) = writer {
            writer.run(stop.clone()).await;
        }
    };
    tokio::join!(command_run, audit_writing).0
}

async fn apply_audited(
    context: &OperatorContext,
    id: &TaskId,
    (command, event): (&str, Event),
    audit: &Arc<Auditor>,
) -> Result<Option<(Task, Task)>, String> {
    let Some(before) = context.store.get(id, None).await.map_err(store_error_text)? else { return Ok(None) };
    audit.operator_acted(command, &before).await.map_err(store_error_text)?;
    let time =
        StoreTime::of(Arc::clone(&context.store) as _, System::uptime()).await.map_err(store_error_text)?;
    let task_writer = TaskWriter {
        store: Arc::clone(&context.store) as _,
        watch: ChangeNotifier::default(),
        clock: time,
        tools: Arc::new(NoTools),
        receivers: Arc::new(context.receivers.clone()),
        nudge: Arc::new(ReconcilerSignals::default()),
        history_recorder: HistoryRecorder {
            replica: Holder(context.replica.clone()),
            enabled: context.history_enabled,
        },
        meter: Arc::new(Unmetered),
        audit: Arc::clone(audit) as _,
    };
    let after = task_writer.apply(before.clone(), event, Lease::Keep).await.map_err(store_error_text)?;
    Ok(after.map(|after| (before, after)))
}

async fn cancel(context: &OperatorContext, id: &str) -> Result<ExitCode, String> {
    let id = resolve_id(context, id).await?;
    let Some((before, after)) = apply_event(
        context,
        &id,
        ("cancel", Event::CancelRequested { mode: CancelMode::Immediate, on_behalf_of: None }),
    )
    .await?
    else {
        return Err(deleted_error(&id));
    };
    if before.has_ended() {
        return Err(format!("taskbridge: task {id} has ended already: {}", view::state(before.state)));
    }
    let job = match &after.job {
        Job::Closed { .. } => "its job had not been started",
        _ => "a server cancels its job, and retries until it has ended",
    };
    print(&format!("{id}: {}; {job}\n", view::state(after.state)));
    Ok(ExitCode::SUCCESS)
}

async fn retry(context: &OperatorContext, id: &str) -> Result<ExitCode, String> {
    let id = resolve_id(context, id).await?;
    let Some(task) = context.store.get(&id, None).await.map_err(store_error_text)? else {
        return Err(deleted_error(&id));
    };
    let refusal = match &task.job {
        Job::Closed { .. } => Some("no action is pending for it".to_owned()),
        Job::Pending { queued: true, .. } => {
            Some(format!("it waits for a free slot of `{}`, not for a retry", task.slots.join("`, `")))
        }
        Job::Pending { .. } if task.open_questions().next().is_some() => {
            Some("it waits for a user's consent, not for a retry".to_owned())
        }
        _ => None,
    };
    if let Some(refusal) = refusal {
        return Err(format!("taskbridge: task {id} cannot be retried: {refusal}"));
    }
    let Some((_, after)) = apply_event(context, &id, ("retry-now", Event::RetryNow)).await? else {
        return Err(deleted_error(&id));
    };
    let action = match &after.job {
        Job::Pending { .. } => "its start is attempted",
        Job::Starting { .. } => "its job is searched for, or its start is retried",
        _ => "its job is polled, and pending actions are executed",
    };
    print(&format!("{id}: due now; {action} by the next available server\n"));
    Ok(ExitCode::SUCCESS)
}

async fn abandon(context: &OperatorContext, id: &str) -> Result<ExitCode, String> {
    let id = resolve_id(context, id).await?;
    let Some(task) = context.store.get(&id, None).await.map_err(store_error_text)? else {
        return Err(deleted_error(&id));
    };
    let ended_error = |task: &Task| {
        let state = view::state(task.state);
        format!("taskbridge: task {id} has ended already: {state}; there is nothing left to abandon")
    };
    if matches!(task.job, Job::Closed { .. }) {
        return Err(ended_error(&task));
    }
    let Some((before, after)) = apply_event(context, &id, ("abandon", Event::OutcomeUnknown)).await? else {
        return Err(deleted_error(&id));
    };
    // A server may have recorded the end of the job in the meantime.
    if !before.has_ended() && after.outcome() != Some(Outcome::Broken) {
        return Err(ended_error(&after));
    }
    let job = match &before.job {
        Job::Closed { .. } => return Err(ended_error(&after)),
        Job::Pending { .. } => "its job was not started".to_owned(),
        Job::Starting { .. } => {
            format!("a job with the key {} may have been started and may still run", before.key)
        }
        Job::Open { handle, .. } => {
            format!("the job {handle} may still run, and no server polls it again")
        }
    };
    print(&format!("{id}: {}; abandoned: {job}\n", view::state(after.state)));
    Ok(ExitCode::SUCCESS)
}

fn deleted_error(id: &TaskId) -> String {
    format!("taskbridge: task {id} was deleted: only its history is left")
}

/// Tools for commands that never open arguments, check a result or take a slot.
struct NoTools;

#[async_trait]
impl ToolCatalog for NoTools {
    fn open(&self, _spec: &Spec) -> JobResult<Arguments> {
        Err(Error::config("operators' commands start no job"))
    }

    async fn validate_output(&self, _tool: &str, _output: &Output) -> Result<(), String> {
        Ok(())
    }

    fn limits(&self, _slots: &[String]) -> Vec<SlotLimit> {
        Vec::new()
    }
}
