//! What differs between two answers with the same page.

/// What stands before the token in a page.
const BEFORE_TOKEN: &[u8] = b"name=\"form\" value=\"";
/// Characters of a token that differ from answer to answer.
const MASKED: usize = 86;

/// What stands before how long ago something was, which scripts keep up to date.
const BEFORE_AGO: &[u8] = b"<span class=\"ago\">";

/// The parts of a page that are the same in each answer with the same content: all but the masked tokens and how long ago
/// things were. Nothing that is shown can look like one, because quotes in it are escaped.
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
        let n_left_out = match is_token {
            true => MASKED.min(behind.len()),
            false => behind.iter().position(|byte| *byte == b'<').unwrap_or(behind.len()),
        };
        rest = Some(&behind[n_left_out..]);
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_whatever_its_tokens_are() {
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
    fn how_long_ago_something_was_makes_no_other_page() {
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
