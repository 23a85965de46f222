//! Confinement: a process gives up all rights that it does not need before it runs a guest.
//!
//! Invariants:
//! - **Before threads.** User, Landlock and the system-call filter belong to a thread and are inherited by
//!   the threads that it starts. They are set while there is only one.
//! - **Best effort, and reported.** Each layer is tried. The server learns which layers the platform lacks or
//!   provides in part, and logs them when it starts. Where all layers are required, the process ends instead.
//! - **Permanent.** This process cannot undo any of it.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter;
mod layer;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod trap;

use perpend_worker_protocol::SandboxLayer;

pub use layer::Role;
#[cfg(not(target_os = "linux"))]
use layer::{Enforcement, layer};

/// Closes all inherited descriptors except the three standard ones.
pub(crate) fn close_inherited() {
    #[cfg(target_os = "linux")]
    linux::close_inherited();
}

/// Confines this process permanently, and returns the layers with their status.
///
/// # Errors
/// When the process has more than one thread, or when `require` is set and a layer is missing or incomplete.
pub fn confine(role: Role, require: bool) -> Result<Vec<SandboxLayer>, String> {
    #[cfg(target_os = "linux")]
    let layers = linux::confine(role)?;
    #[cfg(not(target_os = "linux"))]
    let layers = vec![layer(
        "confinement",
        Err::<Enforcement, _>(format!("{role:?} processes are confined on Linux only")),
    )];
    if require {
        check_complete(&layers)?;
    }
    Ok(layers)
}

/// Fails with the name and the gap of each layer that is missing or incomplete.
fn check_complete(layers: &[SandboxLayer]) -> Result<(), String> {
    let gap = |layer: &SandboxLayer| Some(format!("{}: {}", layer.name, layer.gap()?));
    let gaps: Vec<String> = layers.iter().filter_map(gap).collect();
    if gaps.is_empty() {
        return Ok(());
    }
    Err(format!("confinement is required, and this platform lacks: {}", gaps.join("; ")))
}

#[cfg(test)]
mod required {
    use super::layer::{Enforcement, layer};
    use super::*;

    #[test]
    fn a_missing_or_incomplete_layer_is_named_when_all_are_required() {
        let whole = layer("seccomp", Ok("59 system calls".to_owned()));
        assert_eq!(check_complete(std::slice::from_ref(&whole)), Ok(()));
        let part = Enforcement { extent: "no files".into(), missing: Some("TCP ports".into()) };
        let layers = [
            whole,
            layer("landlock", Ok(part)),
            layer("other user", Err::<Enforcement, _>("cannot leave root".into())),
        ];
        let error = check_complete(&layers).unwrap_err();
        assert!(error.ends_with("landlock: TCP ports; other user: cannot leave root"), "{error}");
    }
}
