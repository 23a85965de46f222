//! The second wall: a process gives up what it does not need to run guests, before it meets one.
//!
//! Invariants:
//! - **Before threads.** User, Landlock and the system-call filter belong to a thread and are handed down
//!   to those it starts. They are set while there is only one.
//! - **Best effort, and said.** Each part is tried; what the platform lacks, or gives in part only, is told
//!   to the server, which says so when it starts. Where all are required, the process ends instead.
//! - **For good.** Nothing here can be taken back by this process.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod trap;
mod wall;

use perpend_worker_protocol::Wall;

pub use wall::Role;
#[cfg(not(target_os = "linux"))]
use wall::{Given, wall};

/// Closes every descriptor but the three standard ones, whoever left it open.
pub(crate) fn close_inherited() {
    #[cfg(target_os = "linux")]
    linux::close_inherited();
}

/// Puts this process behind the walls, for good, and says which the platform gave.
///
/// # Errors
/// When it has more than one thread, or a wall is missing or not whole and `require` is set.
pub fn confine(role: Role, require: bool) -> Result<Vec<Wall>, String> {
    #[cfg(target_os = "linux")]
    let walls = linux::confine(role)?;
    #[cfg(not(target_os = "linux"))]
    let walls = vec![wall(
        "confinement",
        Err::<Given, _>(format!("{role:?} processes are confined on Linux only")),
    )];
    if require {
        all_whole(&walls)?;
    }
    Ok(walls)
}

/// What is missing, part by part.
fn all_whole(walls: &[Wall]) -> Result<(), String> {
    let gap = |wall: &Wall| Some(format!("{}: {}", wall.name, wall.gap()?));
    let gaps: Vec<String> = walls.iter().filter_map(gap).collect();
    if gaps.is_empty() {
        return Ok(());
    }
    Err(format!("confinement is required and this platform lacks parts of it: {}", gaps.join("; ")))
}

#[cfg(test)]
mod required {
    use super::wall::{Given, wall};
    use super::*;

    #[test]
    fn a_wall_that_is_missing_or_not_whole_is_named_where_all_are_required() {
        let whole = wall("seccomp", Ok("59 system calls".to_owned()));
        assert_eq!(all_whole(std::slice::from_ref(&whole)), Ok(()));
        let part = Given { how: "no files".into(), lacks: Some("TCP ports".into()) };
        let walls = [
            whole,
            wall("landlock", Ok(part)),
            wall("other user", Err::<Given, _>("root stays root".into())),
        ];
        let said = all_whole(&walls).unwrap_err();
        assert!(said.ends_with("landlock: TCP ports; other user: root stays root"), "{said}");
    }
}
