//! Removal of function names, which identify the location of a trap.
//!
//! Loading an artifact reads all names. Those of the Python interpreter take a tenth of the load time and identify only
//! functions of the interpreter, so they are removed. Names of plug-ins in compiled languages are kept.

use std::borrow::Cow;

/// Maximum size of the names of all modules. Larger ones belong to an interpreter.
const MAX_NAMES: usize = 320 << 10;
/// Maximum depth of nested components; deeper ones are not changed.
const MAX_DEPTH: usize = 8;

const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const HEADER: usize = 8;
const MODULE_VERSION: [u8; 4] = [1, 0, 0, 0];

/// Removes names that are larger than the limit. Returns the component unchanged if they are smaller, or if it is malformed,
/// which the engine reports.
pub(crate) fn strip_if_large(component: &[u8]) -> Cow<'_, [u8]> {
    match strip(component, MAX_DEPTH) {
        Some(rest) if MAX_NAMES < component.len() - rest.len() => Cow::Owned(rest),
        _ => Cow::Borrowed(component),
    }
}

fn strip(bytes: &[u8], depth: usize) -> Option<Vec<u8>> {
    let is_module = bytes.get(4..HEADER)? == MODULE_VERSION;
    let mut rest = Vec::with_capacity(bytes.len());
    rest.extend_from_slice(&bytes[..HEADER]);
    let mut left = &bytes[HEADER..];
    while let Some((id, after)) = left.split_first() {
        let (section, next) = split_sized(after)?;
        match *id {
            CUSTOM if is_module && split_sized(section)?.0 == b"name" => {}
            CORE_MODULE | COMPONENT if !is_module && depth != 0 => {
                add(*id, &strip(section, depth - 1)?, &mut rest);
            }
            id => add(id, section, &mut rest),
        }
        left = next;
    }
    Some(rest)
}

/// Splits off the bytes that a length prefix covers.
fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0_usize;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes[at + 1..].split_at_checked(length);
        }
    }
    None
}

fn add(id: u8, section: &[u8], out: &mut Vec<u8>) {
    out.push(id);
    let mut length = section.len();
    while 0x80 <= length {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(section);
}

#[cfg(test)]
mod tests {
    use wasmtime::Engine;
    use wasmtime::component::Component;

    use super::*;

    fn component(n_functions: usize) -> Vec<u8> {
        let functions: String =
            (0..n_functions).map(|n| format!("(func $a-function-with-a-long-name-{n})")).collect();
        let nested = "(component $inner (core module $small (func $another)))";
        let text = format!("(component (core module $m {functions}) {nested})");
        wat::parse_str(text).unwrap()
    }

    fn has(bytes: &[u8], name: &str) -> bool {
        bytes.windows(name.len()).any(|window| window == name.as_bytes())
    }

    #[test]
    fn large_names_are_removed_and_the_component_stays_valid() {
        let named = component(12_000);
        let rest = strip_if_large(&named);
        assert!(has(&named, "with-a-long-name") && has(&named, "another"));
        assert!(!has(&rest, "with-a-long-name") && !has(&rest, "another"));
        Component::new(&Engine::default(), &rest).unwrap();
    }

    #[test]
    fn small_names_are_kept() {
        let named = component(100);
        assert!(matches!(strip_if_large(&named), Cow::Borrowed(_)));
    }

    #[test]
    fn malformed_input_is_not_changed() {
        let whole = component(12_000);
        for bytes in [&b""[..], b"\0asm", &whole[..whole.len() - 1], &[0xff; 64]] {
            assert_eq!(&*strip_if_large(bytes), bytes);
        }
    }
}
