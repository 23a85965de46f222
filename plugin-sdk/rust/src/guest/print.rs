//! What is printed, and the environment.
//!
//! `std` asks the C library below it, and that brings along tables of descriptors, terminals, polling and
//! an environment: 19 imports and resources of seven types in every component, a good part of the time of
//! a small call. The functions here have the names of the library's and are linked in their place. They
//! do what is left of it in the sandbox: no variable is set, and lines written to standard output and
//! standard error, a panic's message for one, go to the log of the evaluation.
#![expect(
    unsafe_code,
    reason = "functions that C code calls take pointers. Whoever calls them wrongly harms this instance \
              alone, which lives for one call"
)]

use std::cell::RefCell;
use std::ffi::{c_char, c_int};

use super::calls;
use crate::host::Level;

/// A line that is longer is logged in parts: the host cuts what is longer than 8 KiB.
const MAX_LINE: usize = 8000;
const FAILED: isize = -1;

thread_local! {
    /// Lines that have not ended, of standard output and of standard error.
    static OPEN: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// A part of what is written, as C lays it out.
#[repr(C)]
struct Part {
    at: *const u8,
    n_bytes: usize,
}

/// `write` of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: c_int, at: *const u8, n_bytes: usize) -> isize {
    // SAFETY: the caller says that there are so many bytes.
    unsafe { print(descriptor, &[Part { at, n_bytes }]) }
}

/// `writev` of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(descriptor: c_int, parts: *const Part, n_parts: c_int) -> isize {
    match usize::try_from(n_parts) {
        Ok(0) => 0,
        // SAFETY: the caller says that there are so many parts, and of each so many bytes.
        Ok(n) => unsafe { print(descriptor, std::slice::from_raw_parts(parts, n)) },
        Err(_) => FAILED,
    }
}

/// `getenv` of the C library.
#[unsafe(no_mangle)]
extern "C" fn getenv(_name: *const c_char) -> *mut c_char {
    std::ptr::null_mut()
}

/// The last lines, if they have no end: called when the evaluator is done.
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

unsafe fn print(descriptor: c_int, parts: &[Part]) -> isize {
    let stream = match descriptor {
        1 => 0,
        2 => 1,
        // There are no others.
        _ => return FAILED,
    };
    let mut n_written = 0;
    OPEN.with_borrow_mut(|open| {
        for part in parts.iter().filter(|part| part.n_bytes != 0) {
            // SAFETY: the callers of this function say so.
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
