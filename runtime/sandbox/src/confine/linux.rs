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

/// With the process id it is a user of this process alone: siblings cannot signal each other.
const FIRST_USER: u32 = 1_900_000_000;
/// `nobody`, for containers that map no others.
const NOBODY: u32 = 65_534;

pub(super) fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    #[expect(
        unsafe_code,
        reason = "nothing in this process owns a descriptor yet: it is the first thing its main does. \
                  Those from 3 on are what a careless parent left open"
    )]
    // SAFETY: the call takes three numbers. Descriptors it closes belong to nobody.
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
    // When memory runs out it is a worker that goes, not the server.
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
        Ok(n) if n > 1 => Err(format!("{n} threads run already: they would stay outside")),
        // Without /proc there is no telling; the callers start none.
        _ => Ok(()),
    }
}

fn environment() -> Result<String, String> {
    match std::env::vars_os().count() {
        0 => Ok("no variables".into()),
        n => Err(format!("{n} variables were handed down")),
    }
}

/// What is open now is what this process opened itself, and its three standard descriptors.
fn descriptors() -> Result<String, String> {
    let open = fs::read_dir("/proc/self/fd").map_err(|error| format!("/proc: {error}"))?;
    // One of them reads the directory.
    Ok(format!("{} open", open.count().saturating_sub(1)))
}

fn limits(role: Role) -> Result<String, String> {
    let (n_open, file_bytes) = match role {
        // It writes no files: what it maps is sealed.
        Role::Worker => (4096, 0),
        // Images of memories, which have no name in any file system.
        Role::Compiler => (64, 1 << 30),
        Role::Checker => (64, 0),
    };
    let mut refused = Vec::new();
    for (name, resource, most) in [
        ("core", Resource::Core, 0),
        ("fsize", Resource::Fsize, file_bytes),
        ("memlock", Resource::Memlock, 0),
        ("msgqueue", Resource::Msgqueue, 0),
        ("nofile", Resource::Nofile, n_open),
    ] {
        if let Err(error) = at_most(resource, most) {
            refused.push(format!("{name}: {error}"));
        }
    }
    if refused.is_empty() {
        Ok(format!("no core, {n_open} descriptors, files of {file_bytes} bytes"))
    } else {
        Err(refused.join(", "))
    }
}

fn at_most(resource: Resource, most: u64) -> io::Result<()> {
    let before = rustix::process::getrlimit(resource);
    let lowest = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let limit = Rlimit { current: lowest(before.current), maximum: lowest(before.maximum) };
    Ok(setrlimit(resource, limit)?)
}

/// Who is not root has no rights of another to give up, and stays who he is.
fn other_user() -> Result<Enforcement, String> {
    let user = geteuid();
    if !user.is_root() {
        return Ok(format!("not started as root, stays user {}", user.as_raw()).into());
    }
    let own = FIRST_USER + getpid().as_raw_nonzero().get().cast_unsigned();
    // Groups cannot be changed any more when the user is another.
    let groups = set_thread_groups(&[]);
    let mut change = switch(own).map(|()| own);
    if change.is_err() {
        change = switch(NOBODY).map(|()| NOBODY);
    }
    let user = change.map_err(|error| format!("root stays root: {error}"))?;
    groups.map_err(|error| format!("user {user}, but the groups stay: {error}"))?;
    let extent = format!("user {user}");
    if user != own {
        let missing = format!("user {user} is not its own: other processes may have it too");
        return Ok(Enforcement { extent, missing: Some(missing) });
    }
    // The user has no other process: its threads are these.
    at_most(Resource::Nproc, 256).map_err(|error| format!("nproc: {error}"))?;
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
    // Nobody of the same user reads its memory or follows its steps.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("other processes of the user may trace it: {error}"))?;
    Ok("and not traceable".into())
}

/// No path below any directory, no TCP port, no signal or abstract socket outside: as much of it as the
/// kernel knows.
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
        _ => return Err("this kernel has none".into()),
    };
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok("no files, no network, no signals".to_owned().into()),
        RulesetStatus::PartiallyEnforced => Ok(Enforcement {
            extent: format!("ABI {version} of 6"),
            missing: Some(beyond(version)),
        }),
        RulesetStatus::NotEnforced => Err("this kernel enforces none of it".into()),
    }
}

/// What a kernel with this ABI does not know to forbid.
fn beyond(abi: i32) -> String {
    let later = [
        (2, "moving files between directories"),
        (3, "truncating files"),
        (4, "TCP ports"),
        (5, "commands to devices"),
        (6, "signals and abstract sockets"),
    ];
    let open = later.iter().filter(|(since, _)| abi < *since);
    let open: Vec<&str> = open.map(|(_, what)| *what).collect();
    format!("this kernel has ABI {abi} of 6, which leaves open: {}", open.join(", "))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn seccomp(role: Role) -> Result<String, String> {
    use super::filter;
    let traps = filter::traps().map_err(|error| error.to_string())?;
    let list = filter::list(role).map_err(|error| error.to_string())?;
    super::trap::install().map_err(|error| error.to_string())?;
    // The list forbids to add another, so it is the last.
    for program in [traps, list] {
        seccompiler::apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(format!("{} system calls allowed", filter::n_allowed()))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn seccomp(_: Role) -> Result<String, String> {
    Err("no filter for this kind of processor".into())
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "tests.rs"]
mod tests;
