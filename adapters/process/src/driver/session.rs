//! [`Session`]: what a program said in `initialize`, checked. It must not trust a number or a text in it.

use std::collections::BTreeSet;
use std::time::Duration;

use taskbridge_sdk::one_line;

use crate::protocol::{InitializeResult, Once, VERSION};

/// Longest time that a program can claim for a lag or a key.
const MAX_TIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// Longest text of an identity, in bytes.
const MAX_IDENTITY: usize = 256;

/// What a program can do beyond the required methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ability {
    Answer,
    Artifact,
    Changed,
    CheckUp,
    Discover,
    Files,
    Forget,
    Log,
}

impl Ability {
    const ALL: [Self; 8] = [
        Self::Answer,
        Self::Artifact,
        Self::Changed,
        Self::CheckUp,
        Self::Discover,
        Self::Files,
        Self::Forget,
        Self::Log,
    ];

    /// Returns the name on the wire.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Answer => "answer",
            Self::Artifact => "artifact",
            Self::Changed => "changed",
            Self::CheckUp => "check_up",
            Self::Discover => "discover",
            Self::Files => "files",
            Self::Forget => "forget",
            Self::Log => "log",
        }
    }

    /// Returns the ability of this name. Programs may have abilities of later versions.
    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ability| ability.name() == name)
    }
}

/// What a program said about itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Session {
    pub(crate) once: Once,
    pub(crate) key_lasts: Option<Duration>,
    abilities: BTreeSet<Ability>,
    pub(crate) identity: Option<String>,
    pub(crate) group_separator: Option<String>,
    pub(crate) start_lag: Duration,
    pub(crate) list_lag: Duration,
}

/// A program that has said nothing yet.
impl Default for Session {
    fn default() -> Self {
        Self {
            once: Once::None,
            key_lasts: None,
            abilities: BTreeSet::new(),
            identity: None,
            group_separator: None,
            start_lag: Duration::ZERO,
            list_lag: Duration::ZERO,
        }
    }
}

impl Session {
    /// Checks the result of `initialize`.
    ///
    /// # Errors
    /// A text that names the member that is wrong.
    pub(crate) fn new(result: InitializeResult) -> Result<Self, String> {
        let InitializeResult {
            protocol,
            once,
            key_lasts_ms,
            abilities,
            identity,
            group_separator,
            start_lag_ms,
            list_lag_ms,
            schemas: _,
        } = result;
        if protocol != VERSION {
            return Err(format!("it speaks version {protocol} of the protocol, not {VERSION}"));
        }
        if let Some(identity) = &identity
            && (identity.is_empty() || identity.len() > MAX_IDENTITY || one_line(identity) != *identity)
        {
            return Err(format!("identity: must be one line of 1 to {MAX_IDENTITY} bytes"));
        }
        let time = |ms| Duration::from_millis(ms).min(MAX_TIME);
        Ok(Self {
            once,
            key_lasts: key_lasts_ms.map(time),
            abilities: abilities.iter().filter_map(|name| Ability::parse(name)).collect(),
            identity,
            group_separator: group_separator.filter(|text| !text.is_empty()),
            start_lag: time(start_lag_ms),
            list_lag: time(list_lag_ms),
        })
    }

    pub(crate) fn has(&self, ability: Ability) -> bool {
        self.abilities.contains(&ability)
    }
}
