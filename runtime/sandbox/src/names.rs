//! The names of the functions in a component, with which a trap says where it happened.
//!
//! They are read whenever the artifact is loaded. The interpreter of Python brings so many that they are a
//! tenth of the time, and tells with them where in itself it was: such are left out. Those of plug-ins in
//! compiled languages stay.

use std::borrow::Cow;

/// Names of so many bytes, those of all modules together, are those of an interpreter.
const MAX_NAMES: usize = 320 << 10;
/// Components in components; deeper ones stay as they are.
const MAX_DEPTH: usize = 8;

const CUSTOM: u8 = 0;
const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;
const HEADER: usize = 8;
const VERSION_OF_MODULES: [u8; 4] = [1, 0, 0, 0];

/// The component without names, where it has very many; as it is where it has fewer, or cannot be read, which
/// the engine then says better.
pub(crate) fn without_many(component: &[u8]) -> Cow<'_, [u8]> {
    match without(component, MAX_DEPTH) {
        Some(rest) if MAX_NAMES < component.len() - rest.len() => Cow::Owned(rest),
        _ => Cow::Borrowed(component),
    }
}

fn without(bytes: &[u8], depth: usize) -> Option<Vec<u8>> {
    let is_module = bytes.get(4..HEADER)? == VERSION_OF_MODULES;
    let mut rest = Vec::with_capacity(bytes.len());
    rest.extend_from_slice(&bytes[..HEADER]);
    let mut left = &bytes[HEADER..];
    while let Some((id, after)) = left.split_first() {
        let (section, next) = sized(after)?;
        match *id {
            CUSTOM if is_module && sized(section)?.0 == b"name" => {}
            CORE_MODULE | COMPONENT if !is_module && depth != 0 => {
                add(*id, &without(section, depth - 1)?, &mut rest);
            }
            id => add(id, section, &mut rest),
        }
        left = next;
    }
    Some(rest)
}

/// The bytes after a length, as many as it says, and what follows them.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
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
    fn very_many_names_are_left_out_and_the_component_stays_what_it_is() {
        let named = component(12_000);
        let rest = without_many(&named);
        assert!(has(&named, "with-a-long-name") && has(&named, "another"));
        assert!(!has(&rest, "with-a-long-name") && !has(&rest, "another"));
        Component::new(&Engine::default(), &rest).unwrap();
    }

    #[test]
    fn the_names_of_a_usual_component_stay() {
        let named = component(100);
        assert!(matches!(without_many(&named), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_no_component_or_ends_too_early_stays_as_it_is() {
        let whole = component(12_000);
        for bytes in [&b""[..], b"\0asm", &whole[..whole.len() - 1], &[0xff; 64]] {
            assert_eq!(&*without_many(bytes), bytes);
        }
    }
}
