//! The second wall: a process gives up what it does not need to run guests, before it meets one.
//!
//! Invariants:
//! - **Before threads.** User, Landlock and the system-call filter belong to a thread and are handed down
//!   to those it starts. They are set while there is only one.
//! - **Best effort, and said.** Each part is tried; what the platform lacks is told to the server, which
//!   says so when it starts. Where all are required, the process ends instead.
//! - **For good.** Nothing here can be taken back by this process.

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod filter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod trap;

use assay_domain::protocol::Wall;

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs evaluations.
    Worker,
    /// It compiles a component and asks it what it is.
    Compiler,
}

/// Closes every descriptor but the three standard ones, whoever left it open.
pub(crate) fn close_inherited() {
    #[cfg(target_os = "linux")]
    linux::close_inherited();
}

/// Puts this process behind the walls, for good, and says which the platform gave.
///
/// # Errors
/// When it has more than one thread, or a wall is missing and `require` is set.
pub fn confine(role: Role, require: bool) -> Result<Vec<Wall>, String> {
    #[cfg(target_os = "linux")]
    let walls = linux::confine(role)?;
    #[cfg(not(target_os = "linux"))]
    let walls = vec![wall(
        "confinement",
        Err(format!("{role:?} processes are confined on Linux only")),
    )];
    let missing: Vec<String> = walls
        .iter()
        .filter_map(|wall| {
            let why = wall.given.as_ref().err()?;
            Some(format!("{}: {why}", wall.name))
        })
        .collect();
    if require && !missing.is_empty() {
        return Err(format!(
            "confinement is required and this platform lacks parts of it: {}",
            missing.join("; ")
        ));
    }
    Ok(walls)
}

fn wall(name: &str, given: Result<String, String>) -> Wall {
    Wall {
        name: name.to_owned(),
        given,
    }
}
