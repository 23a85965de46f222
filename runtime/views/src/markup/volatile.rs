//! The parts of a page that change between responses with the same content.

/// Markup before a form token.
const BEFORE_TOKEN: &[u8] = b"name=\"form\" value=\"";
/// Length of the part of a token that changes with each response.
const MASKED: usize = 86;

/// Markup before a relative time, which scripts update.
const BEFORE_AGO: &[u8] = b"<span class=\"ago\">";

/// The parts of a page without masked tokens and relative times. Text in the page cannot be mistaken for these, because its
/// quotes are escaped.
pub fn without_volatile_parts(html: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(html);
    std::iter::from_fn(move || {
        let all = rest.take()?;
        let found = (0..all.len()).find_map(|at| {
            let marks = [BEFORE_TOKEN, BEFORE_AGO];
            let mark = marks.into_iter().find(|mark| all[at..].starts_with(mark))?;
            Some((at + mark.len(), mark == BEFORE_TOKEN))
        });
        let Some((at, is_token)) = found else {
            return Some(all);
        };
        let (part, behind) = all.split_at(at);
        let n_skipped = match is_token {
            true => MASKED.min(behind.len()),
            false => behind.iter().position(|byte| *byte == b'<').unwrap_or(behind.len()),
        };
        rest = Some(&behind[n_skipped..]);
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_removed() {
        let page = |token: char| {
            let token = token.to_string().repeat(MASKED);
            format!(
                "<p><input name=\"form\" value=\"{token}.7\">a<input name=\"form\" value=\"{token}.7\">"
            )
        };
        let parts = |page: &str| {
            without_volatile_parts(page.as_bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert_eq!(parts(&page('a')), parts(&page('b')));
        let whole = parts(&page('a')).concat();
        assert_eq!(whole.len(), page('a').len() - 2 * MASKED);
        assert_ne!(parts(&page('a')), parts(&page('a').replace(".7", ".8")));
        assert_eq!(
            parts("name=\"form\" value=\"short"),
            [b"name=\"form\" value=\"".to_vec(), Vec::new()]
        );
        assert_eq!(parts("plain"), [b"plain".to_vec()]);
    }

    #[test]
    fn relative_times_are_removed() {
        let page = |ago: &str| format!("<p><span class=\"ago\">{ago}</span> a</p>");
        let same = |page: &str| {
            let parts: Vec<&[u8]> = without_volatile_parts(page.as_bytes()).collect();
            parts.concat()
        };
        assert_eq!(same(&page("59 s ago")), same(&page("1 min ago")));
        assert_ne!(same(&page("1 s ago")), same(&page("1 s ago").replace(" a<", " b<")));
        assert_eq!(same("<span class=\"ago\">cut"), b"<span class=\"ago\">");
    }
}
