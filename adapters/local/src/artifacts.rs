//! The files that a job leaves in `$TASKBRIDGE_ARTIFACTS`: what they are called, and their bytes. No name and no
//! symbolic link leads out of that folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use taskbridge_sdk::{Artifact, ArtifactData, Error, Result, media_type};

/// No more files than this are listed.
const MOST: usize = 1000;

/// Folders within folders further down than this are not looked into.
const DEEPEST: usize = 16;

/// All regular files below a folder, by name. What cannot be read or named in UTF-8 is left out.
pub(crate) fn list(root: &Path) -> Vec<Artifact> {
    let mut found = Vec::new();
    collect(root, "", 0, &mut found);
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn collect(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<Artifact>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        // Neither of these follows a link: a linked file is not the job's, a linked folder may lead in circles.
        let (Ok(kind), Ok(metadata)) = (entry.file_type(), entry.metadata()) else { continue };
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{prefix}{name}");
        if kind.is_dir() && depth < DEEPEST {
            collect(&entry.path(), &format!("{name}/"), depth + 1, found);
        } else if kind.is_file() && found.len() < MOST {
            let mime_type = media_type(&name).map(str::to_owned);
            found.push(Artifact { name, mime_type, size: Some(metadata.len()) });
        }
    }
}

/// Reads one artifact whole; `None` if there is none of that name.
pub(crate) fn read(root: &Path, name: &str, max: u64) -> Result<Option<ArtifactData>> {
    let unreadable = |e| Error::unavailable(format!("the artifact `{name}` cannot be read")).caused_by(e);
    let Some(file) = find(root, name).map_err(unreadable)? else { return Ok(None) };
    let size = file.metadata().map_err(unreadable)?.len();
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > max {
        let size = size.max(bytes.len() as u64);
        return Err(Error::rejected(format!(
            "the artifact `{name}` has {size} bytes, and at most {max} can be read at once"
        )));
    }
    Ok(Some(ArtifactData { bytes, mime_type: media_type(name).map(str::to_owned) }))
}

/// Walks down one part at a time, so that nothing can be swapped for a link between a check and the opening.
fn find(root: &Path, name: &str) -> io::Result<Option<File>> {
    let never = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let parts: Vec<&str> = name.split('/').collect();
    let Some((last, folders)) = parts.split_last() else { return Ok(None) };
    if parts.iter().any(|part| matches!(*part, "" | "." | "..") || part.contains('\0')) {
        return Ok(None);
    }
    let walk = || {
        let mut folder = open(root, never | OFlags::DIRECTORY, Mode::empty())?;
        for part in folders {
            folder = openat(&folder, *part, never | OFlags::DIRECTORY, Mode::empty())?;
        }
        // Without NONBLOCK a FIFO would hold the reader up.
        openat(&folder, *last, never | OFlags::NONBLOCK, Mode::empty())
    };
    match walk() {
        Ok(file) => {
            let file = File::from(file);
            Ok(file.metadata()?.is_file().then_some(file))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::NAMETOOLONG) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use taskbridge_sdk::ErrorKind;

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("artifacts");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(root.join("a/b/x.txt"), "inside").unwrap();
        symlink(dir.path().join("secret"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o600.into()).unwrap();

        let names: Vec<String> = list(&root).into_iter().map(|a| a.name).collect();
        assert_eq!(names, ["a/b/x.txt"]);
        let inside = read(&root, "a/b/x.txt", 6).unwrap().unwrap();
        assert_eq!(
            (inside.bytes.as_slice(), inside.mime_type.as_deref()),
            (&b"inside"[..], Some("text/plain"))
        );
        for name in [
            "link",
            "up/secret",
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "",
            "a",
            "fifo",
            "a//b/x.txt",
            "no",
        ] {
            assert_eq!(read(&root, name, 99).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn one_that_is_too_large_names_its_size() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "0123456789").unwrap();
        let error = read(dir.path(), "x", 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains("10 bytes"), "{error}");
    }
}
