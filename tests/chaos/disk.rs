//! The disk of the database: a small file system of its own, where one may be mounted, that can be filled to the last byte.
//! Elsewhere the server's processes are forbidden to make any file longer, which they are told with another error.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FallocateFlags, fallocate};

/// How large it is. All that a long run writes fits into it three times.
const SIZE: &str = "size=768m";

/// Mounts it at $1, says whether it could, keeps it until the input ends, and takes it away.
const KEEPER: &str = r#"
mount -t tmpfs -o "$2" taskbridge-chaos "$1" && echo mounted || echo not
cat >/dev/null
umount -l "$1" && rmdir "$1"
"#;

pub(super) struct Disk {
    folder: tempfile::TempDir,
    /// Who keeps it mounted.
    keeper: Option<Child>,
}

impl Disk {
    pub(super) fn new() -> Self {
        use std::io::{BufRead as _, BufReader};
        let folder = tempfile::Builder::new().prefix("taskbridge-chaos-disk-").tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", KEEPER, "keeper"]).arg(folder.path()).arg(SIZE);
        // Out of the way of a signal that is meant for the tests.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut keeper =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        if said.trim() == "mounted" {
            return Self { folder, keeper: Some(keeper) };
        }
        drop(keeper.stdin.take());
        keeper.wait().unwrap();
        Self { folder, keeper: None }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no room on it.
    pub(super) fn fill(&self) {
        if self.keeper.is_none() {
            self.limit_files("0:");
            return;
        }
        let file = File::create(self.folder().join("filling")).unwrap();
        let (mut end, mut piece) = (0, 1 << 30);
        while piece >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), end, piece) {
                Ok(()) => end += piece,
                Err(_) => piece /= 2,
            }
        }
    }

    /// Gives the room back.
    pub(super) fn free(&self) {
        match &self.keeper {
            None => self.limit_files("unlimited:"),
            Some(_) => fs::remove_file(self.folder().join("filling")).unwrap(),
        }
    }

    /// Says how long files may be that the database's processes write.
    fn limit_files(&self, limit: &str) {
        let first = fs::read_to_string(self.folder().join("data/postmaster.pid")).unwrap_or_default();
        let Some(first) = first.lines().next().map(str::to_owned) else { return };
        let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap_or_default();
        for pid in children.split_whitespace().chain([first.as_str()]) {
            // One that has just ended needs no limit.
            let _ = Command::new("prlimit").args(["--pid", pid, &format!("--fsize={limit}")]).status();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }
}
