//! How a run ended, for people and as data: its conclusion, its jobs, where and why it failed, and what it left.

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Content, Observation, Output, Result, one_line};

use crate::artifacts::Left;
use crate::backend::Actions;
use crate::handle::Place;
use crate::state::{End, EndKind};
use crate::wire::{Annotation, Job, Run};

/// Of how many failed jobs the last lines and the remarks are read.
const MOST_TOLD: usize = 3;
/// How many jobs are named in the text; as data, all of them are there.
const MOST_NAMED: usize = 30;

/// Why a job failed.
struct Why {
    job: String,
    step: Option<String>,
    lines: String,
    remarks: Vec<Annotation>,
}

impl Actions {
    pub(crate) async fn ended(&self, place: &Place, run: &Run, end: End) -> Result<Observation> {
        let jobs = self.jobs(place).await?;
        let left = self.left(place).await?;
        let mut whys = Vec::new();
        if end.kind == EndKind::Failed {
            for job in jobs.iter().filter(|job| has_failed(job)).take(MOST_TOLD) {
                whys.push(self.why(place, job).await?);
            }
        }
        Ok(told(run, place, &end, &jobs, &whys, left))
    }

    async fn why(&self, place: &Place, job: &Job) -> Result<Why> {
        let path = format!("/repos/{}/check-runs/{}/annotations?per_page=20", place.repository, job.id);
        let remarks = match self.api.get::<Vec<Annotation>>("the annotations", &path).await {
            Ok(remarks) => remarks,
            // A token without the permission `checks` does without.
            Err(failure) if failure.is(403) || failure.is(404) => Vec::new(),
            Err(failure) => return Err(failure.into()),
        };
        let failed = job.steps().iter().find(|step| step.conclusion.as_deref() == Some("failure"));
        Ok(Why {
            job: job.name.clone(),
            step: failed.map(|step| step.name.clone()),
            lines: self.last_lines(place, job).await?,
            remarks,
        })
    }
}

fn has_failed(job: &Job) -> bool {
    matches!(job.conclusion.as_deref(), Some("failure" | "timed_out" | "startup_failure"))
}

fn told(run: &Run, place: &Place, end: &End, jobs: &[Job], whys: &[Why], left: Left) -> Observation {
    let link = attempt_url(run, place.attempt);
    let at = whys.first().map(|why| match &why.step {
        Some(step) => format!(" in the job {}, step {step}", why.job),
        None => format!(" in the job {}", why.job),
    });
    let reason = whys.first().and_then(|why| why.lines.lines().next_back()).map(|line| format!(": {line}"));
    let message =
        one_line(&format!("{}{}{}", end.words(), at.unwrap_or_default(), reason.unwrap_or_default()));

    let mut text = format!("{}: {link}", capital(&end.words()));
    if place.attempt > 1 {
        let before = attempt_url(run, place.attempt - 1);
        text.push_str(&format!("\nIt is the attempt {} of the run, after {before}", place.attempt));
    }
    for job in jobs.iter().take(MOST_NAMED) {
        text.push_str(&format!("\n- {}: {}", job.name, job.conclusion.as_deref().unwrap_or("no conclusion")));
    }
    if jobs.len() > MOST_NAMED {
        text.push_str(&format!("\n- and {} more", jobs.len() - MOST_NAMED));
    }
    for why in whys {
        let step = why.step.as_deref().map(|step| format!(", step {step}")).unwrap_or_default();
        text.push_str(&format!("\n\nThe last lines of {}{step}:\n{}", why.job, why.lines));
    }
    let mut content = vec![Content::text(text)];
    let structured = match left.output {
        Some(output) => {
            content.push(Content::text(output.to_string()));
            output
        }
        None => data(run, place, end, jobs, whys),
    };
    let (structured, artifacts) = (Some(structured), left.artifacts);
    let output = Output { content, structured, artifacts, ..Output::default() };
    let seen = Observation::new(end.state(output));
    match end.kind {
        EndKind::Succeeded => seen,
        EndKind::Failed | EndKind::Cancelled => seen.with_message(message),
    }
}

/// The end as data, where the workflow hands back none of its own.
fn data(run: &Run, place: &Place, end: &End, jobs: &[Job], whys: &[Why]) -> Value {
    let job = |job: &Job| {
        let why = whys.iter().find(|why| why.job == job.name);
        let mut told = Map::new();
        told.insert("name".to_owned(), job.name.as_str().into());
        told.insert("conclusion".to_owned(), job.conclusion.as_deref().into());
        told.insert("url".to_owned(), job.html_url.as_deref().into());
        if let Some(why) = why {
            told.insert("failed_step".to_owned(), why.step.as_deref().into());
            let remark = |one: &Annotation| json!({"level": one.annotation_level, "path": one.path, "line": one.start_line, "message": one.message});
            told.insert("annotations".to_owned(), why.remarks.iter().map(remark).collect());
        }
        Value::from(told)
    };
    json!({
        "conclusion": end.conclusion, "run_id": place.run, "attempt": place.attempt, "url": attempt_url(run, place.attempt),
        "attempt_before": (place.attempt > 1).then(|| attempt_url(run, place.attempt - 1)),
        "jobs": jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

/// The address of an attempt. By it a run is run again once at most.
fn attempt_url(run: &Run, attempt: u64) -> String {
    let link = run.html_url.as_deref().unwrap_or_default();
    let run = link.split("/attempts/").next().unwrap_or_default();
    format!("{run}/attempts/{attempt}")
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
