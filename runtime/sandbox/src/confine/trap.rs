//! Answers the few system calls with a path that a confined process makes, in the process itself.
//!
//! Opening `/proc/self/fd/N` gives a copy of that descriptor (the engine maps files by path), and asking
//! for the state of a descriptor by way of an empty path is turned into the call that takes a
//! descriptor. To everything else the answer is that there is no such call. So the kernel never gets to
//! see a path.
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
    // SAFETY: all zeros is a valid `sigaction`; the handler touches nothing but its arguments, `errno`,
    // which it restores, and makes two system calls, both of which signal handlers may make.
    let done = unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = on_denied as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_denied(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes the context of the interrupted thread, which stands still
    // until this returns. The registers are those of its system call, rolled back to before the call.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let registers = &mut *context.cast::<libc::ucontext_t>();
        let result = answer(&call(registers));
        set_result(registers, result);
        *errno = saved;
    }
}

struct Denied {
    number: c_long,
    arguments: [u64; 4],
}

/// What the thread sees as the result: a value, or a negative error number.
///
/// # Safety
/// The arguments are those of a system call of this process, so its pointers are as good as the kernel
/// would have found them; a wild one ends the process.
unsafe fn answer(denied: &Denied) -> i64 {
    let [first, second, third, fourth] = denied.arguments;
    // SAFETY: see above; the calls made here are on the list of the filter.
    let done = unsafe {
        match denied.number {
            libc::SYS_openat => own_descriptor(second as *const c_char),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => own_descriptor(first as *const c_char),
            libc::SYS_newfstatat if is_bare(second as *const c_char, fourth) => {
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

/// A copy of the descriptor that `path` names, where it is `/proc/self/fd/N`.
unsafe fn own_descriptor(path: *const c_char) -> Option<c_long> {
    // SAFETY: a path is a text that ends with a zero.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let digits = path.strip_prefix(b"/proc/self/fd/")?;
    if digits.is_empty() || 6 < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |number, digit: &u8| number * 10 + c_int::from(digit - b'0');
    let number = digits.iter().fold(0, digit);
    // SAFETY: takes numbers only.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    Some(copy.into())
}

/// Whether a path says nothing beside the descriptor.
unsafe fn is_bare(path: *const c_char, flags: u64) -> bool {
    // SAFETY: the first byte of a text is always there.
    flags & (libc::AT_EMPTY_PATH as u64) != 0 && unsafe { path.read() } == 0
}

#[cfg(target_arch = "x86_64")]
fn call(context: &libc::ucontext_t) -> Denied {
    let register = |name: c_int| context.uc_mcontext.gregs[name as usize];
    Denied {
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
fn call(context: &libc::ucontext_t) -> Denied {
    let registers = &context.uc_mcontext.regs;
    Denied {
        number: registers[8].cast_signed(),
        arguments: [registers[0], registers[1], registers[2], registers[3]],
    }
}

#[cfg(target_arch = "aarch64")]
fn set_result(context: &mut libc::ucontext_t, result: i64) {
    context.uc_mcontext.regs[0] = result.cast_unsigned();
}
