//! The runs of an array that is over, as its folder tells of them. There can be thousands, and a look reads as many as it has time for:
//! the next one reads on. All of it may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio::time::Instant;

use crate::end::{End, Run};
use crate::folder::Folder;

/// What has been read.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// How they ended. A marker is put in its place whole, and never changes.
    ends: BTreeMap<Run, End>,
    /// Where something stands that is no marker.
    no_ends: BTreeSet<Run>,
    /// Those without a marker: whether they began themselves, and if so, whether a second one came to their fence.
    fences: BTreeMap<Run, Option<bool>>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct AllRuns {
    /// Those that began, and whether a second one came to them.
    pub(crate) ran: BTreeMap<Run, bool>,
    pub(crate) ends: BTreeMap<Run, End>,
}

impl Runs {
    /// Reads on until then, and at least one. All of them, once all have been read.
    pub(crate) fn read(&mut self, folder: &Folder, until: Option<Instant>) -> io::Result<Option<AllRuns>> {
        let (fences, markers) = (folder.fences()?, folder.markers()?);
        let mut is_first = true;
        let mut is_late =
            || !std::mem::take(&mut is_first) && until.is_some_and(|until| Instant::now() >= until);
        for (run, path) in markers {
            if self.ends.contains_key(&run) || self.no_ends.contains(&run) {
                continue;
            }
            if is_late() {
                return Ok(None);
            }
            match Folder::end(&path)? {
                Some(end) => drop(self.ends.insert(run, end)),
                None => drop(self.no_ends.insert(run)),
            }
        }
        let mut ran = BTreeMap::new();
        for (run, fence) in fences {
            // Whoever wrote down how it ended has put up its fence.
            if self.ends.contains_key(&run) {
                ran.insert(run, false);
                continue;
            }
            let began = match self.fences.get(&run) {
                Some(began) => *began,
                None if is_late() => return Ok(None),
                None => {
                    let began = Folder::began(&fence)?;
                    self.fences.insert(run, began);
                    began
                }
            };
            if let Some(again) = began {
                ran.insert(run, again);
            }
        }
        // What may change is read anew if it is asked for once more.
        self.no_ends.clear();
        self.fences.clear();
        Ok(Some(AllRuns { ran, ends: self.ends.clone() }))
    }

    /// Of how many it has been read how they ended.
    pub(crate) fn count(&self) -> usize {
        self.ends.len() + self.no_ends.len()
    }
}
