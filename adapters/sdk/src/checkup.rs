//! [`Checkup`]: a backend looks itself over for `taskbridge doctor`, and says what to mend. It must not change
//! anything.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// A backend can look itself over: its credentials, what they may do, its clock, and the targets of tools.
#[async_trait]
pub trait Checkup: Send + Sync {
    /// Looks at all that jobs of these tools need, by calls that change nothing.
    ///
    /// - It starts, changes and ends nothing.
    /// - What was looked at and is right is told too, at least one thing if all is.
    /// - What cannot be looked at is a finding like any other: an engine that is away is a fault that says so.
    /// - A target that the engine does not have is a fault, and its words name the tool.
    /// - A fault says how to mend it. Nothing that is said holds a secret.
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding>;
}

/// A tool of the config, as far as its backend is concerned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolTarget {
    /// The tool's name.
    pub tool: String,
    /// Its target.
    pub target: Value,
}

/// A policy that an administrator has to grant, in the engine's own form.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDocument {
    /// Who needs it, such as "the server's credentials".
    pub whose: String,
    /// The policy, to be pasted.
    pub document: Value,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is: "credentials", "permission states:StartExecution", "tool `deploy`".
    pub what: String,
    /// How it is.
    pub verdict: Verdict,
    /// What was seen, in a line.
    pub says: String,
    /// How to mend it. It may have several lines, such as a policy as JSON to be pasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is right.
    Ok,
    /// It works, and may not do what was meant.
    Warning,
    /// Something will not work.
    Fault,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Fault => "fault",
        })
    }
}

impl Finding {
    /// It is right.
    pub fn ok(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Ok, says: says.into(), fix: None }
    }

    /// It works, and may not do what was meant.
    pub fn warning(what: impl Into<String>, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Warning, says: says.into(), fix: Some(fix.into()) }
    }

    /// Something will not work.
    pub fn fault(what: impl Into<String>, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Fault, says: says.into(), fix: Some(fix.into()) }
    }

    /// How far this machine's clock is from another's, of which this much is borne there. Half of it is worth a warning.
    pub fn clock(whose: &str, theirs: Timestamp, ours: Timestamp, borne: Duration) -> Self {
        let (ahead, behind) = (ours.since(theirs), theirs.since(ours));
        let (off, way) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        let says = format!("this machine's clock is {:.1} s {way} {whose}", off.as_secs_f64());
        let fix = "set the clock by NTP (`timedatectl set-ntp true`, or chrony)";
        match off {
            off if off > borne => Self::fault("clock", says, fix),
            off if off > borne / 2 => Self::warning("clock", says, fix),
            _ => Self::ok("clock", says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_judged_by_what_is_borne() {
        let at = Timestamp::from_millis;
        let judged = |theirs, ours| Finding::clock("AWS", at(theirs), at(ours), Duration::from_secs(300));
        assert_eq!(judged(1000, 1500), Finding::ok("clock", "this machine's clock is 0.5 s ahead of AWS"));
        assert_eq!(judged(200_000, 0).verdict, Verdict::Warning);
        let fault = judged(400_000, 0);
        assert_eq!((fault.verdict, fault.fix.is_some()), (Verdict::Fault, true));
        assert_eq!(fault.says, "this machine's clock is 400.0 s behind AWS");
    }
}
