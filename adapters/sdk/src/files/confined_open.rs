//! Opens files by external names in a folder that others can write to. No name may lead outside the folder,
//! and no symbolic link below it is followed. This module must not know what the files mean.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;

/// Opens a regular file below a folder. Returns `None` if there is no regular file of that name, if the name
/// has an empty part, `.` or `..`, or if a part of it is a symbolic link. It opens one path component at a
/// time, so that no component can be replaced by a link between a check and the opening. The folder itself
/// may be a link.
///
/// # Errors
/// Returns errors of the file system, including a missing permission to read.
pub fn open_confined(folder: &Path, name: &str) -> io::Result<Option<File>> {
    let no_follow = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Traversing a folder does not need the permission to list it.
    let traverse = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let parts: Vec<&str> = name.split('/').collect();
    let Some((last, folders)) = parts.split_last() else { return Ok(None) };
    if parts.iter().any(|part| matches!(*part, "" | "." | "..") || part.contains('\0')) {
        return Ok(None);
    }
    let walk = || {
        let mut folder = open(folder, traverse, Mode::empty())?;
        for part in folders {
            folder = openat(&folder, *part, traverse | OFlags::NOFOLLOW, Mode::empty())?;
        }
        // Without NONBLOCK, opening a FIFO would block.
        openat(&folder, *last, no_follow | OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())
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
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn opened_path_stays_in_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        fs::write(root.join("a/b/x"), "inside").unwrap();
        symlink(dir.path().join("secret"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("up")).unwrap();
        symlink(&root, dir.path().join("linked")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o600.into()).unwrap();
        assert!(open_confined(&root, "a/b/x").unwrap().is_some());
        assert!(open_confined(&dir.path().join("linked"), "a/b/x").unwrap().is_some());
        for name in [
            "link",
            "up/secret",
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "",
            "a",
            "fifo",
            "a//b/x",
            "no",
            "a\0",
        ] {
            assert!(open_confined(&root, name).unwrap().is_none(), "{name:?}");
        }
        assert!(open_confined(&dir.path().join("nowhere"), "x").unwrap().is_none());
    }
}
