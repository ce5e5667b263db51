//! Artifacts of a run. `report.zip` is the artifact `report` as GitHub keeps it, and `report/x.json` is the
//! file `x.json` in it. An artifact that was uploaded without an archive is a file of its own name.

use std::collections::HashMap;

use taskbridge_sdk::{
    Artifact, ArtifactData, Artifacts, Error, JobHandle, Result, Timestamp, async_trait, media_type,
};

use crate::core::Actions;
use crate::driver::links::Body;
use crate::driver::wire::{self, parse_time};
use crate::identity::handle::RunHandle;
use crate::result::archive::{Archive, too_large};
use crate::result::partial_read::PartialReader;

/// Artifact with which a workflow returns data, and its name without an archive.
const OUTPUT_NAMES: [&str; 2] = ["taskbridge-output", "taskbridge-output.json"];
/// Maximum size of an artifact from which a single file is read, because it must be fetched whole.
const MAX_ARCHIVE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of an artifact that is opened at the end of a run, to list its files or to read the data that
/// it returns.
const MAX_OPENED_BYTES: u64 = 1024 * 1024;
/// Maximum number of artifacts that are opened to list their files.
const MAX_OPENED_ARTIFACTS: usize = 5;
/// Maximum number of artifacts with a dot in their names that are checked for being plain files.
const MAX_PROBED_ARTIFACTS: usize = 10;
/// Maximum number of pages of artifacts, a hundred each. Later artifacts are ignored.
const MAX_PAGES: usize = 5;

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
    async fn list_artifacts(&self, run_handle: &RunHandle) -> Result<Vec<wire::Artifact>> {
        let mut artifacts: Vec<wire::Artifact> = Vec::new();
        for page in 1..=MAX_PAGES {
            let path = format!("{}/artifacts?per_page=100&page={page}", run_handle.path());
            let response: wire::Artifacts = match self.api.get("the artifacts", &path).await {
                Ok(response) => response,
                Err(failure) if failure.has_status(404) => break,
                Err(failure) => return Err(failure.into()),
            };
            let is_last_page = response.artifacts.len() < 100;
            artifacts.extend(response.artifacts);
            if is_last_page {
                break;
            }
        }
        let mut names: HashMap<&str, usize> = HashMap::new();
        for artifact in &artifacts {
            *names.entry(&artifact.name).or_default() += 1;
        }
        if names.values().any(|count| *count > 1)
            && let Some(next_start) = self.next_attempt_start(run_handle).await?
        {
            artifacts.retain(|artifact| created_at(artifact) < Some(next_start));
        }
        Ok(newest_per_name(artifacts))
    }

    /// Returns the start time of the next attempt, if there is one.
    async fn next_attempt_start(&self, run_handle: &RunHandle) -> Result<Option<Timestamp>> {
        let next_handle = RunHandle { attempt: run_handle.attempt + 1, ..run_handle.clone() };
        match self.api.get::<wire::Run>("the next attempt", &next_handle.attempt_path()).await {
            Ok(run) => Ok(parse_time(run.run_started_at.as_deref())),
            Err(failure) if failure.has_status(404) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Returns the artifacts and data that an ended run left since `since`, or at any time if that is `None`.
    pub(crate) async fn read_output(
        &self,
        run_handle: &RunHandle,
        since: Option<Timestamp>,
        reader: &mut PartialReader,
    ) -> Result<RunOutput> {
        let mut run_output = RunOutput::default();
        let (mut opened_count, mut probed_count) = (0, 0);
        let artifacts = reader.read_part("the artifacts", self.list_artifacts(run_handle)).await?;
        for artifact in artifacts.iter().filter(|artifact| since.is_none() || created_at(artifact) >= since) {
            let is_output = OUTPUT_NAMES.contains(&artifact.name.as_str());
            let is_small = artifact.size_in_bytes <= MAX_OPENED_BYTES && !artifact.expired;
            let label = format!("the artifact {}", artifact.name);
            if is_small && (is_output || opened_count < MAX_OPENED_ARTIFACTS) {
                opened_count += usize::from(!is_output);
                match reader.read_part(&label, self.fetch_content(run_handle, artifact)).await? {
                    Some(content) if is_output && run_output.output.is_none() => {
                        run_output.output = parse_output(content);
                        if run_output.output.is_none() {
                            run_output.artifacts.push(describe_archive(artifact));
                        }
                    }
                    Some(ArtifactContent::Zip(mut archive)) => {
                        run_output.artifacts.push(describe_archive(artifact));
                        run_output.artifacts.extend(archive.files().into_iter().map(|(name, size)| {
                            Artifact {
                                mime_type: media_type(&name).map(str::to_owned),
                                name: format!("{}/{name}", artifact.name),
                                size: Some(size),
                            }
                        }));
                    }
                    Some(ArtifactContent::File(_)) => run_output.artifacts.push(describe_file(artifact)),
                    None => run_output.artifacts.push(describe_archive(artifact)),
                }
                continue;
            }
            let may_be_file =
                artifact.name.contains('.') && !artifact.expired && probed_count < MAX_PROBED_ARTIFACTS;
            probed_count += usize::from(may_be_file);
            let is_file = may_be_file && reader.read_part(&label, self.is_file(run_handle, artifact)).await?;
            run_output.artifacts.push(if is_file {
                describe_file(artifact)
            } else {
                describe_archive(artifact)
            });
        }
        Ok(run_output)
    }

    /// Fetches a small artifact. `None` if it cannot be opened, or has expired in the meantime.
    async fn fetch_content(
        &self,
        run_handle: &RunHandle,
        artifact: &wire::Artifact,
    ) -> Result<Option<ArtifactContent>> {
        let Some(body) = self.fetch(run_handle, artifact).await? else { return Ok(None) };
        let is_zip = body.is_zip();
        // An artifact that is larger than GitHub reports is listed without its files.
        let Some(bytes) = body.read_all(MAX_OPENED_BYTES).await? else { return Ok(None) };
        Ok(if is_zip {
            Archive::open(bytes).ok().map(ArtifactContent::Zip)
        } else {
            Some(ArtifactContent::File(bytes))
        })
    }

    /// Returns true if an artifact was uploaded without an archive. Does not fetch its content.
    async fn is_file(&self, run_handle: &RunHandle, artifact: &wire::Artifact) -> Result<bool> {
        Ok(self.fetch(run_handle, artifact).await?.is_some_and(|body| !body.is_zip()))
    }

    /// Opens the content of an artifact as a stream. `None` if it has expired in the meantime.
    async fn fetch(&self, run_handle: &RunHandle, artifact: &wire::Artifact) -> Result<Option<Body>> {
        if artifact.expired {
            return Ok(None);
        }
        let path = format!("/repos/{}/actions/artifacts/{}/zip", run_handle.repository, artifact.id);
        match self.links.open(&self.api, &format!("the artifact {}", artifact.name), &path).await {
            Ok(body) => Ok(Some(body)),
            Err(failure) if failure.has_status(404) || failure.has_status(410) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

/// Returns the creation time of an artifact.
fn created_at(artifact: &wire::Artifact) -> Option<Timestamp> {
    parse_time(artifact.created_at.as_deref())
}

/// Keeps only the newest artifact of each name, at the position of the first.
fn newest_per_name(artifacts: Vec<wire::Artifact>) -> Vec<wire::Artifact> {
    let mut newest: Vec<wire::Artifact> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for artifact in artifacts {
        match positions.get(&artifact.name) {
            Some(at) if (created_at(&artifact), artifact.id) > (created_at(&newest[*at]), newest[*at].id) => {
                newest[*at] = artifact;
            }
            Some(_) => {}
            None => {
                positions.insert(artifact.name.clone(), newest.len());
                newest.push(artifact);
            }
        }
    }
    newest
}

/// Returns the data that a workflow returns: the first JSON file of an archive, or the file itself.
fn parse_output(content: ArtifactContent) -> Option<serde_json::Value> {
    let bytes = match content {
        ArtifactContent::File(bytes) => bytes,
        ArtifactContent::Zip(mut archive) => {
            let files = archive.files();
            let (name, _) = files.iter().find(|(name, _)| name.ends_with(".json"))?;
            // If the file is too large, the artifact contains no data.
            archive.read(name, MAX_OPENED_BYTES).ok()??
        }
    };
    serde_json::from_slice(&bytes).ok()
}

/// Describes an artifact as an archive.
fn describe_archive(artifact: &wire::Artifact) -> Artifact {
    let suffix = if artifact.name.ends_with(".zip") { "" } else { ".zip" };
    Artifact {
        name: format!("{}{suffix}", artifact.name),
        mime_type: Some("application/zip".to_owned()),
        size: Some(artifact.size_in_bytes),
    }
}

/// Describes an artifact as a plain file.
fn describe_file(artifact: &wire::Artifact) -> Artifact {
    Artifact {
        name: artifact.name.clone(),
        mime_type: media_type(&artifact.name).map(str::to_owned),
        size: Some(artifact.size_in_bytes),
    }
}

#[async_trait]
impl Artifacts for Actions {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(run_handle) = RunHandle::parse(handle) else { return Ok(None) };
        let (artifact_name, entry) = match name.split_once('/') {
            Some((artifact, entry)) => (artifact, Some(entry)),
            None => (name, None),
        };
        let artifacts = self.list_artifacts(&run_handle).await?;
        let find_artifact = |name: &str| artifacts.iter().find(|artifact| artifact.name == name);
        let without_suffix =
            || find_artifact(artifact_name.strip_suffix(".zip").filter(|_| entry.is_none())?);
        let Some(artifact) = find_artifact(artifact_name).or_else(without_suffix) else { return Ok(None) };
        let name = &artifact.name;
        if artifact.expired {
            return Err(Error::rejected(format!(
                "GitHub deleted the artifact `{name}`: its retention period is over"
            )));
        }
        let limit = if entry.is_some() { MAX_ARCHIVE_BYTES } else { max_bytes };
        if artifact.size_in_bytes > limit {
            return Err(too_large(name, artifact.size_in_bytes, limit));
        }
        let Some(body) = self.fetch(&run_handle, artifact).await? else { return Ok(None) };
        let is_zip = body.is_zip();
        // An archive is offered only under a name with `.zip`, and a plain file contains no files.
        if (is_zip && entry.is_none() && !artifact_name.ends_with(".zip")) || (!is_zip && entry.is_some()) {
            return Ok(None);
        }
        let reported_type = body.media_type().to_owned();
        let Some(bytes) = body.read_all(limit).await? else {
            return Err(too_large(name, artifact.size_in_bytes.max(limit + 1), limit));
        };
        if let Some(entry) = entry {
            let bytes = Archive::open(bytes)?.read(entry, max_bytes)?;
            return Ok(
                bytes.map(|bytes| ArtifactData { bytes, mime_type: media_type(entry).map(str::to_owned) })
            );
        }
        let known_type = if is_zip { Some("application/zip") } else { media_type(name) };
        let mime_type = known_type
            .map(str::to_owned)
            .or_else(|| Some(reported_type).filter(|reported_type| !reported_type.is_empty()));
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
        let ids: Vec<u64> = newest_per_name(all).iter().map(|artifact| artifact.id).collect();
        assert_eq!(ids, [3, 7]);
    }
}
