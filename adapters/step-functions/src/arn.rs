//! The names of state machines and executions. It must not ask AWS about any.

use taskbridge_sdk::{JobHandle, Timestamp};

/// A state machine, perhaps one version or alias of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineArn {
    text: String,
    /// How much of `text` names the machine without a version or alias.
    base: usize,
}

/// An execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionArn<'a> {
    text: &'a str,
    /// `arn:PARTITION:states:REGION:ACCOUNT`.
    place: &'a str,
    region: &'a str,
    machine: &'a str,
    express: bool,
    attached: bool,
    began: Option<Timestamp>,
}

/// How the handle of an execution begins that was not started here, and is not to be stopped from here.
const ATTACHED: &str = "attached:";

/// How the handle of an Express execution begins, before the milliseconds at which it began: AWS does not tell that again.
const BEGAN: &str = "began:";

/// `arn:PARTITION:states:REGION:ACCOUNT`, and what comes after it.
fn place(text: &str) -> Option<(&str, &str, &str)> {
    let mut colons = text.match_indices(':').map(|(at, _)| at);
    let ends: [usize; 5] = std::array::from_fn(|_| colons.next().unwrap_or(0));
    let (place, rest) = (text.get(..ends[4])?, text.get(ends[4] + 1..)?);
    let parts: Vec<&str> = place.split(':').collect();
    let named = matches!(parts[..], ["arn", partition, "states", region, account]
        if !partition.is_empty() && !region.is_empty() && !account.is_empty());
    named.then(|| (place, parts[3], rest))
}

/// Whether this can be the name of a state machine or an execution.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=80).contains(&name.chars().count())
        && !name
            .contains(|c: char| c.is_whitespace() || c.is_control() || "<>{}[]?*\"#%\\^|~`$&,;:/".contains(c))
}

impl MachineArn {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (place, _, rest) = place(text)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (name, qualified) = match parts[..] {
            ["stateMachine", name] => (name, false),
            ["stateMachine", name, qualifier] if !qualifier.is_empty() => (name, true),
            _ => return None,
        };
        let base = place.len() + ":stateMachine:".len() + name.len();
        (is_name(name) && (qualified || base == text.len())).then(|| Self { text: text.to_owned(), base })
    }

    /// All of it, as an execution is started with it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Without a version or alias.
    pub(crate) fn base(&self) -> &str {
        &self.text[..self.base]
    }

    /// With its version; without an alias, which may stand for several.
    pub(crate) fn versioned(&self) -> &str {
        let qualifier = self.text[self.base..].trim_start_matches(':');
        let is_version = !qualifier.is_empty() && qualifier.bytes().all(|byte| byte.is_ascii_digit());
        if is_version { &self.text } else { self.base() }
    }

    pub(crate) fn region(&self) -> &str {
        self.text.split(':').nth(3).unwrap_or_default()
    }

    /// Its page in the console of AWS, with its executions and where they log.
    pub(crate) fn console(&self) -> String {
        format!("{}#/statemachines/view/{}", console(&self.text), self.base())
    }

    /// The execution of this name.
    pub(crate) fn execution(&self, name: &str) -> String {
        format!("{}:{name}", self.base().replacen(":stateMachine:", ":execution:", 1))
    }
}

impl<'a> ExecutionArn<'a> {
    pub(crate) fn parse(handle: &'a JobHandle) -> Option<Self> {
        let (text, attached) = match handle.as_str().strip_prefix(ATTACHED) {
            Some(text) => (text, true),
            None => (handle.as_str(), false),
        };
        let (text, began) = match text.strip_prefix(BEGAN).and_then(|rest| rest.split_once(':')) {
            Some((began, text)) => (text, Some(Timestamp::from_millis(began.parse().ok()?))),
            None => (text, None),
        };
        let (place, region, rest) = place(text)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (machine, express) = match parts[..] {
            ["execution", machine, name] if !name.is_empty() => (machine, false),
            ["express", machine, name, id] if !name.is_empty() && !id.is_empty() => (machine, true),
            _ => return None,
        };
        is_name(machine).then_some(Self { text, place, region, machine, express, attached, began })
    }

    pub(crate) fn as_str(&self) -> &str {
        self.text
    }

    pub(crate) fn region(&self) -> &str {
        self.region
    }

    /// The ARN of its state machine.
    pub(crate) fn machine(&self) -> String {
        format!("{}:stateMachine:{}", self.place, self.machine)
    }

    /// True if it was begun by somebody else, and is only followed.
    pub(crate) fn is_attached(&self) -> bool {
        self.attached
    }

    /// When it began, where the handle says so.
    pub(crate) fn began(&self) -> Option<Timestamp> {
        self.began
    }

    /// True if Step Functions answers no questions about it.
    pub(crate) fn is_express(&self) -> bool {
        self.express
    }
}

/// The page of an execution in the console of AWS. There is none that the name of an Express execution leads to.
pub(crate) fn execution_console(arn: &str) -> Option<String> {
    arn.contains(":execution:").then(|| format!("{}#/v2/executions/details/{arn}", console(arn)))
}

/// The console of Step Functions in the region that this names.
fn console(arn: &str) -> String {
    let mut parts = arn.split(':').skip(1);
    let host = match parts.next() {
        Some("aws-cn") => "console.amazonaws.cn",
        Some("aws-us-gov") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    let region = parts.nth(1).unwrap_or_default();
    format!("https://{region}.{host}/states/home?region={region}")
}

/// The handle by which an execution is only followed.
pub(crate) fn attached(arn: &str) -> JobHandle {
    JobHandle::new(format!("{ATTACHED}{arn}"))
}

/// The handle of an Express execution that began then.
pub(crate) fn express(arn: &str, began: Option<Timestamp>) -> JobHandle {
    match began {
        Some(began) => JobHandle::new(format!("{BEGAN}{}:{arn}", began.as_millis())),
        None => JobHandle::new(arn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "arn:aws:states:eu-central-1:123456789012";

    #[test]
    fn a_machine_leads_to_its_executions_and_back() {
        for qualifier in ["", ":PROD", ":7"] {
            let machine = MachineArn::parse(&format!("{PLACE}:stateMachine:Nightly{qualifier}")).unwrap();
            assert_eq!(machine.as_str(), format!("{PLACE}:stateMachine:Nightly{qualifier}"));
            assert_eq!(machine.base(), format!("{PLACE}:stateMachine:Nightly"));
            let described = if qualifier == ":7" { machine.as_str() } else { machine.base() };
            assert_eq!(machine.versioned(), described);
            assert_eq!(machine.region(), "eu-central-1");
            let console = format!(
                "https://eu-central-1.console.aws.amazon.com/states/home?region=eu-central-1#/statemachines/view/{PLACE}:stateMachine:Nightly"
            );
            assert_eq!(machine.console(), console);
            let handle = JobHandle::new(machine.execution("tb-x"));
            assert_eq!(handle.as_str(), format!("{PLACE}:execution:Nightly:tb-x"));
            let execution = ExecutionArn::parse(&handle).unwrap();
            assert_eq!((execution.machine(), execution.is_express()), (machine.base().to_owned(), false));
            assert_eq!(execution.region(), "eu-central-1");
            let followed = attached(handle.as_str());
            let followed = ExecutionArn::parse(&followed).unwrap();
            assert!(followed.is_attached() && !execution.is_attached());
            assert_eq!((followed.as_str(), followed.machine()), (execution.as_str(), execution.machine()));
        }
        let arn = format!("{PLACE}:express:Quick:tb-x:0b7a");
        // Handles of versions before this one do not say when it began.
        for began in [None, Some(Timestamp::from_millis(1_785_902_417_166))] {
            let handle = express(&arn, began);
            let express = ExecutionArn::parse(&handle).unwrap();
            assert_eq!(
                (express.as_str(), express.began(), express.is_express()),
                (arn.as_str(), began, true)
            );
            assert_eq!(express.machine(), format!("{PLACE}:stateMachine:Quick"));
        }
    }

    #[test]
    fn what_is_no_arn_of_theirs_is_none() {
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
