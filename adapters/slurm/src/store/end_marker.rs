//! How a run of a script ended, from its end marker: the file `ends/RUN` that its wrapper wrote. The marker
//! takes precedence over Slurm: a controller that crashed may report an end that the script never had. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use crate::driver::queue_text::parse_timestamp;

/// Exit code of a wrapper that found the fence of its run: an earlier start of this run created it, or the
/// server closed it.
pub(crate) const ALREADY_RUN_EXIT_CODE: u32 = 97;

/// Exit code of a wrapper that cannot use the job's folder.
pub(crate) const NO_FOLDER_EXIT_CODE: u32 = 98;

/// Maximum length of a value of a marker, in bytes. No node name is longer.
const MAX_VALUE_BYTES: usize = 255;

/// One run of a whole job or of one array task: the first, or one after a requeue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) task: Option<u32>,
    pub(crate) restart: u32,
}

impl Run {
    /// Parses `job.0` or `17.0`: the task and its number of restarts.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (task, restart) = name.split_once('.')?;
        let task = if task == "job" { None } else { Some(task.parse().ok()?) };
        Some(Self { task, restart: restart.parse().ok()? })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => write!(f, "{task}.{}", self.restart),
            None => write!(f, "job.{}", self.restart),
        }
    }
}

/// How a script ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndMarker {
    /// The exit code in the shell's convention: above 128 it means a signal.
    pub(crate) code: u32,
    /// The last of TERM, INT and HUP that the wrapper received and passed on to the script, if any.
    pub(crate) forwarded_signal: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) node: Option<String>,
    /// CPU time of the script and its ended children on the node of the wrapper.
    pub(crate) cpu: Option<Duration>,
}

impl EndMarker {
    /// Parses an end marker. Returns `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let lines: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let is_valid = |value: &&str| (1..=MAX_VALUE_BYTES).contains(&value.len());
        let value = |name: &str| lines.get(name).copied().filter(is_valid);
        Some(Self {
            code: value("code")?.parse().ok()?,
            forwarded_signal: value("told").map(str::to_owned),
            started_at: value("began").and_then(parse_timestamp),
            ended_at: value("ended").and_then(parse_timestamp),
            node: value("node").map(str::to_owned),
            // The output of `times`: first the shell's own times, then those of its children.
            cpu: text.lines().filter_map(shell_times).next_back(),
        })
    }

    /// Returns the signal that killed the script, in the shell's convention.
    pub(crate) fn signal(&self) -> Option<u32> {
        self.code.checked_sub(128).filter(|signal| (1..=64).contains(signal))
    }

    /// Returns true if the script was sent TERM, INT or HUP, or was killed by SIGKILL or SIGTERM. Its exit
    /// code then means little.
    pub(crate) fn was_stopped(&self) -> bool {
        self.forwarded_signal.is_some() || matches!(self.signal(), Some(9 | 15))
    }
}

/// Parses user and system time: `1m2.345s 0m0.010s`.
fn shell_times(line: &str) -> Option<Duration> {
    let (user, system) = line.split_once(' ')?;
    shell_time(user)?.checked_add(shell_time(system)?)
}

/// Parses a time of `times`: `1m2.345s`.
fn shell_time(text: &str) -> Option<Duration> {
    let (minutes, seconds) = text.strip_suffix('s')?.split_once('m')?;
    let seconds: f64 = seconds.parse().ok()?;
    let minutes: u64 = minutes.parse().ok()?;
    Duration::from_secs(minutes.checked_mul(60)?).checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns the name of a signal, or its number if it has no name.
pub(crate) fn signal_name(number: u32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number).ok().and_then(|number| NAMES.get(number.checked_sub(1)?));
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

/// Formats an exit code for people.
pub(crate) fn in_words(code: u32) -> String {
    match code {
        126 => "exit code 126: the script could not be executed".to_owned(),
        127 => "exit code 127: a command was not found".to_owned(),
        129..=192 => format!("exit code {code}: ended by {}", signal_name(code - 128)),
        _ => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_marker_is_read() {
        let text = "code=143\ntold=TERM\nbegan=1795339653\nended=1795339656\nnode=n1\n0m9.000s 0m9.000s\n0m1.500s 0m0.250s\n";
        let end = EndMarker::parse(text).unwrap();
        assert_eq!((end.code, end.signal(), end.was_stopped()), (143, Some(15), true));
        assert_eq!(end.ended_at.unwrap().since(end.started_at.unwrap()), Duration::from_secs(3));
        assert_eq!((end.cpu, end.node.as_deref()), (Some(Duration::from_millis(1750)), Some("n1")));
        assert_eq!(EndMarker::parse("code=0\ntold=\n").unwrap(), EndMarker::default());
        assert_eq!((EndMarker::parse(""), EndMarker::parse("code=x")), (None, None));
        let long = format!("code=0\nnode={}\n", "n".repeat(4000));
        assert_eq!(EndMarker::parse(&long).unwrap(), EndMarker::default(), "node names are shorter");
        assert_eq!(in_words(137), "exit code 137: ended by SIGKILL");
        assert_eq!((signal_name(0).as_str(), signal_name(64).as_str()), ("signal 0", "signal 64"));
    }

    #[test]
    fn run_name_has_task_and_restart() {
        assert_eq!(Run::parse("job.0"), Some(Run { task: None, restart: 0 }));
        assert_eq!(Run::parse("17.2"), Some(Run { task: Some(17), restart: 2 }));
        for name in ["job.0", "17.2"] {
            assert_eq!(Run::parse(name).unwrap().to_string(), name);
        }
        assert_eq!((Run::parse(".job.0.33"), Run::parse("x")), (None, None));
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(text in "(code|told|began)=[\\PC]{0,40}\n\\PC{0,40}", code: u32) {
            let _ = (EndMarker::parse(&text), in_words(code), signal_name(code), Run::parse(&text));
        }
    }
}
