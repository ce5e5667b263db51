//! The files of a job. Only a name that the engine lists is read.

use taskbridge_sdk::{ArtifactData, Artifacts, Error, JobHandle, Result, async_trait};

use crate::core::Http;
use crate::driver::net::SendError;
use crate::observe::conclude::artifacts;
use crate::observe::poll::{Purpose, names_of_more};

#[async_trait]
impl Artifacts for Http {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        let Some(table) = &self.config.artifacts else { return Ok(None) };
        let names = names_of_more(table.items.names());
        let Some(snapshot) = self.snapshot(handle, Purpose::Replies(&names), None).await? else {
            return Ok(None);
        };
        let listed = artifacts(&self.config, &snapshot.scope)
            .map_err(|e| Error::unavailable(format!("artifacts: the reply cannot be read: {e}")))?;
        let Some((artifact, scope)) = listed.into_iter().find(|(artifact, _)| artifact.name == name) else {
            return Ok(None);
        };
        let too_large =
            |size: String| Error::rejected(format!("{name:?} has {size} bytes, the limit is {max_bytes}"));
        if let Some(size) = artifact.size.filter(|size| *size > max_bytes) {
            return Err(too_large(size.to_string()));
        }
        let sent =
            self.download(&table.request, &scope, max_bytes).await.map_err(|e| e.of_read("artifact"))?;
        let reply = match sent {
            Ok(reply) => reply,
            Err(SendError::TooLarge { size: Some(size), .. }) => return Err(too_large(size.to_string())),
            Err(SendError::TooLarge { size: None, .. }) => {
                return Err(too_large(format!("more than {max_bytes}")));
            }
            Err(error) => return Err(crate::driver::error::CallError::from(error).of_read("artifact")),
        };
        match reply.status.as_u16() {
            200..300 => Ok(Some(ArtifactData { bytes: reply.body.to_vec(), mime_type: artifact.mime_type })),
            404 | 410 => Ok(None),
            status => Err(Error::unavailable(format!("artifact: HTTP status {status}"))),
        }
    }
}
