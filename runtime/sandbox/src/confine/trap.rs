//! Emulates the system calls with a path that a confined process makes.
//!
//! Opening `/proc/self/fd/N` duplicates that descriptor, because the engine maps files by path. `newfstatat` with an empty path
//! becomes `fstat`. All others fail with `ENOSYS`. The kernel never handles a path.
#![expect(
    unsafe_code,
    reason = "a signal handler reads and writes the registers of the thread it interrupted"
)]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_char, c_int, c_long, c_void};

/// Installs the handler. Only the filter sends this signal.
pub(super) fn install() -> io::Result<()> {
    // SAFETY: all zeros is a valid `sigaction`. The handler accesses only its arguments and `errno`, which it restores, and
    // makes two async-signal-safe system calls.
    let done = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_denied as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_denied(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes the context of the interrupted thread, which is suspended until this returns.
    // The registers are those before its system call.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let registers = &mut *context.cast::<libc::ucontext_t>();
        let result = emulate(&denied_call(registers));
        set_result(registers, result);
        *errno = saved;
    }
}

struct DeniedCall {
    number: c_long,
    arguments: [u64; 4],
}

/// Returns the result of the call: a value, or a negative error number.
///
/// # Safety
/// The arguments are those of a system call of this process. An invalid pointer ends the process.
unsafe fn emulate(denied: &DeniedCall) -> i64 {
    let [first, second, third, fourth] = denied.arguments;
    // SAFETY: see above. The filter allows the calls made here.
    let done = unsafe {
        match denied.number {
            libc::SYS_openat => duplicate_descriptor(second as *const c_char),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => duplicate_descriptor(first as *const c_char),
            libc::SYS_newfstatat if is_empty_path(second as *const c_char, fourth) => {
                Some(libc::syscall(libc::SYS_fstat, first as c_int, third as *mut c_void))
            }
            _ => None,
        }
    };
    match done {
        None => -i64::from(libc::ENOSYS),
        Some(-1) => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EBADF)),
        Some(value) => value,
    }
}

/// Duplicates the descriptor N if `path` is `/proc/self/fd/N`.
unsafe fn duplicate_descriptor(path: *const c_char) -> Option<c_long> {
    // SAFETY: a path is a null-terminated string.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let digits = path.strip_prefix(b"/proc/self/fd/")?;
    if digits.is_empty() || 6 < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |number, digit: &u8| number * 10 + c_int::from(digit - b'0');
    let number = digits.iter().fold(0, digit);
    // SAFETY: all arguments are numbers.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    Some(copy.into())
}

/// Whether the path is empty, so that the call refers to the descriptor.
unsafe fn is_empty_path(path: *const c_char, flags: u64) -> bool {
    // SAFETY: a null-terminated string has a first byte.
    flags & (libc::AT_EMPTY_PATH as u64) != 0 && unsafe { path.read() } == 0
}

#[cfg(target_arch = "x86_64")]
fn denied_call(context: &libc::ucontext_t) -> DeniedCall {
    let register = |name: c_int| context.uc_mcontext.gregs[name as usize];
    DeniedCall {
        number: register(libc::REG_RAX),
        arguments: [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10]
            .map(|name| register(name).cast_unsigned()),
    }
}

#[cfg(target_arch = "x86_64")]
fn set_result(context: &mut libc::ucontext_t, result: i64) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
}

#[cfg(target_arch = "aarch64")]
fn denied_call(context: &libc::ucontext_t) -> DeniedCall {
    let registers = &context.uc_mcontext.regs;
    DeniedCall {
        number: registers[8].cast_signed(),
        arguments: [registers[0], registers[1], registers[2], registers[3]],
    }
}

#[cfg(target_arch = "aarch64")]
fn set_result(context: &mut libc::ucontext_t, result: i64) {
    context.uc_mcontext.regs[0] = result.cast_unsigned();
}
