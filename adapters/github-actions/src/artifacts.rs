//! Artifacts of a run. `report.zip` is the artifact `report` as GitHub keeps it, and `report/x.json` is the
//! file `x.json` in it. An artifact that was uploaded without an archive is a file of its own name.

use std::collections::HashMap;

use taskbridge_sdk::{
    Artifact, ArtifactData, Artifacts, Error, JobHandle, Result, Timestamp, async_trait, media_type,
};

use crate::archive::{Archive, too_large};
use crate::backend::Actions;
use crate::handle::RunHandle;
use crate::links::Body;
use crate::partial_read::PartialReader;
use crate::wire::{self, moment};

/// Artifact with which a workflow returns data, and its name without an archive.
const OUTPUT: [&str; 2] = ["taskbridge-output", "taskbridge-output.json"];
/// Maximum size of an artifact from which a single file is read, because it must be fetched whole.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Maximum size of an artifact that is opened at the end of a run, to list its files or to read the data that
/// it returns.
const LARGEST_NAMED: u64 = 1024 * 1024;
/// Maximum number of artifacts that are opened to list their files.
const MOST_NAMED: usize = 5;
/// Maximum number of artifacts with a dot in their names that are checked for being plain files.
const MOST_ASKED: usize = 10;
/// Maximum number of pages of artifacts, a hundred each. Later artifacts are ignored.
const MOST_PAGES: usize = 5;

/// Artifacts and data of a run.
#[derive(Default)]
pub(crate) struct RunOutput {
    pub(crate) artifacts: Vec<Artifact>,
    /// Data that the run returned.
    pub(crate) output: Option<serde_json::Value>,
}

/// Fetched artifact.
enum ArtifactContent {
    Zip(Archive),
    File(Vec<u8>),
}

impl Actions {
    /// Returns the artifacts of a run. If a name occurs twice and there is a later attempt, all artifacts
    /// that were made since its start are left out. Of several with one name, only the newest remains.
    async fn kept(&self, place: &RunHandle) -> Result<Vec<wire::Artifact>> {
        let mut all: Vec<wire::Artifact> = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("{}/artifacts?per_page=100&page={page}", place.path());
            let found: wire::Artifacts = match self.api.get("the artifacts", &path).await {
                Ok(found) => found,
                Err(failure) if failure.is(404) => break,
                Err(failure) => return Err(failure.into()),
            };
            let last = found.artifacts.len() < 100;
            all.extend(found.artifacts);
            if last {
                break;
            }
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        for artifact in &all {
            *names.entry(&artifact.name).or_default() += 1;
        }
        if names.values().any(|count| *count > 1)
            && let Some(next) = self.next_attempt(place).await?
        {
            all.retain(|artifact| made(artifact) < Some(next));
        }
        Ok(newest(all))
    }

    /// Returns the start time of the next attempt, if there is one.
    async fn next_attempt(&self, place: &RunHandle) -> Result<Option<Timestamp>> {
        let next = RunHandle { attempt: place.attempt + 1, ..place.clone() };
        match self.api.get::<wire::Run>("the next attempt", &next.attempt_path()).await {
            Ok(next) => Ok(moment(next.run_started_at.as_deref())),
            Err(failure) if failure.is(404) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the artifacts and data that an ended run left since `since`, or at any time if that is `None`.
    pub(crate) async fn read_output(
        &self,
        place: &RunHandle,
        since: Option<Timestamp>,
        gathering: &mut PartialReader,
    ) -> Result<RunOutput> {
        let mut left = RunOutput::default();
        let (mut opened, mut asked) = (0, 0);
        let kept = gathering.part("the artifacts", self.kept(place)).await?;
        for artifact in kept.iter().filter(|artifact| since.is_none() || made(artifact) >= since) {
            let is_output = OUTPUT.contains(&artifact.name.as_str());
            let is_small = artifact.size_in_bytes <= LARGEST_NAMED && !artifact.expired;
            let what = format!("the artifact {}", artifact.name);
            if is_small && (is_output || opened < MOST_NAMED) {
                opened += usize::from(!is_output);
                match gathering.part(&what, self.fetch_content(place, artifact)).await? {
                    Some(held) if is_output && left.output.is_none() => {
                        left.output = data_in(held);
                        if left.output.is_none() {
                            left.artifacts.push(archived(artifact));
                        }
                    }
                    Some(ArtifactContent::Zip(mut archive)) => {
                        left.artifacts.push(archived(artifact));
                        left.artifacts.extend(archive.files().into_iter().map(|(name, size)| Artifact {
                            mime_type: media_type(&name).map(str::to_owned),
                            name: format!("{}/{name}", artifact.name),
                            size: Some(size),
                        }));
                    }
                    Some(ArtifactContent::File(_)) => left.artifacts.push(plain(artifact)),
                    None => left.artifacts.push(archived(artifact)),
                }
                continue;
            }
            let may_be_file = artifact.name.contains('.') && !artifact.expired && asked < MOST_ASKED;
            asked += usize::from(may_be_file);
            let is_file = may_be_file && gathering.part(&what, self.is_file(place, artifact)).await?;
            left.artifacts.push(if is_file { plain(artifact) } else { archived(artifact) });
        }
        Ok(left)
    }

    /// Fetches a small artifact. `None` if it cannot be opened, or has expired in the meantime.
    async fn fetch_content(
        &self,
        place: &RunHandle,
        artifact: &wire::Artifact,
    ) -> Result<Option<ArtifactContent>> {
        let Some(body) = self.fetch(place, artifact).await? else { return Ok(None) };
        let is_zip = body.is_zip();
        // An artifact that is larger than GitHub reports is listed without its files.
        let Some(bytes) = body.all(LARGEST_NAMED).await? else { return Ok(None) };
        Ok(if is_zip {
            Archive::open(bytes).ok().map(ArtifactContent::Zip)
        } else {
            Some(ArtifactContent::File(bytes))
        })
    }

    /// Returns true if an artifact was uploaded without an archive. Does not fetch its content.
    async fn is_file(&self, place: &RunHandle, artifact: &wire::Artifact) -> Result<bool> {
        Ok(self.fetch(place, artifact).await?.is_some_and(|body| !body.is_zip()))
    }

    /// Opens the content of an artifact as a stream. `None` if it has expired in the meantime.
    async fn fetch(&self, place: &RunHandle, artifact: &wire::Artifact) -> Result<Option<Body>> {
        if artifact.expired {
            return Ok(None);
        }
        let path = format!("/repos/{}/actions/artifacts/{}/zip", place.repository, artifact.id);
        match self.links.open(&self.api, &format!("the artifact {}", artifact.name), &path).await {
            Ok(body) => Ok(Some(body)),
            Err(failure) if failure.is(404) || failure.is(410) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Returns the creation time of an artifact.
fn made(artifact: &wire::Artifact) -> Option<Timestamp> {
    moment(artifact.created_at.as_deref())
}

/// Keeps only the newest artifact of each name, at the position of the first.
fn newest(all: Vec<wire::Artifact>) -> Vec<wire::Artifact> {
    let mut kept: Vec<wire::Artifact> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for artifact in all {
        match places.get(&artifact.name) {
            Some(at) if (made(&artifact), artifact.id) > (made(&kept[*at]), kept[*at].id) => {
                kept[*at] = artifact;
            }
            Some(_) => {}
            None => {
                places.insert(artifact.name.clone(), kept.len());
                kept.push(artifact);
            }
        }
    }
    kept
}

/// Returns the data that a workflow returns: the first JSON file of an archive, or the file itself.
fn data_in(held: ArtifactContent) -> Option<serde_json::Value> {
    let bytes = match held {
        ArtifactContent::File(bytes) => bytes,
        ArtifactContent::Zip(mut archive) => {
            let files = archive.files();
            let (name, _) = files.iter().find(|(name, _)| name.ends_with(".json"))?;
            // If the file is too large, the artifact contains no data.
            archive.read(name, LARGEST_NAMED).ok()??
        }
    };
    serde_json::from_slice(&bytes).ok()
}

/// Describes an artifact as an archive.
fn archived(artifact: &wire::Artifact) -> Artifact {
    let suffix = if artifact.name.ends_with(".zip") { "" } else { ".zip" };
    Artifact {
        name: format!("{}{suffix}", artifact.name),
        mime_type: Some("application/zip".to_owned()),
        size: Some(artifact.size_in_bytes),
    }
}

/// Describes an artifact as a plain file.
fn plain(artifact: &wire::Artifact) -> Artifact {
    Artifact {
        name: artifact.name.clone(),
        mime_type: media_type(&artifact.name).map(str::to_owned),
        size: Some(artifact.size_in_bytes),
    }
}

#[async_trait]
impl Artifacts for Actions {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(place) = RunHandle::parse(handle) else { return Ok(None) };
        let (wanted, entry) = match name.split_once('/') {
            Some((artifact, entry)) => (artifact, Some(entry)),
            None => (name, None),
        };
        let kept = self.kept(&place).await?;
        let named = |name: &str| kept.iter().find(|one| one.name == name);
        let without_suffix = || named(wanted.strip_suffix(".zip").filter(|_| entry.is_none())?);
        let Some(artifact) = named(wanted).or_else(without_suffix) else { return Ok(None) };
        let name = &artifact.name;
        if artifact.expired {
            return Err(Error::rejected(format!(
                "GitHub has deleted the artifact `{name}`: its time was over"
            )));
        }
        let most = if entry.is_some() { LARGEST } else { max_bytes };
        if artifact.size_in_bytes > most {
            return Err(too_large(name, artifact.size_in_bytes, most));
        }
        let Some(body) = self.fetch(&place, artifact).await? else { return Ok(None) };
        let is_zip = body.is_zip();
        // An archive is offered only under a name with `.zip`, and a plain file contains no files.
        if (is_zip && entry.is_none() && !wanted.ends_with(".zip")) || (!is_zip && entry.is_some()) {
            return Ok(None);
        }
        let given = body.media_type().to_owned();
        let Some(bytes) = body.all(most).await? else {
            return Err(too_large(name, artifact.size_in_bytes.max(most + 1), most));
        };
        if let Some(entry) = entry {
            let bytes = Archive::open(bytes)?.read(entry, max_bytes)?;
            return Ok(
                bytes.map(|bytes| ArtifactData { bytes, mime_type: media_type(entry).map(str::to_owned) })
            );
        }
        let known = if is_zip { Some("application/zip") } else { media_type(name) };
        let mime_type = known.map(str::to_owned).or_else(|| Some(given).filter(|given| !given.is_empty()));
        Ok(Some(ArtifactData { bytes, mime_type }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_artifact_of_name_counts() {
        let artifact = |id, name: &str, at: &str| wire::Artifact {
            id,
            name: name.to_owned(),
            size_in_bytes: 1,
            expired: false,
            created_at: Some(format!("2026-01-01T00:00:{at}Z")),
        };
        let all = vec![
            artifact(5, "report", "10"),
            artifact(6, "other", "10"),
            artifact(3, "report", "40"),
            artifact(9, "report", "20"),
            artifact(7, "other", "10"),
        ];
        let kept: Vec<u64> = newest(all).iter().map(|artifact| artifact.id).collect();
        assert_eq!(kept, [3, 7]);
    }
}
