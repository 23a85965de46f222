//! Variants of model names.

/// The names to try in order: as sent, without provider prefix, and both without date.
pub(super) fn candidate_names(model: &str) -> Vec<&str> {
    let mut names = vec![model];
    let mut rest = model;
    while let Some((_, tail)) = rest.split_once('/') {
        names.push(tail);
        rest = tail;
    }
    // Claude Code marks a longer context: `claude-sonnet-4-5[1m]`.
    for at in 0..names.len() {
        let marked = names[at].strip_suffix(']').and_then(|name| name.rsplit_once('['));
        names.extend(marked.map(|(name, _)| name));
    }
    for at in 0..names.len() {
        let bare = strip_date(names[at]);
        if bare != names[at] {
            names.push(bare);
        }
    }
    names
}

/// A model name without its date or version suffix: `-2025-04-14`, `-20250929`, `@20250929`, `-v1:0`.
#[must_use]
pub fn strip_date(name: &str) -> &str {
    let mut rest = name;
    loop {
        let cut = strip_version(rest)
            .or_else(|| strip_shape(rest, "-0000-00-00"))
            .or_else(|| strip_shape(rest, "-00000000"))
            .or_else(|| strip_shape(rest, "@00000000"));
        match cut {
            Some(shorter) if !shorter.is_empty() => rest = shorter,
            _ => return rest,
        }
    }
}

/// Strips a suffix of the given shape, where `0` matches any digit.
pub(super) fn strip_shape<'a>(name: &'a str, shape: &str) -> Option<&'a str> {
    let at = name.len().checked_sub(shape.len())?;
    let (head, tail) = name.split_at_checked(at)?;
    let fits = tail
        .bytes()
        .zip(shape.bytes())
        .all(|(byte, wanted)| byte == wanted || (wanted == b'0' && byte.is_ascii_digit()));
    fits.then_some(head)
}

/// Strips `-v1:0`.
pub(super) fn strip_version(name: &str) -> Option<&str> {
    let (head, tail) = name.rsplit_once("-v")?;
    let (major, minor) = tail.split_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (is_number(major) && is_number(minor)).then_some(head)
}
