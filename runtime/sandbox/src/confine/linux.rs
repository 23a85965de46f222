//! The sandbox layers of Linux.

use std::fs;
use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetStatus, Scope,
};
use perpend_worker_protocol::SandboxLayer;
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid, geteuid, getpid, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::layer::{Enforcement, Role, layer};

/// Plus the process id: a user for this process only, so that siblings cannot signal each other.
const FIRST_USER: u32 = 1_900_000_000;
/// `nobody`, for containers that map no other users.
const NOBODY: u32 = 65_534;

pub(super) fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    #[expect(
        unsafe_code,
        reason = "called first in main, when nothing in this process owns a descriptor. Descriptors \
                  from 3 were inherited"
    )]
    // SAFETY: the arguments are numbers, and nothing owns the closed descriptors.
    unsafe {
        if libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) != 0 {
            // Kernels before 5.9.
            for descriptor in 3..4096 {
                libc::close(descriptor);
            }
        }
    }
}

pub(super) fn confine(role: Role) -> Result<Vec<SandboxLayer>, String> {
    one_thread()?;
    // The kernel kills a worker rather than the server when memory runs out.
    drop(fs::write("/proc/self/oom_score_adj", "800"));
    drop(std::env::set_current_dir("/"));
    let layers = vec![
        layer("empty environment", environment()),
        layer("closed descriptors", descriptors()),
        layer("limits", limits(role)),
        layer("other user", other_user()),
        layer("no capabilities", no_capabilities()),
        layer("no new privileges", no_new_privileges()),
        layer("landlock", landlock()),
        layer("seccomp", seccomp(role)),
    ];
    Ok(layers)
}

fn one_thread() -> Result<(), String> {
    match fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(n) if n > 1 => {
            Err(format!("the process has {n} threads; the others would not be confined"))
        }
        // Without /proc this cannot be checked. The callers start no threads.
        _ => Ok(()),
    }
}

fn environment() -> Result<String, String> {
    match std::env::vars_os().count() {
        0 => Ok("no variables".into()),
        n => Err(format!("{n} inherited variables")),
    }
}

/// Counts the descriptors that this process opened, and the three standard ones.
fn descriptors() -> Result<String, String> {
    let open = fs::read_dir("/proc/self/fd").map_err(|error| format!("/proc: {error}"))?;
    // One of them reads the directory.
    Ok(format!("{} open", open.count().saturating_sub(1)))
}

fn limits(role: Role) -> Result<String, String> {
    let (n_open, file_bytes) = match role {
        // It writes no files, and its mapped files are sealed.
        Role::Worker => (4096, 0),
        // For memory images in unnamed files.
        Role::Compiler => (64, 1 << 30),
        Role::Checker => (64, 0),
    };
    let mut failures = Vec::new();
    for (name, resource, maximum) in [
        ("core", Resource::Core, 0),
        ("fsize", Resource::Fsize, file_bytes),
        ("memlock", Resource::Memlock, 0),
        ("msgqueue", Resource::Msgqueue, 0),
        ("nofile", Resource::Nofile, n_open),
    ] {
        if let Err(error) = lower_limit(resource, maximum) {
            failures.push(format!("{name}: {error}"));
        }
    }
    if failures.is_empty() {
        Ok(format!("no core, {n_open} descriptors, files of {file_bytes} bytes"))
    } else {
        Err(failures.join(", "))
    }
}

fn lower_limit(resource: Resource, maximum: u64) -> io::Result<()> {
    let before = rustix::process::getrlimit(resource);
    let lowest = |limit: Option<u64>| Some(limit.map_or(maximum, |limit| limit.min(maximum)));
    let limit = Rlimit { current: lowest(before.current), maximum: lowest(before.maximum) };
    Ok(setrlimit(resource, limit)?)
}

/// Changes the user if the process runs as root.
fn other_user() -> Result<Enforcement, String> {
    let user = geteuid();
    if !user.is_root() {
        return Ok(format!("not started as root; the user is still {}", user.as_raw()).into());
    }
    let own = FIRST_USER + getpid().as_raw_nonzero().get().cast_unsigned();
    // Groups can be changed only before the user.
    let groups = set_thread_groups(&[]);
    let mut change = switch(own).map(|()| own);
    if change.is_err() {
        change = switch(NOBODY).map(|()| NOBODY);
    }
    let user = change.map_err(|error| format!("cannot leave root: {error}"))?;
    groups.map_err(|error| format!("user {user}, but cannot leave the groups: {error}"))?;
    let extent = format!("user {user}");
    if user != own {
        let missing = format!("user {user} may be shared with other processes");
        return Ok(Enforcement { extent, missing: Some(missing) });
    }
    // The user has no other process, so this limits the threads of this one.
    lower_limit(Resource::Nproc, 256).map_err(|error| format!("nproc: {error}"))?;
    Ok(extent.into())
}

fn switch(id: u32) -> io::Result<()> {
    let (group, user) = (Gid::from_raw(id), Uid::from_raw(id));
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

fn no_capabilities() -> Result<String, String> {
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, none).map_err(|error| error.to_string())?;
    Ok("none left".into())
}

fn no_new_privileges() -> Result<String, String> {
    set_no_new_privs(true).map_err(|error| error.to_string())?;
    // Other processes of the user cannot read its memory or trace it.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("other processes of the user may trace it: {error}"))?;
    Ok("and not traceable".into())
}

/// Denies paths, TCP ports, and signals and abstract sockets of other processes, as far as the kernel supports it.
fn landlock() -> Result<Enforcement, String> {
    let abi = ABI::V6;
    let enforce = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::from_all(abi))?
            .scope(Scope::from_all(abi))?
            .create()?
            .restrict_self()
    };
    let status = enforce().map_err(|error| error.to_string())?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        LandlockStatus::NotEnabled => return Err("disabled in this kernel".into()),
        _ => return Err("not supported by this kernel".into()),
    };
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok("no files, no network, no signals".to_owned().into()),
        RulesetStatus::PartiallyEnforced => Ok(Enforcement {
            extent: format!("ABI {version} of 6"),
            missing: Some(missing_features(version)),
        }),
        RulesetStatus::NotEnforced => Err("not enforced by this kernel".into()),
    }
}

/// Describes what a kernel with this ABI cannot deny.
fn missing_features(abi: i32) -> String {
    let features = [
        (2, "moving files between directories"),
        (3, "truncating files"),
        (4, "TCP ports"),
        (5, "commands to devices"),
        (6, "signals and abstract sockets"),
    ];
    let missing = features.iter().filter(|(since, _)| abi < *since);
    let missing: Vec<&str> = missing.map(|(_, what)| *what).collect();
    format!("this kernel has ABI {abi} of 6, which cannot deny: {}", missing.join(", "))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn seccomp(role: Role) -> Result<String, String> {
    use super::filter;
    let traps = filter::trap_filter().map_err(|error| error.to_string())?;
    let list = filter::allow_filter(role).map_err(|error| error.to_string())?;
    super::trap::install().map_err(|error| error.to_string())?;
    // Applied last, because the list denies adding filters.
    for program in [traps, list] {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(format!("{} system calls allowed", filter::n_allowed()))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn seccomp(_: Role) -> Result<String, String> {
    Err("no filter for this processor architecture".into())
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "tests.rs"]
mod tests;
