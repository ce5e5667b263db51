//! The runs of an ended job, read from its folder. An array can have thousands. A poll reads until its
//! deadline, and the next one continues. All of it may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use tokio::time::Instant;

use crate::store::end_marker::{EndMarker, Run};
use crate::store::folder::Folder;

/// What has been read so far.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The ends of the runs. A marker is written atomically and never changes.
    end_markers: BTreeMap<Run, EndMarker>,
    /// Runs whose marker is invalid.
    invalid_markers: BTreeSet<Run>,
    /// Runs without a marker: `None` if the server closed their fence, otherwise whether a second run found
    /// it.
    fences: BTreeMap<Run, Option<bool>>,
}

/// The complete result.
#[derive(Debug, Default)]
pub(crate) struct AllRuns {
    /// The runs that began, and whether a second run found their fence.
    pub(crate) started_runs: BTreeMap<Run, bool>,
    pub(crate) end_markers: BTreeMap<Run, EndMarker>,
}

impl Runs {
    /// Continues reading until the deadline, with at least one file; without a deadline, to the end. Returns
    /// the result once everything has been read.
    pub(crate) fn read(&mut self, folder: &Folder, deadline: Option<Instant>) -> io::Result<Option<AllRuns>> {
        let (fences, markers) = (folder.fences()?, folder.markers()?);
        let mut is_first = true;
        let mut is_late =
            || !std::mem::take(&mut is_first) && deadline.is_some_and(|deadline| Instant::now() >= deadline);
        for (run, path) in markers {
            if self.end_markers.contains_key(&run) || self.invalid_markers.contains(&run) {
                continue;
            }
            if is_late() {
                return Ok(None);
            }
            match Folder::read_end(&path)? {
                Some(end) => drop(self.end_markers.insert(run, end)),
                None => drop(self.invalid_markers.insert(run)),
            }
        }
        let mut started_runs = BTreeMap::new();
        for (run, fence) in fences {
            // A run with an end marker has created its own fence.
            if self.end_markers.contains_key(&run) {
                started_runs.insert(run, false);
                continue;
            }
            let fence_state = match self.fences.get(&run) {
                Some(fence_state) => *fence_state,
                None if is_late() => return Ok(None),
                None => {
                    let fence_state = Folder::second_run_found(&fence)?;
                    self.fences.insert(run, fence_state);
                    fence_state
                }
            };
            if let Some(was_repeated) = fence_state {
                started_runs.insert(run, was_repeated);
            }
        }
        // Values that may change are read again for the next result.
        self.invalid_markers.clear();
        self.fences.clear();
        Ok(Some(AllRuns { started_runs, end_markers: self.end_markers.clone() }))
    }

    /// Returns the number of runs whose markers have been read.
    pub(crate) fn count(&self) -> usize {
        self.end_markers.len() + self.invalid_markers.len()
    }
}

#[cfg(test)]
impl Folder {
    /// Returns all runs that began, and the ends of those that have ended.
    pub(crate) fn all_runs(&self) -> AllRuns {
        Runs::default().read(self, None).unwrap().unwrap()
    }
}
