//! The resources that a job or a task requested and used. Pure.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::Timestamp;

use crate::driver::Record;
use crate::notation::amount::{size, size_in_words, time_in_words};
use crate::observe::terminal_state::TerminalState;
use crate::store::plan::Plan;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) limit: Option<Duration>,
    pub(crate) max_memory: Option<u64>,
    pub(crate) requested_memory: Option<String>,
    /// The requested memory in bytes. If it was requested per CPU, the sum for all CPUs in the accounting
    /// record.
    pub(crate) memory_limit: Option<u64>,
    pub(crate) cpu_time: Option<Duration>,
    pub(crate) cpus: Option<u32>,
    pub(crate) nodes: Option<String>,
}

/// Returns when it began, from its marker, the accounting record, or the controller.
fn began_at(terminal_state: &TerminalState) -> Option<Timestamp> {
    let marker = terminal_state.end_marker.as_ref().and_then(|end| end.started_at);
    marker
        .or(terminal_state.record.as_ref().and_then(|r| r.start))
        .or(terminal_state.row.as_ref().and_then(|row| row.start))
}

/// Returns when it ended, from the same sources.
pub(crate) fn ended_at(terminal_state: &TerminalState) -> Option<Timestamp> {
    let marker = terminal_state.end_marker.as_ref().and_then(|end| end.ended_at);
    marker
        .or(terminal_state.record.as_ref().and_then(|r| r.end))
        .or(terminal_state.row.as_ref().and_then(|row| row.end))
}

/// Returns the requested memory in bytes.
fn memory_limit(plan: &Plan, record: Option<&Record>) -> Option<u64> {
    let cpus = u64::from(record.and_then(|record| record.cpus).unwrap_or(1).max(1));
    let for_all_cpus = |text: &str| size(text).and_then(|size| size.checked_mul(cpus));
    if let Some(text) = plan.asked.get("mem") {
        return size(text);
    }
    if let Some(text) = plan.asked.get("mem-per-cpu") {
        return for_all_cpus(text);
    }
    let requested = record?.requested_memory.as_deref()?;
    if requested.ends_with('c') { for_all_cpus(requested) } else { size(requested) }
}

impl Usage {
    /// Returns true if the accounting record shows a task that used at least all the memory that the job
    /// requested.
    pub(crate) fn exceeds_memory(&self) -> bool {
        self.max_memory.zip(self.memory_limit).is_some_and(|(used, limit)| limit > 0 && used >= limit)
    }

    pub(crate) fn of(plan: &Plan, terminal_state: &TerminalState) -> Self {
        let (record, row) = (terminal_state.record.as_ref(), terminal_state.row.as_ref());
        let span =
            began_at(terminal_state).zip(ended_at(terminal_state)).map(|(began, ended)| ended.since(began));
        let own_cpu = terminal_state.end_marker.as_ref().and_then(|end| end.cpu);
        let marker_node = terminal_state.end_marker.as_ref().and_then(|end| end.node.clone());
        let nodes = row.map(|row| row.nodes.clone()).filter(|nodes| !nodes.is_empty());
        Self {
            elapsed: record.and_then(|r| r.elapsed).or(span),
            limit: plan
                .time_limit()
                .or(row.and_then(|row| row.time_limit))
                .or(record.and_then(|r| r.time_limit)),
            max_memory: record.and_then(|r| r.max_memory),
            requested_memory: plan
                .asked
                .get("mem")
                .cloned()
                .or_else(|| plan.asked.get("mem-per-cpu").map(|text| format!("{text} for each CPU")))
                .or_else(|| record.and_then(|r| r.requested_memory.clone())),
            memory_limit: memory_limit(plan, record),
            // The accounting database covers all nodes, and is late. The wrapper measures its own node.
            cpu_time: record.and_then(|r| r.cpu_time).max(own_cpu),
            cpus: record.and_then(|r| r.cpus).filter(|cpus| *cpus > 0),
            nodes: nodes
                .or_else(|| record.map(|r| r.nodes.clone()).filter(|nodes| nodes != "None assigned"))
                .or(marker_node),
        }
    }

    /// Returns the used part of the CPU time that was allocated.
    pub(crate) fn efficiency(&self) -> Option<f64> {
        let (spent, elapsed, cpus) = (self.cpu_time?.as_secs_f64(), self.elapsed?.as_secs_f64(), self.cpus?);
        (elapsed > 0.0).then(|| (spent / (elapsed * f64::from(cpus))).min(1.0))
    }

    /// Formats the known values for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if let Some(elapsed) = self.elapsed {
            let limit_text =
                self.limit.map_or_else(String::new, |limit| format!(" of {}", time_in_words(limit)));
            parts.push(format!("ran for {}{limit_text}", time_in_words(elapsed)));
        }
        if let Some(memory) = self.max_memory {
            let limit_text = self
                .requested_memory
                .as_deref()
                .and_then(size)
                .map_or_else(String::new, |requested| format!(" of {}", size_in_words(requested)));
            parts.push(format!("max memory {}{limit_text}", size_in_words(memory)));
        }
        if let (Some(efficiency), Some(cpus)) = (self.efficiency(), self.cpus) {
            parts.push(format!("CPU efficiency {:.0} % of {cpus}", efficiency * 100.0));
        }
        if let Some(nodes) = &self.nodes {
            parts.push(format!("on {nodes}"));
        }
        if parts.is_empty() { Vec::new() } else { vec![parts.join(", ")] }
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = json!({});
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                object[name] = value;
            }
        };
        put("elapsed_seconds", json!(self.elapsed.map(|time| time.as_secs())));
        put("limit_seconds", json!(self.limit.map(|time| time.as_secs())));
        put("max_memory_bytes", json!(self.max_memory));
        put("asked_memory", json!(self.requested_memory));
        put("cpu_seconds", json!(self.cpu_time.map(|time| time.as_secs_f64())));
        put("cpus", json!(self.cpus));
        put("cpu_efficiency", json!(self.efficiency().map(|part| (part * 1000.0).round() / 1000.0)));
        put("nodes", json!(self.nodes));
        object
    }
}
