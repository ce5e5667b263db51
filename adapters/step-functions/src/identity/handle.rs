//! Handle of a job: the ARN of its execution, with a prefix for what the ARN does not say. It must not call
//! AWS.

use taskbridge_sdk::{JobHandle, Timestamp};

use crate::identity::arn::{console, is_name, split_arn};

/// Execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionArn<'a> {
    text: &'a str,
    /// `arn:PARTITION:states:REGION:ACCOUNT`.
    prefix: &'a str,
    region: &'a str,
    machine: &'a str,
    express: bool,
    attached: bool,
    started_at: Option<Timestamp>,
}

/// Prefix of the handle of an execution that was not started here and must not be stopped from here.
const ATTACHED_PREFIX: &str = "attached:";

/// Prefix of the handle of an Express execution, before its start time in milliseconds. AWS does not return
/// that time again.
const STARTED_PREFIX: &str = "began:";

impl<'a> ExecutionArn<'a> {
    pub(crate) fn parse(handle: &'a JobHandle) -> Option<Self> {
        let (text, attached) = match handle.as_str().strip_prefix(ATTACHED_PREFIX) {
            Some(text) => (text, true),
            None => (handle.as_str(), false),
        };
        let (text, started_at) = match text.strip_prefix(STARTED_PREFIX).and_then(|rest| rest.split_once(':'))
        {
            Some((millis, text)) => (text, Some(Timestamp::from_millis(millis.parse().ok()?))),
            None => (text, None),
        };
        let (prefix, region, rest) = split_arn(text)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (machine, express) = match parts[..] {
            ["execution", machine, name] if !name.is_empty() => (machine, false),
            ["express", machine, name, id] if !name.is_empty() && !id.is_empty() => (machine, true),
            _ => return None,
        };
        is_name(machine).then_some(Self { text, prefix, region, machine, express, attached, started_at })
    }

    pub(crate) fn as_str(&self) -> &str {
        self.text
    }

    pub(crate) fn region(&self) -> &str {
        self.region
    }

    /// Returns the ARN of its state machine.
    pub(crate) fn machine(&self) -> String {
        format!("{}:stateMachine:{}", self.prefix, self.machine)
    }

    /// Returns true if the execution was started elsewhere and is only followed.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached
    }

    /// Returns the start time, if the handle contains it.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// Returns true for an Express execution, which Step Functions cannot describe.
    pub(crate) fn is_express(&self) -> bool {
        self.express
    }
}

/// Returns the URL of an execution's page in the AWS console. An Express execution has no page that its name
/// leads to.
pub(crate) fn execution_console(arn: &str) -> Option<String> {
    arn.contains(":execution:").then(|| format!("{}#/v2/executions/details/{arn}", console(arn)))
}

/// Returns the handle of an execution that is only followed.
pub(crate) fn attached_handle(arn: &str) -> JobHandle {
    JobHandle::new(format!("{ATTACHED_PREFIX}{arn}"))
}

/// Returns the handle of an Express execution with this start time.
pub(crate) fn express_handle(arn: &str, started_at: Option<Timestamp>) -> JobHandle {
    match started_at {
        Some(started_at) => JobHandle::new(format!("{STARTED_PREFIX}{}:{arn}", started_at.as_millis())),
        None => JobHandle::new(arn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::arn::MachineArn;

    const ARN_PREFIX: &str = "arn:aws:states:eu-central-1:123456789012";

    /// Machine ARNs, with or without a qualifier, lead to executions, and their handles lead back.
    #[test]
    fn execution_arn_round_trips_to_machine() {
        for qualifier in ["", ":PROD", ":7"] {
            let machine =
                MachineArn::parse(&format!("{ARN_PREFIX}:stateMachine:Nightly{qualifier}")).unwrap();
            assert_eq!(machine.as_str(), format!("{ARN_PREFIX}:stateMachine:Nightly{qualifier}"));
            assert_eq!(machine.base(), format!("{ARN_PREFIX}:stateMachine:Nightly"));
            let expected = if qualifier == ":7" { machine.as_str() } else { machine.base() };
            assert_eq!(machine.versioned(), expected);
            assert_eq!(machine.region(), "eu-central-1");
            let console = format!(
                "https://eu-central-1.console.aws.amazon.com/states/home?region=eu-central-1#/statemachines/view/{ARN_PREFIX}:stateMachine:Nightly"
            );
            assert_eq!(machine.console(), console);
            let handle = JobHandle::new(machine.execution("tb-x"));
            assert_eq!(handle.as_str(), format!("{ARN_PREFIX}:execution:Nightly:tb-x"));
            let execution = ExecutionArn::parse(&handle).unwrap();
            assert_eq!((execution.machine(), execution.is_express()), (machine.base().to_owned(), false));
            assert_eq!(execution.region(), "eu-central-1");
            let followed = attached_handle(handle.as_str());
            let followed = ExecutionArn::parse(&followed).unwrap();
            assert!(followed.is_attached() && !execution.is_attached());
            assert_eq!((followed.as_str(), followed.machine()), (execution.as_str(), execution.machine()));
        }
        let arn = format!("{ARN_PREFIX}:express:Quick:tb-x:0b7a");
        // Handles of older versions contain no start time.
        for started_at in [None, Some(Timestamp::from_millis(1_785_902_417_166))] {
            let handle = express_handle(&arn, started_at);
            let express = ExecutionArn::parse(&handle).unwrap();
            assert_eq!(
                (express.as_str(), express.started_at(), express.is_express()),
                (arn.as_str(), started_at, true)
            );
            assert_eq!(express.machine(), format!("{ARN_PREFIX}:stateMachine:Quick"));
        }
    }

    /// Text that is not an ARN of a state machine or of an execution is rejected.
    #[test]
    fn invalid_arn_parses_to_none() {
        for text in [
            "",
            "Nightly",
            "arn:aws:states",
            "arn:aws:states:::stateMachine:x",
            "arn:aws:lambda:eu-central-1:1:stateMachine:x",
            "arn:aws:states:eu-central-1:1:stateMachine:",
            "arn:aws:states:eu-central-1:1:stateMachine:a:b:c",
            "arn:aws:states:eu-central-1:1:stateMachine:a:",
            "arn:aws:states:eu-central-1:1:stateMachine:a/b",
            "arn:aws:states:eu-central-1:1:execution:a:b",
        ] {
            assert_eq!(MachineArn::parse(text), None, "{text}");
        }
        for text in [
            "",
            "local:h:b:k",
            "arn:aws:states:r:1:execution:a",
            "arn:aws:states:r:1:execution:a/b:c:d",
            "began:x:arn:aws:states:r:1:express:a:b:c",
        ] {
            assert_eq!(ExecutionArn::parse(&JobHandle::new(text)), None, "{text}");
        }
        assert!(is_name("Nightly-build_2") && !is_name("a b") && !is_name(""));
    }
}
