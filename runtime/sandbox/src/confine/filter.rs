//! The system calls of a confined process: a list of what is allowed.
//!
//! To all others the kernel answers that there is no such call. Why not `EPERM`: each library has a way
//! for a call its kernel lacks (threads start with `clone` where there is no `clone3`, clocks and random
//! numbers likewise), and hardly any for one that is forbidden. Why not end the process: a libc that
//! tries something new would then cost every worker. Nothing is lost by it: the call does not happen.
//!
//! Three that take a path are trapped, and answered in the process itself (`trap`). A trap is no answer
//! for all: where signals are blocked, as while a thread starts, it ends the process.
//!
//! What is not on the list: whatever takes a path, makes a socket, a process or a namespace, looks into or
//! signals another process.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use super::layer::Role;

/// Without a look at their arguments.
const ALWAYS: &[libc::c_long] = &[
    // The socket, and what is sealed in memory.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_memfd_create,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    // Memory, compiled code included.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads and their signals.
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Facts.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    // Older forms of the above, which only this processor has.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// The kernel never sees these: the other filter traps them.
const TRAPPED: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// `ioctl(PAGEMAP_SCAN)`: which pages of an instance were written.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// `process_madvise` on this process.
const PIDFD_SELF: u64 = -10_000_i32 as u32 as u64;
const PR_SET_VMA: u64 = 0x5356_4d41;

pub(super) fn n_allowed() -> usize {
    ALWAYS.len() + SOMETIMES
}
const SOMETIMES: usize = 8;

/// The filter that traps. Of two filters the stricter answer counts, and a trap is stricter than an error.
pub(super) fn traps() -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(
        TRAPPED.iter().map(|number| (*number, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Trap,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

/// Limits are read, not set; but who compiles raises its address space to the hard limit afterwards.
fn limits(role: Role) -> Result<Vec<SeccompRule>, BackendError> {
    let own = || is(0, SeccompCmpArgLen::Dword, 0);
    let mut rules = vec![rule(vec![own()?, is(2, SeccompCmpArgLen::Qword, 0)?])?];
    if role == Role::Compiler {
        let address_space = is(1, SeccompCmpArgLen::Dword, libc::RLIMIT_AS.into())?;
        rules.push(rule(vec![own()?, address_space])?);
    }
    Ok(rules)
}

/// The list, for this process: it knows its own id.
pub(super) fn list(role: Role) -> Result<BpfProgram, BackendError> {
    let own_id = u64::from(std::process::id());
    // Threads of this process, in the namespaces it has.
    let kinds = libc::CLONE_THREAD
        | libc::CLONE_VM
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    let sometimes: [(libc::c_long, Vec<SeccompRule>); SOMETIMES] = [
        (
            libc::SYS_clone,
            vec![rule(vec![SeccompCondition::new(
                0,
                SeccompCmpArgLen::Qword,
                SeccompCmpOp::MaskedEq(kinds as u64),
                thread,
            )?])?],
        ),
        (
            libc::SYS_fcntl,
            one_of(
                1,
                &[
                    libc::F_GETFD,
                    libc::F_SETFD,
                    libc::F_GETFL,
                    libc::F_SETFL,
                    libc::F_DUPFD_CLOEXEC,
                    libc::F_GET_SEALS,
                    libc::F_ADD_SEALS,
                ]
                .map(i64::from)
                .map(i64::cast_unsigned),
            )?,
        ),
        (libc::SYS_ioctl, one_of(1, &[PAGEMAP_SCAN, libc::FIONBIO])?),
        (libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64, PR_SET_VMA])?),
        (libc::SYS_process_madvise, one_of(0, &[PIDFD_SELF])?),
        // It may end itself.
        (libc::SYS_tgkill, one_of(0, &[own_id])?),
        (libc::SYS_prlimit64, limits(role)?),
        // A pair of streams is connected with itself only. Of datagrams it would not be: each could be
        // sent to any named socket.
        (
            libc::SYS_socketpair,
            vec![rule(vec![
                is(0, SeccompCmpArgLen::Dword, libc::AF_UNIX as u64)?,
                SeccompCondition::new(
                    1,
                    SeccompCmpArgLen::Dword,
                    SeccompCmpOp::MaskedEq(0xf),
                    libc::SOCK_STREAM as u64,
                )?,
            ])?],
        ),
    ];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        [ALWAYS, TRAPPED].concat().into_iter().map(|number| (number, Vec::new())).collect();
    rules.extend(sometimes);
    SeccompFilter::new(
        rules,
        SeccompAction::Errno(libc::ENOSYS as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

fn is(
    argument: u8,
    length: SeccompCmpArgLen,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, length, SeccompCmpOp::Eq, value)
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value: &u64| rule(vec![is(argument, SeccompCmpArgLen::Dword, *value)?]);
    values.iter().map(rule).collect()
}
