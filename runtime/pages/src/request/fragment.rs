//! Fragments have URLs below `P/_/`. A browser that opens one is redirected to the page that contains it.

/// The URL of the page that contains a fragment; absent if the address is not that of a fragment.
pub(crate) fn page_of(address: &str) -> Option<String> {
    let (base, rest) = address.split_once("/_/")?;
    let project = base.strip_prefix("/project/")?;
    if project.contains(['/', '?']) {
        return None;
    }
    let (path, query) = match rest.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (rest, String::new()),
    };
    let with = |page: &str, parameter: &str| {
        let sign = if query.is_empty() { '?' } else { '&' };
        format!("{base}{page}{query}{sign}{parameter}")
    };
    let segments: Vec<&str> = path.split('/').collect();
    if let ["traces", id, "peek"] = segments.as_slice() {
        let peek = format!("peek={}", perpend_views::decode_segment(id));
        return Some(with("/traces", &peek));
    }
    if segments == ["trends"] {
        return Some(with("", "trends=1"));
    }
    if let ["users", id, "trends"] = segments.as_slice() {
        return Some(with(&format!("/users/{id}"), "trends=1"));
    }
    if let [
        list @ ("traces" | "observations" | "scores" | "sessions" | "users"),
        "suggest" | "news",
    ] = segments.as_slice()
    {
        return Some(format!("{base}/{list}{query}"));
    }
    if let ["traces", part @ ("facets" | "bars")] = segments.as_slice() {
        return Some(with("/traces", &format!("{part}=1")));
    }
    let mut segments = segments.into_iter();
    Some(match (segments.next(), segments.next()) {
        (Some(list @ ("traces" | "sessions" | "experiments" | "rules")), Some(id)) => {
            format!("{base}/{list}/{id}{query}")
        }
        (Some("value"), None) => format!("{base}/value{query}"),
        (Some("search"), _) => format!("{base}/search{query}"),
        _ => base.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_redirects_to_its_page_and_a_page_does_not() {
        for (part, page) in [
            ("traces/t/detail?observation=o", "/traces/t?observation=o"),
            ("traces/t%2F/rows?trace&at=7", "/traces/t%2F?trace&at=7"),
            ("search?q=a%2Fb", "/search?q=a%2Fb"),
            ("search/contents?q=a", "/search?q=a"),
            ("value?trace=t&path=%24", "/value?trace=t&path=%24"),
            ("news?since=1", ""),
            ("trends?from=-1d&part=scores", "?from=-1d&part=scores&trends=1"),
            ("traces/facets?q=x", "/traces?q=x&facets=1"),
            ("traces/bars", "/traces?bars=1"),
            ("traces/suggest?q=na", "/traces?q=na"),
            ("users/suggest?q=na", "/users?q=na"),
            ("scores/news?q=na", "/scores?q=na"),
            ("observations/news?q=na", "/observations?q=na"),
            ("users/a%2F/trends?env=b", "/users/a%2F?env=b&trends=1"),
            ("traces/t/peek", "/traces?peek=t"),
            ("experiments/r/news", "/experiments/r"),
            ("rules/r/funnel?hours=1", "/rules/r?hours=1"),
        ] {
            let page = format!("/project/p{page}");
            assert_eq!(page_of(&format!("/project/p/_/{part}")), Some(page));
        }
        for page in ["/project/p/traces/t", "/project/p/sessions/_/", "/assets/_/x", "/_/x"] {
            assert_eq!(page_of(page), None, "{page}");
        }
    }
}
