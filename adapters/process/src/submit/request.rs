//! The params of `start` and `find`. It must not send them.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use taskbridge_sdk::{Error, FileContent, InputFile, JobSpec, Result};

use crate::protocol::{File, StartParams};

/// Most bytes of all files of a job, so that the message fits into a line.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// Returns the params for a job. `takes_files`: whether the program has the ability.
///
/// # Errors
/// `Rejected` if the job has files that the program cannot receive.
pub(super) fn params(job: &JobSpec, takes_files: bool) -> Result<StartParams> {
    if !job.files.is_empty() && !takes_files {
        return Err(Error::rejected("jobs of this backend cannot receive files"));
    }
    Ok(StartParams {
        key: job.key.clone(),
        uuid: job.key.as_uuid(),
        target: job.target.clone(),
        arguments: job.arguments.clone(),
        files: read_files(&job.files)?,
        may_exist: job.may_exist,
        first_attempt_at: job.first_attempt_at,
        trace: job.trace.clone(),
        on_behalf_of: job.on_behalf_of.clone(),
    })
}

fn read_files(files: &[InputFile]) -> Result<Vec<File>> {
    let (mut left, mut read) = (MAX_FILE_BYTES, Vec::with_capacity(files.len()));
    for file in files {
        let bytes = match &file.content {
            FileContent::Inline(bytes) => bytes.clone(),
            FileContent::Source(source) => {
                let mut bytes = Vec::new();
                let opened = source.open()?;
                opened.take(left + 1).read_to_end(&mut bytes).map_err(|e| source.convert_io_error(e))?;
                bytes
            }
        };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            Error::rejected(format!("the files have more than {MAX_FILE_BYTES} bytes together"))
        })?;
        read.push(File {
            parameter: file.parameter.clone(),
            name: file.plain_name().to_owned(),
            data: STANDARD.encode(bytes),
        });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use taskbridge_sdk::ErrorKind;
    use taskbridge_sdk::suite::job;

    use super::*;

    /// Files go only to a program that takes them, and only if they fit.
    #[test]
    fn files_are_bounded() {
        let mut spec = job(serde_json::json!({}), serde_json::json!({}));
        let file = |bytes: usize| InputFile {
            parameter: "p".to_owned(),
            name: "a.csv".to_owned(),
            content: FileContent::Inline(vec![b'a'; bytes]),
        };
        spec.files = vec![file(3)];
        assert_eq!(params(&spec, true).unwrap().files[0].data, "YWFh");
        let refused = |spec: &JobSpec, takes| params(spec, takes).map(drop).unwrap_err().kind();
        assert_eq!(refused(&spec, false), ErrorKind::Rejected);
        spec.files = vec![file(5 * 1024 * 1024), file(5 * 1024 * 1024)];
        assert_eq!(refused(&spec, true), ErrorKind::Rejected);
    }
}
