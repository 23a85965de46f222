//! Standard output, standard error and the environment.
//!
//! `std` uses the C library, which adds tables of descriptors, terminals, polling and an environment: 19 imports
//! and resources of seven types in every component, a considerable part of the time of a small call. The functions
//! here replace those of the library at link time. They do what the sandbox supports: no variable is set, and
//! lines written to standard output and standard error, such as the message of a panic, go to the log of the
//! evaluation.
#![expect(
    unsafe_code,
    reason = "functions for C code have pointer parameters. An invalid call only affects this instance, \
              which lives for one call"
)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int};

use super::calls;
use crate::host::Level;

/// The maximum length of a logged line. Longer lines are logged in parts, because the host cuts lines at 8 KiB.
const MAX_LINE: usize = 8000;
const FAILED: isize = -1;

thread_local! {
    /// The incomplete lines of standard output and standard error.
    static OPEN: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// A buffer of `writev`, with the layout of C.
#[repr(C)]
struct Buffer {
    at: *const u8,
    n_bytes: usize,
}

/// `write` of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: c_int, at: *const u8, n_bytes: usize) -> isize {
    // SAFETY: the caller guarantees the number of bytes.
    unsafe { print(descriptor, &[Buffer { at, n_bytes }]) }
}

/// `writev` of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(descriptor: c_int, parts: *const Buffer, n_parts: c_int) -> isize {
    match usize::try_from(n_parts) {
        Ok(0) => 0,
        // SAFETY: the caller guarantees the number of parts and of their bytes.
        Ok(n) => unsafe { print(descriptor, std::slice::from_raw_parts(parts, n)) },
        Err(_) => FAILED,
    }
}

/// `getenv` of the C library.
#[unsafe(no_mangle)]
extern "C" fn getenv(_name: *const c_char) -> *mut c_char {
    std::ptr::null_mut()
}

/// Logs incomplete lines at the end of a call.
pub(super) fn flush() {
    OPEN.with_borrow_mut(|open| {
        for (at, line) in open.iter_mut().enumerate() {
            if !line.is_empty() {
                log(at, line);
                line.clear();
            }
        }
    });
}

unsafe fn print(descriptor: c_int, parts: &[Buffer]) -> isize {
    let stream = match descriptor {
        1 => 0,
        2 => 1,
        // There are no others.
        _ => return FAILED,
    };
    let mut n_written = 0;
    OPEN.with_borrow_mut(|open| {
        for part in parts.iter().filter(|part| part.n_bytes != 0) {
            // SAFETY: guaranteed by the callers of this function.
            let bytes = unsafe { std::slice::from_raw_parts(part.at, part.n_bytes) };
            add(stream, &mut open[stream], bytes);
            n_written += part.n_bytes;
        }
    });
    isize::try_from(n_written).unwrap_or(isize::MAX)
}

fn add(stream: usize, open: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
        for part in piece.chunks(MAX_LINE) {
            if MAX_LINE < open.len() + part.len() {
                log(stream, open);
                open.clear();
            }
            open.extend_from_slice(part);
        }
        if open.last() == Some(&b'\n') {
            open.pop();
            log(stream, open);
            open.clear();
        }
    }
}

fn log(stream: usize, line: &[u8]) {
    let name = ["stdout", "stderr"][stream];
    let line = String::from_utf8_lossy(line);
    calls::log(Level::Info, &format!("{name}: {line}"), None);
}
