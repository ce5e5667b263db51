//! [`Checkup`]: the self-check of a backend for `taskbridge doctor`, with instructions for fixing what is
//! wrong. It must not change anything.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// Ability of a backend to check itself: its credentials and their permissions, its clock, and the targets of
/// tools.
#[async_trait]
pub trait Checkup: Send + Sync {
    /// Checks everything that jobs of these tools need, with calls that change nothing.
    ///
    /// - It starts, changes and ends nothing.
    /// - Successful checks are reported too. If everything is right, there is at least one finding.
    /// - A check that cannot be made is a finding as well: an engine that is unreachable is a fault with that
    ///   message.
    /// - A target that the engine does not have is a fault, and its text names the tool.
    /// - A fault explains how to fix it. No finding contains a secret.
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding>;
}

/// A configured tool, as its backend sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolTarget {
    /// Name of the tool.
    pub tool: String,
    /// Target of the tool.
    pub target: Value,
    /// Names of all arguments that a call may have. Absent: a call may have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<String>>,
}

impl ToolTarget {
    /// Creates the view of a tool whose calls may have any arguments.
    pub fn new(tool: &str, target: Value) -> Self {
        Self { tool: tool.to_owned(), target, parameters: None }
    }

    /// Takes the names of the arguments from the tool's JSON Schema, if it permits no others.
    pub fn with_schema(mut self, schema: &Value) -> Self {
        if schema["additionalProperties"] == Value::Bool(false) {
            let properties = schema["properties"].as_object();
            self.parameters = Some(properties.into_iter().flatten().map(|(name, _)| name.clone()).collect());
        }
        self
    }

    /// Parses the target.
    ///
    /// # Errors
    /// A fault of this tool if the target does not have the shape of `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Finding> {
        T::deserialize(&self.target).map_err(|error| {
            let fix = "run `taskbridge check`, and correct the tool's target";
            Finding::fault(format!("tool `{}`", self.tool), error.to_string(), fix)
        })
    }
}

/// A policy that an administrator must grant, in the engine's own format.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDocument {
    /// Who needs the policy, such as "the server's credentials".
    pub grantee: String,
    /// The policy, ready to paste.
    pub document: Value,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Subject of the check: "credentials", "permission states:StartExecution", "tool `deploy`".
    pub what: String,
    /// Severity of the result.
    pub verdict: Verdict,
    /// What the check found, in one line.
    pub says: String,
    /// How to fix it. It may have several lines, such as a policy in JSON to paste.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is right.
    Ok,
    /// It works, but perhaps not as intended.
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
    /// Creates a finding that everything is right.
    pub fn ok(what: impl Into<String>, says: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Ok, says: says.into(), fix: None }
    }

    /// Creates a finding for something that works, but perhaps not as intended.
    pub fn warning(what: impl Into<String>, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Warning, says: says.into(), fix: Some(fix.into()) }
    }

    /// Creates a finding for something that will not work.
    pub fn fault(what: impl Into<String>, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what: what.into(), verdict: Verdict::Fault, says: says.into(), fix: Some(fix.into()) }
    }

    /// Compares this machine's clock with the clock of `peer`, which tolerates an offset of `tolerance`. More
    /// than half of the tolerance is a warning, and more than all of it is a fault.
    pub fn clock(peer: &str, peer_time: Timestamp, local_time: Timestamp, tolerance: Duration) -> Self {
        let (ahead, behind) = (local_time.since(peer_time), peer_time.since(local_time));
        let (offset, direction) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        let says = format!("this machine's clock is {:.1} s {direction} {peer}", offset.as_secs_f64());
        let fix = "set the clock by NTP (`timedatectl set-ntp true`, or chrony)";
        match offset {
            offset if offset > tolerance => Self::fault("clock", says, fix),
            offset if offset > tolerance / 2 => Self::warning("clock", says, fix),
            _ => Self::ok("clock", says),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that differs by most of the tolerance is a warning, and by more than it a fault.
    #[test]
    fn clock_offset_is_judged_by_tolerance() {
        let at = Timestamp::from_millis;
        let finding_for =
            |theirs, ours| Finding::clock("AWS", at(theirs), at(ours), Duration::from_secs(300));
        assert_eq!(
            finding_for(1000, 1500),
            Finding::ok("clock", "this machine's clock is 0.5 s ahead of AWS")
        );
        assert_eq!(finding_for(200_000, 0).verdict, Verdict::Warning);
        let fault = finding_for(400_000, 0);
        assert_eq!((fault.verdict, fault.fix.is_some()), (Verdict::Fault, true));
        assert_eq!(fault.says, "this machine's clock is 400.0 s behind AWS");
    }
}
