//! ARNs of state machines, and what all ARNs have in common. It must not call AWS.

/// ARN of a state machine, optionally with a version or alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineArn {
    text: String,
    /// Length of the prefix of `text` without the version or alias.
    base: usize,
}

/// Splits an ARN into `arn:PARTITION:states:REGION:ACCOUNT`, the region, and the rest.
pub(super) fn split_arn(text: &str) -> Option<(&str, &str, &str)> {
    let mut colons = text.match_indices(':').map(|(at, _)| at);
    let ends: [usize; 5] = std::array::from_fn(|_| colons.next().unwrap_or(0));
    let (prefix, rest) = (text.get(..ends[4])?, text.get(ends[4] + 1..)?);
    let parts: Vec<&str> = prefix.split(':').collect();
    let is_valid = matches!(parts[..], ["arn", partition, "states", region, account]
        if !partition.is_empty() && !region.is_empty() && !account.is_empty());
    is_valid.then(|| (prefix, parts[3], rest))
}

/// Returns true if this is a valid name of a state machine or an execution.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=80).contains(&name.chars().count())
        && !name
            .contains(|c: char| c.is_whitespace() || c.is_control() || "<>{}[]?*\"#%\\^|~`$&,;:/".contains(c))
}

impl MachineArn {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (prefix, _, rest) = split_arn(text)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (name, qualified) = match parts[..] {
            ["stateMachine", name] => (name, false),
            ["stateMachine", name, qualifier] if !qualifier.is_empty() => (name, true),
            _ => return None,
        };
        let base = prefix.len() + ":stateMachine:".len() + name.len();
        (is_name(name) && (qualified || base == text.len())).then(|| Self { text: text.to_owned(), base })
    }

    /// Returns the full ARN, with which an execution is started.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the ARN without a version or alias.
    pub(crate) fn base(&self) -> &str {
        &self.text[..self.base]
    }

    /// Returns the ARN with its version, but without an alias, which may point to several versions.
    pub(crate) fn versioned(&self) -> &str {
        let qualifier = self.text[self.base..].trim_start_matches(':');
        let is_version = !qualifier.is_empty() && qualifier.bytes().all(|byte| byte.is_ascii_digit());
        if is_version { &self.text } else { self.base() }
    }

    pub(crate) fn region(&self) -> &str {
        self.text.split(':').nth(3).unwrap_or_default()
    }

    /// Returns the URL of its page in the AWS console, which shows its executions and its log group.
    pub(crate) fn console(&self) -> String {
        format!("{}#/statemachines/view/{}", console(&self.text), self.base())
    }

    /// Returns the ARN of the execution with this name.
    pub(crate) fn execution(&self, name: &str) -> String {
        format!("{}:{name}", self.base().replacen(":stateMachine:", ":execution:", 1))
    }
}

/// Returns the URL of the Step Functions console in the region of this ARN.
pub(super) fn console(arn: &str) -> String {
    let mut parts = arn.split(':').skip(1);
    let host = match parts.next() {
        Some("aws-cn") => "console.amazonaws.cn",
        Some("aws-us-gov") => "console.amazonaws-us-gov.com",
        _ => "console.aws.amazon.com",
    };
    let region = parts.nth(1).unwrap_or_default();
    format!("https://{region}.{host}/states/home?region={region}")
}
