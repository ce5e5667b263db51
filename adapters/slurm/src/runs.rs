//! The runs of an ended job, read from its folder. An array can have thousands. A poll reads until its
//! deadline, and the next one continues. All of it may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio::time::Instant;

use crate::end::{EndMarker, Run};
use crate::folder::Folder;

/// What has been read so far.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The ends of the runs. A marker is written atomically and never changes.
    ends: BTreeMap<Run, EndMarker>,
    /// Runs whose marker is invalid.
    no_ends: BTreeSet<Run>,
    /// Runs without a marker: `None` if the server closed their fence, otherwise whether a second run found
    /// it.
    fences: BTreeMap<Run, Option<bool>>,
}

/// The complete result.
#[derive(Debug, Default)]
pub(crate) struct AllRuns {
    /// The runs that began, and whether a second run found their fence.
    pub(crate) ran: BTreeMap<Run, bool>,
    pub(crate) ends: BTreeMap<Run, EndMarker>,
}

impl Runs {
    /// Continues reading until the deadline, with at least one file; without a deadline, to the end. Returns
    /// the result once everything has been read.
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
            // A run with an end marker has created its own fence.
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
        // Values that may change are read again for the next result.
        self.no_ends.clear();
        self.fences.clear();
        Ok(Some(AllRuns { ran, ends: self.ends.clone() }))
    }

    /// Returns the number of runs whose markers have been read.
    pub(crate) fn count(&self) -> usize {
        self.ends.len() + self.no_ends.len()
    }
}
