//! The files that a job leaves in `$TASKBRIDGE_ARTIFACTS`: what they are called, and their bytes. No name and no
//! symbolic link leads out of that folder.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use taskbridge_sdk::{Artifact, ArtifactData, Error, Result, media_type, open_below};

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
    // The folder is the job's too, so that it must not be a link either.
    let (Some(folder), Some(own)) = (root.parent(), root.file_name().and_then(OsStr::to_str)) else {
        return Ok(None);
    };
    let opened = open_below(folder, &format!("{own}/{name}"));
    let unreadable = |e| Error::unavailable(format!("the artifact `{name}` cannot be read")).caused_by(e);
    let Some(file) = opened.map_err(unreadable)? else { return Ok(None) };
    let size = file.metadata().map_err(unreadable)?.len();
    ArtifactData::read(name, file, size, max).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

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
        symlink(&root, dir.path().join("swapped")).unwrap();
        assert_eq!(read(&dir.path().join("swapped"), "a/b/x.txt", 6).unwrap(), None);
        for name in ["link", "up/secret", "../secret", "fifo", "", "no"] {
            assert_eq!(read(&root, name, 99).unwrap(), None, "{name}");
        }
    }
}
