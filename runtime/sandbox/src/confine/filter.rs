//! The system calls that a confined process may make.
//!
//! All others fail with `ENOSYS`. Libraries have fallbacks for calls that the kernel lacks (for example `clone` for `clone3`),
//! but rarely for calls that fail with `EPERM`. Ending the process instead would end all workers when a new libc tries a new
//! call.
//!
//! Three calls with a path are trapped and emulated in the process (`trap`). Not all calls can be trapped, because a trap ends
//! the process while signals are blocked, for example during the start of a thread.
//!
//! The list excludes calls that take a path, create a socket, process or namespace, or inspect or signal another process.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

use super::layer::Role;

/// Allowed with any arguments.
const UNCONDITIONAL: &[libc::c_long] = &[
    // The socket and sealed files in memory.
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
    // Memory, including compiled code.
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
    // Information.
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
    // Older variants, which only this architecture has.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Trapped by the other filter, so that the kernel does not run them.
const TRAPPED: &[libc::c_long] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// `ioctl(PAGEMAP_SCAN)`: lists the written pages of an instance.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
/// `process_madvise` on this process.
const PIDFD_SELF: u64 = -10_000_i32 as u32 as u64;
const PR_SET_VMA: u64 = 0x5356_4d41;

pub(super) fn n_allowed() -> usize {
    UNCONDITIONAL.len() + N_CONDITIONAL
}
const N_CONDITIONAL: usize = 8;

/// The filter that traps calls. The stricter of two filters decides, and a trap is stricter than an error.
pub(super) fn trap_filter() -> Result<BpfProgram, BackendError> {
    SeccompFilter::new(
        TRAPPED.iter().map(|number| (*number, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Trap,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

/// Allows reading limits. A compiler may also raise its address space up to the hard limit.
fn limit_rules(role: Role) -> Result<Vec<SeccompRule>, BackendError> {
    let own = || is(0, SeccompCmpArgLen::Dword, 0);
    let mut rules = vec![rule(vec![own()?, is(2, SeccompCmpArgLen::Qword, 0)?])?];
    if role == Role::Compiler {
        let address_space = is(1, SeccompCmpArgLen::Dword, libc::RLIMIT_AS.into())?;
        rules.push(rule(vec![own()?, address_space])?);
    }
    Ok(rules)
}

/// The filter that allows the listed calls. Specific to this process, because it contains the process id.
pub(super) fn allow_filter(role: Role) -> Result<BpfProgram, BackendError> {
    let own_id = u64::from(std::process::id());
    // Threads of this process in its namespaces.
    let mask = libc::CLONE_THREAD
        | libc::CLONE_VM
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
    let conditional: [(libc::c_long, Vec<SeccompRule>); N_CONDITIONAL] = [
        (
            libc::SYS_clone,
            vec![rule(vec![SeccompCondition::new(
                0,
                SeccompCmpArgLen::Qword,
                SeccompCmpOp::MaskedEq(mask as u64),
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
        // It may signal itself, for example to abort.
        (libc::SYS_tgkill, one_of(0, &[own_id])?),
        (libc::SYS_prlimit64, limit_rules(role)?),
        // Streams only: a datagram socket of a pair can send to any named socket.
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
        [UNCONDITIONAL, TRAPPED].concat().into_iter().map(|number| (number, Vec::new())).collect();
    rules.extend(conditional);
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
