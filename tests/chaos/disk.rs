//! The disk of the database: a small file system, where mounting is permitted, that can be filled to the
//! last byte. Otherwise a file size limit stops the database's processes, which get a different error.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FallocateFlags, fallocate};

/// The size of the disk: three times what a long run writes.
const SIZE: &str = "size=768m";

/// Mounts the file system at $1, reports whether that worked, and unmounts it at the end of its input.
const MOUNT_SCRIPT: &str = r#"
mount -t tmpfs -o "$2" taskbridge-chaos "$1" && echo mounted || echo not
cat >/dev/null
umount -l "$1" && rmdir "$1"
"#;

pub(super) struct Disk {
    folder: tempfile::TempDir,
    /// The process that keeps the disk mounted.
    mount_process: Option<Child>,
}

impl Disk {
    pub(super) fn new() -> Self {
        use std::io::{BufRead as _, BufReader};
        let folder = tempfile::Builder::new().prefix("taskbridge-chaos-disk-").tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", MOUNT_SCRIPT, "keeper"]).arg(folder.path()).arg(SIZE);
        // Shields the process from signals that are sent to the tests' process group.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut mount_process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut reply = String::new();
        BufReader::new(mount_process.stdout.take().unwrap()).read_line(&mut reply).unwrap();
        if reply.trim() == "mounted" {
            return Self { folder, mount_process: Some(mount_process) };
        }
        drop(mount_process.stdin.take());
        mount_process.wait().unwrap();
        Self { folder, mount_process: None }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Fills the disk.
    pub(super) fn fill(&self) {
        if self.mount_process.is_none() {
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

    /// Frees the disk.
    pub(super) fn free(&self) {
        match &self.mount_process {
            None => self.limit_files("unlimited:"),
            Some(_) => fs::remove_file(self.folder().join("filling")).unwrap(),
        }
    }

    /// Sets the file size limit of the database's processes.
    fn limit_files(&self, limit: &str) {
        let postmaster_pid =
            fs::read_to_string(self.folder().join("data/postmaster.pid")).unwrap_or_default();
        let Some(postmaster_pid) = postmaster_pid.lines().next().map(str::to_owned) else { return };
        let children = fs::read_to_string(format!("/proc/{postmaster_pid}/task/{postmaster_pid}/children"))
            .unwrap_or_default();
        for pid in children.split_whitespace().chain([postmaster_pid.as_str()]) {
            // A process that has just ended needs no limit.
            let _ = Command::new("prlimit").args(["--pid", pid, &format!("--fsize={limit}")]).status();
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(mut mount_process) = self.mount_process.take() {
            drop(mount_process.stdin.take());
            let _ = mount_process.wait();
        }
    }
}
