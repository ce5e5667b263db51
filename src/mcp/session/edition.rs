//! [`Edition`]: which lists a client knows, as hashes. By it, a stream detects which lists have changed since
//! it reported them. It must not know how the lists are made.

use serde::{Deserialize, Serialize};

/// Hashes of the lists, to detect changes. Equal in every process with the same offers and the same version
/// of this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edition {
    #[serde(rename = "t")]
    pub(crate) tools: u32,
    #[serde(rename = "p")]
    pub(crate) prompts: u32,
    #[serde(rename = "r")]
    pub(crate) resources: u32,
    /// Contents of the resources. They are in no list, but subscribers are notified of changes.
    #[serde(rename = "c")]
    pub(crate) contents: u32,
    /// Access rules. They are never sent; a change only wakes streams whose lists may have changed.
    #[serde(skip)]
    pub(crate) rules: u32,
}

/// A list that clients read, with change notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list` and `resources/templates/list`.
    Resources,
}

impl List {
    /// All of them.
    pub const ALL: [List; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

impl Edition {
    /// Returns the lists that differ from the other edition. Contents and rules are no lists.
    pub fn differing(self, other: Self) -> impl Iterator<Item = List> {
        let differs = move |list: &List| match list {
            List::Tools => self.tools != other.tools,
            List::Prompts => self.prompts != other.prompts,
            List::Resources => self.resources != other.resources,
        };
        List::ALL.into_iter().filter(differs)
    }
}
