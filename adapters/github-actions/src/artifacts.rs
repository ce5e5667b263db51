//! The artifacts of a run. `report.zip` is the artifact `report` as GitHub keeps it, and `report/x.json` is the file `x.json`
//! in it.

use taskbridge_sdk::{Artifact, ArtifactData, Artifacts, Error, JobHandle, Result, async_trait, media_type};

use crate::archive::{Archive, too_large};
use crate::backend::Actions;
use crate::handle::Place;
use crate::wire;

/// The artifact by which a workflow hands back data.
pub(crate) const OUTPUT: &str = "taskbridge-output";
/// The largest artifact of which a single file is read: it must be fetched whole.
const LARGEST: u64 = 64 * 1024 * 1024;
/// The largest artifact that is opened at the end of a run, to name its files.
const LARGEST_NAMED: u64 = 1024 * 1024;
/// How many of them.
const MOST_NAMED: usize = 5;
/// The most pages of artifacts that are read.
const MOST_PAGES: usize = 5;

/// What a run left.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) artifacts: Vec<Artifact>,
    /// What it handed back as data.
    pub(crate) output: Option<serde_json::Value>,
}

impl Actions {
    async fn kept(&self, place: &Place) -> Result<Vec<wire::Artifact>> {
        let mut all = Vec::new();
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
        Ok(all)
    }

    /// What a run that has ended left, by name.
    pub(crate) async fn left(&self, place: &Place) -> Result<Left> {
        let mut left = Left::default();
        let mut named = 0;
        for artifact in self.kept(place).await? {
            let small = artifact.size_in_bytes <= LARGEST_NAMED && !artifact.expired;
            if artifact.name == OUTPUT && small {
                left.output = self.output(place, &artifact).await?;
                if left.output.is_some() {
                    continue;
                }
            }
            left.artifacts.push(Artifact {
                name: format!("{}.zip", artifact.name),
                mime_type: Some("application/zip".to_owned()),
                size: Some(artifact.size_in_bytes),
            });
            if small && named < MOST_NAMED {
                named += 1;
                let files = self.archive(place, &artifact).await?.map(|mut archive| archive.files());
                left.artifacts.extend(files.into_iter().flatten().map(|(name, size)| Artifact {
                    mime_type: media_type(&name).map(str::to_owned),
                    name: format!("{}/{name}", artifact.name),
                    size: Some(size),
                }));
            }
        }
        Ok(left)
    }

    /// The first JSON file of an artifact, as data.
    async fn output(&self, place: &Place, artifact: &wire::Artifact) -> Result<Option<serde_json::Value>> {
        let Some(mut archive) = self.archive(place, artifact).await? else { return Ok(None) };
        let files = archive.files();
        let Some((name, _)) = files.iter().find(|(name, _)| name.ends_with(".json")) else { return Ok(None) };
        // One that is too large is an artifact like any other.
        let Ok(Some(bytes)) = archive.read(name, LARGEST_NAMED) else { return Ok(None) };
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// An artifact, fetched whole; `None` if it cannot be opened, or has expired meanwhile.
    async fn archive(&self, place: &Place, artifact: &wire::Artifact) -> Result<Option<Archive>> {
        let bytes = self.fetch(place, artifact, LARGEST).await?;
        Ok(bytes.and_then(|bytes| Archive::open(bytes).ok()))
    }

    async fn fetch(&self, place: &Place, artifact: &wire::Artifact, most: u64) -> Result<Option<Vec<u8>>> {
        if artifact.expired {
            return Ok(None);
        }
        let path = format!("/repos/{}/actions/artifacts/{}/zip", place.repository, artifact.id);
        match self.links.open(&self.api, "the artifact", &path).await {
            Ok(body) => match body.all(most).await? {
                Some(bytes) => Ok(Some(bytes)),
                None => Err(too_large(&artifact.name, artifact.size_in_bytes.max(most + 1), most)),
            },
            Err(failure) if failure.is(404) || failure.is(410) => Ok(None),
            Err(failure) => Err(failure.into()),
        }
    }
}

#[async_trait]
impl Artifacts for Actions {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(place) = Place::parse(handle) else { return Ok(None) };
        let (wanted, entry) = match name.split_once('/') {
            Some((artifact, entry)) => (artifact, Some(entry)),
            None => (name.strip_suffix(".zip").unwrap_or_default(), None),
        };
        if wanted.is_empty() {
            return Ok(None);
        }
        let Some(artifact) = self.kept(&place).await?.into_iter().find(|one| one.name == wanted) else {
            return Ok(None);
        };
        if artifact.expired {
            return Err(Error::rejected(format!(
                "GitHub has deleted the artifact `{wanted}`: its time was over"
            )));
        }
        let most = if entry.is_some() { LARGEST } else { max_bytes };
        if artifact.size_in_bytes > most {
            return Err(too_large(wanted, artifact.size_in_bytes, most));
        }
        let Some(bytes) = self.fetch(&place, &artifact, most).await? else { return Ok(None) };
        let Some(entry) = entry else {
            return Ok(Some(ArtifactData { bytes, mime_type: Some("application/zip".to_owned()) }));
        };
        let bytes = Archive::open(bytes)?.read(entry, max_bytes)?;
        Ok(bytes.map(|bytes| ArtifactData { bytes, mime_type: media_type(entry).map(str::to_owned) }))
    }
}
