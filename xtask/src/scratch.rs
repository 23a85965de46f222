//! A folder in memory for the temporary files of tests.
//!
//! Tests write many small transactions to databases of their own, each of which waits for the disk. Their files need no
//! disk: no test outlives the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file system in memory that Linux systems mount.
const SHARED_MEMORY: &str = "/dev/shm";
const PREFIX: &str = "perpend-tests-";
/// Memory that must be available to the system, and space of the file system, in KiB.
const MIN_MEMORY_KIB: u64 = 8 << 20;
const MIN_SPACE_KIB: u64 = 4 << 20;

/// The folder; removed when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder. `None` if there is no such file system, it has too little space, or it runs no programs.
    pub(crate) fn new() -> Option<Self> {
        let is_suitable = runs_programs()?
            && MIN_MEMORY_KIB <= available_memory()?
            && MIN_SPACE_KIB <= free_space()?;
        if !is_suitable {
            return None;
        }
        remove_abandoned();
        let folder = Path::new(SHARED_MEMORY).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let scratch = Self(folder);
        // Programs that tests start may run as another user.
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o1777)).ok()?;
        eprintln!("  temporary files are in {}", scratch.0.display());
        Some(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether the file system is in memory and not mounted with `noexec`, because tests build programs in temporary folders.
fn runs_programs() -> Option<bool> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().find(|line| line.split(' ').nth(1) == Some(SHARED_MEMORY))?;
    let mut fields = mount.split(' ').skip(2);
    let (kind, options) = (fields.next()?, fields.next()?);
    Some(kind == "tmpfs" && options.split(',').all(|option| option != "noexec"))
}

fn available_memory() -> Option<u64> {
    let memory = fs::read_to_string("/proc/meminfo").ok()?;
    let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn free_space() -> Option<u64> {
    let output = Command::new("df").args(["-Pk", SHARED_MEMORY]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
}

/// Removes folders of runs that were killed.
fn remove_abandoned() {
    for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
