//! The artifacts of a job, read in parts. It must not hold more than the limit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use taskbridge_sdk::{ArtifactData, Artifacts, Error, JobHandle, Result, async_trait, one_line};

use crate::core::Core;
use crate::protocol::{ArtifactParams, ArtifactPart};

/// Bytes of one part. In base64 they fit into a line.
const PART_BYTES: u64 = 1024 * 1024;

#[async_trait]
impl Artifacts for Core {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let (mut bytes, mut size) = (Vec::new(), None);
        loop {
            let offset = bytes.len() as u64;
            let params = ArtifactParams {
                handle: handle.clone(),
                name: name.to_owned(),
                offset,
                max_bytes: PART_BYTES,
            };
            let Some(part) = self.call::<Option<ArtifactPart>>("artifact", &params).await? else {
                return match offset {
                    0 => Ok(None),
                    _ => Err(Error::unavailable(format!(
                        "the artifact `{}` is no longer there",
                        one_line(name)
                    ))),
                };
            };
            if part.size > max_bytes {
                return Err(Error::rejected(format!(
                    "the artifact `{}` has {} bytes, and at most {max_bytes} can be read at once",
                    one_line(name),
                    part.size
                )));
            }
            if size.is_some_and(|size| size != part.size) {
                return Err(Error::unavailable(format!("the artifact `{}` changed", one_line(name))));
            }
            size = Some(part.size);
            let data = STANDARD
                .decode(&part.data)
                .map_err(|_| self.broken("the `data` of an artifact is not base64"))?;
            let left = part.size - offset;
            if data.len() as u64 > left.min(PART_BYTES) || (data.is_empty() && left > 0) {
                let problem =
                    format!("it returned {} bytes of an artifact, of which {left} are left", data.len());
                return Err(self.broken(problem));
            }
            bytes.extend(data);
            if bytes.len() as u64 == part.size {
                let mime_type = part.mime_type.map(|text| one_line(&text));
                let mime_type = mime_type.or_else(|| taskbridge_sdk::media_type(name).map(str::to_owned));
                return Ok(Some(ArtifactData { bytes, mime_type }));
            }
        }
    }
}
