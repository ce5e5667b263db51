//! Metrics of this process from the operating system, under the standard names of Prometheus clients. They
//! are read from `/proc`; without it they are not updated.

use std::fs;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::families::FloatGauge;

/// The process metrics.
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    memory: Gauge,
    files: Gauge,
    max_files: Gauge,
    start_time: FloatGauge,
}

impl Process {
    /// Creates all metrics and registers them.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            cpu: Counter::default(),
            memory: Gauge::default(),
            files: Gauge::default(),
            max_files: Gauge::default(),
            start_time: FloatGauge::default(),
        };
        let registry = registry.sub_registry_with_prefix("process");
        registry.register_with_unit(
            "cpu",
            "CPU time that the process used",
            Unit::Seconds,
            metrics.cpu.clone(),
        );
        registry.register_with_unit(
            "resident_memory",
            "Resident memory",
            Unit::Bytes,
            metrics.memory.clone(),
        );
        registry.register("open_fds", "Open files and connections", metrics.files.clone());
        registry.register(
            "max_fds",
            "Maximum number of open files and connections",
            metrics.max_files.clone(),
        );
        let help = "When the process was started, in seconds since 1970";
        registry.register_with_unit("start_time", help, Unit::Seconds, metrics.start_time.clone());
        metrics
    }

    /// Reads the current values.
    pub(super) fn refresh(&mut self) {
        if let Some(stat) = stat() {
            let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second().max(1) as f64;
            let more = seconds(stat.cpu_ticks) - self.cpu.get();
            self.cpu.inc_by(more.max(0.0));
            self.memory.set(amount(stat.pages.saturating_mul(page_size() as u64)));
            if let Some(boot_time) = read_boot_time() {
                self.start_time.set(boot_time as f64 + seconds(stat.started_ticks));
            }
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // The directory that is being read is one of them.
            self.files.set(amount(files.count().saturating_sub(1) as u64));
        }
        self.max_files.set(amount(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)));
    }
}

fn amount(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

struct Stat {
    cpu_ticks: u64,
    started_ticks: u64,
    pages: u64,
}

fn stat() -> Option<Stat> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain any character. Field 3 follows it; utime and stime are 14 and 15,
    // starttime is 22 and rss 24 (proc(5)).
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split_whitespace().collect();
    let field = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    Some(Stat { cpu_ticks: field(14)? + field(15)?, started_ticks: field(22)?, pages: field(24)? })
}

/// Returns the boot time of the machine, in seconds since 1970.
fn read_boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}
