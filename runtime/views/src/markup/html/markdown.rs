//! Renders markdown: CommonMark, tables and task lists. HTML is shown as text, images become links, and links only lead to web
//! and mail addresses.
//!
//! No text is lost: if the markup would not contain all words, the text is not rendered.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag};

use super::{Html, push_text};

/// Maximum length in bytes of rendered texts.
const MAX_BYTES: usize = 64 * 1024;
/// Maximum nesting of elements. Deeper elements are flattened into the innermost one.
const MAX_DEPTH: usize = 24;
/// Maximum number of block quotes and lists that one line opens. The parser checks all open blocks for each line.
const MAX_OPENED: usize = 32;
/// Maximum number of table elements.
const TABLE_DEPTH: usize = 3;
/// Maximum ratio of the length of the markup to the length of the text. The parser adds missing cells to table rows.
const MAX_GROWTH: usize = 10;

impl Html {
    /// Renders markdown. `None` if the text contains no markdown, so that logs keep their spaces, and if it is too long, would become
    /// much longer, or would lose a word.
    #[must_use]
    pub fn markdown(raw: &str) -> Option<Self> {
        if MAX_BYTES < raw.len() || raw.lines().any(opens_too_many_blocks) {
            return None;
        }
        let max = raw.len() * MAX_GROWTH + 4096;
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        let mut writer = Writer::default();
        for event in Parser::new_ext(raw, options) {
            writer.event(event);
            if max < writer.out.len() {
                return None;
            }
        }
        let is_whole = writer.is_marked && is_all_shown(raw, &writer.shown);
        is_whole.then_some(Self(writer.out))
    }
}

/// Whether a line opens more than `MAX_OPENED` block quotes and lists.
fn opens_too_many_blocks(line: &str) -> bool {
    let is_mark = |c: &char| c.is_ascii_digit() || c.is_ascii_whitespace() || ">-*+.)".contains(*c);
    let start = line.chars().take_while(is_mark);
    let mut before = ' ';
    let opened = start.filter(|c| {
        let is_list = c.is_ascii_whitespace() && "-*+.)".contains(before);
        before = *c;
        *c == '>' || is_list
    });
    MAX_OPENED < opened.count()
}

/// Whether `shown` contains each word and each non-ASCII character of `raw` as often. Numbers only need to occur once, because
/// lists are renumbered.
fn is_all_shown(raw: &str, shown: &str) -> bool {
    let is_apart = |c: char| !c.is_alphanumeric();
    let is_sign = |c: &char| !c.is_ascii() && !c.is_alphanumeric() && !c.is_whitespace();
    let mut words: HashMap<&str, usize> = HashMap::new();
    for word in shown.split(is_apart) {
        *words.entry(word).or_default() += 1;
    }
    let mut signs: HashMap<char, usize> = HashMap::new();
    for sign in shown.chars().filter(is_sign) {
        *signs.entry(sign).or_default() += 1;
    }
    let has_signs = raw.chars().filter(is_sign).all(|sign| remove_one(&mut signs, sign));
    let mut before = ' ';
    has_signs
        && raw.split_inclusive(is_apart).all(|piece| {
            let word = piece.trim_end_matches(is_apart);
            // A character reference was replaced by its character.
            let is_entity = matches!(before, '&' | '#') && piece.ends_with(';');
            before = piece.chars().next_back().unwrap_or(' ');
            let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
            match is_number {
                _ if is_entity || word.is_empty() => true,
                true => words.contains_key(word),
                false => remove_one(&mut words, word),
            }
        })
}

/// Removes one occurrence, and returns whether there was one.
fn remove_one<T: std::hash::Hash + Eq>(all: &mut HashMap<T, usize>, one: T) -> bool {
    let left = all.get_mut(&one).filter(|n| 0 < **n);
    left.map(|n| *n -= 1).is_some()
}

/// The end of an open element.
enum End {
    Markup(&'static str),
    /// An ordered list, with the next number.
    Numbered(u64),
    Target(Target),
}

/// The target of a link or an image.
struct Target {
    to: String,
    title: String,
    /// Start of its text in `shown`.
    from: usize,
    is_link: bool,
}

#[derive(Default)]
struct Writer {
    out: String,
    /// The text of the markup, and the URLs in it.
    shown: String,
    ends: Vec<End>,
    /// The text contains markdown.
    is_marked: bool,
    in_table: bool,
    /// Inside the table header.
    in_head: bool,
    in_link: bool,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                // Indented code alone does not count as markdown.
                self.is_marked |= !matches!(
                    tag,
                    Tag::Paragraph | Tag::HtmlBlock | Tag::CodeBlock(CodeBlockKind::Indented)
                );
                let end = match MAX_DEPTH <= self.ends.len() {
                    true => End::Markup(""),
                    false => self.start(&tag),
                };
                self.ends.push(end);
            }
            Event::End(_) => self.end(),
            Event::Code(text) => {
                self.is_marked = true;
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => {
                self.is_marked = true;
                self.out.push_str("<hr>");
            }
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text(&text),
            Event::TaskListMarker(is_done) => {
                let (label, sign) = match is_done {
                    true => ("done", '☑'),
                    false => ("to do", '☐'),
                };
                self.shown.push_str("x X ");
                self.out
                    .push_str(&format!("<span role=\"img\" aria-label=\"{label}\">{sign}</span> "));
            }
        }
    }

    fn text(&mut self, text: &str) {
        push_text(&mut self.out, text);
        self.shown.push_str(text);
        self.shown.push(' ');
    }

    fn end(&mut self) {
        match self.ends.pop() {
            None => {}
            Some(End::Markup(end)) => {
                self.in_table &= end != TABLE_END;
                self.in_head &= end != HEAD_END;
                self.out.push_str(end);
            }
            Some(End::Numbered(_)) => self.out.push_str("</ol>"),
            Some(End::Target(target)) => self.end_target(&target),
        }
    }

    /// Opens an element and returns its end.
    fn start(&mut self, tag: &Tag<'_>) -> End {
        let (start, end): (&str, &'static str) = match tag {
            Tag::Paragraph => ("<p>", "</p>"),
            // Heading elements are reserved for the page.
            Tag::Heading { level, .. } => {
                let size = *level as usize;
                self.out.push_str(&format!("<p class=\"mh mh{size}\">"));
                ("", "</p>")
            }
            Tag::BlockQuote(_) => ("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => {
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.out.push_str("<p class=\"muted\">");
                    self.text(language);
                    self.out.push_str("</p>");
                }
                ("<pre dir=\"auto\" tabindex=\"0\"><code>", "</code></pre>")
            }
            Tag::HtmlBlock => ("<p class=\"as-is\">", "</p>"),
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::List(Some(first)) => {
                self.out.push_str(&format!("<ol start=\"{first}\">"));
                return End::Numbered(*first);
            }
            Tag::Item => {
                match self.ends.last_mut() {
                    Some(End::Numbered(number)) => {
                        self.shown.push_str(&format!("{number} "));
                        *number = number.saturating_add(1);
                    }
                    Some(End::Markup("</ul>")) => {}
                    _ => return End::Markup(""),
                }
                ("<li>", "</li>")
            }
            Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::TableCell => self.of_table(tag),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link { link_type, dest_url, title, .. } => {
                let to = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}"),
                    _ => dest_url.to_string(),
                };
                return self.start_target(to, title, "");
            }
            Tag::Image { dest_url, title, .. } => {
                return self.start_target(dest_url.to_string(), title, "image: ");
            }
            _ => ("", ""),
        };
        self.out.push_str(start);
        End::Markup(end)
    }

    /// The markup of a table element inside a table.
    fn of_table(&mut self, tag: &Tag<'_>) -> (&'static str, &'static str) {
        match tag {
            Tag::Table(_) if self.ends.len() + TABLE_DEPTH <= MAX_DEPTH => {
                self.in_table = true;
                (
                    "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>",
                    TABLE_END,
                )
            }
            _ if !self.in_table => ("", ""),
            Tag::TableHead => {
                self.in_head = true;
                ("<thead><tr>", HEAD_END)
            }
            Tag::TableRow => ("<tr>", "</tr>"),
            _ if self.in_head => ("<th>", "</th>"),
            _ => ("<td>", "</td>"),
        }
    }

    /// Opens a link or an image, which is shown as a link. Links cannot be nested.
    fn start_target(&mut self, to: String, title: &str, kind: &'static str) -> End {
        let is_link = !self.in_link && host(&to).is_some();
        if is_link {
            self.in_link = true;
            self.out.push_str("<a rel=\"noreferrer noopener nofollow\" href=\"");
            push_text(&mut self.out, &to);
            self.out.push_str("\">");
        }
        self.out.push_str(kind);
        End::Target(Target { title: title.to_owned(), from: self.shown.len(), to, is_link })
    }

    /// Appends the host of a link, unless the link text names it.
    fn end_target(&mut self, target: &Target) {
        let text: String = self.shown[target.from..].split_whitespace().collect();
        let mut note = match host(&target.to) {
            Some(host) if target.is_link => match leads_to(&text, host) {
                true => String::new(),
                false => host.to_owned(),
            },
            _ => target.to.clone(),
        };
        if target.is_link {
            self.out.push_str("</a>");
            self.in_link = false;
        }
        if !target.title.is_empty() {
            note = format!("{note} “{}”", target.title);
        }
        if !note.is_empty() {
            self.out.push_str(" <span class=\"muted\">(");
            self.text(note.trim());
            self.out.push_str(")</span>");
        }
        self.shown.push_str(&target.to);
        self.shown.push(' ');
    }
}

const TABLE_END: &str = "</tbody></table></div>";
const HEAD_END: &str = "</tr></thead><tbody>";

/// The part of a URL after its scheme.
fn after_scheme<'a>(address: &'a str, scheme: &str) -> Option<&'a str> {
    let start = address.get(..scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then(|| &address[scheme.len()..])
}

/// The host or mailbox of a URL; `None` for other schemes.
fn host(address: &str) -> Option<&str> {
    if let Some(mailbox) = after_scheme(address, "mailto:") {
        return mailbox.split('?').next();
    }
    let rest = after_scheme(address, "https://").or_else(|| after_scheme(address, "http://"))?;
    // Browsers skip slashes before the host, so the URL would lead to a host that is not shown.
    let is_named = |server: &&str| {
        !server.is_empty() && !server.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    host_at_start(rest).filter(is_named)
}

/// The host at the start of a URL without scheme.
fn host_at_start(address: &str) -> Option<&str> {
    let authority = address.split(['/', '?', '#', '\\']).next()?;
    authority.rsplit('@').next()
}

/// Whether the link text is a URL of that host.
fn leads_to(text: &str, to: &str) -> bool {
    let own = host(text).or_else(|| match text.contains('@') {
        true => Some(text),
        false => host_at_start(text),
    });
    own.is_some_and(|own| own.eq_ignore_ascii_case(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(raw: &str) -> String {
        Html::markdown(raw).unwrap().to_string()
    }

    #[test]
    fn common_markdown_is_rendered() {
        for (raw, expected) in [
            ("# Title", "<p class=\"mh mh1\">Title</p>"),
            (
                "a *b* **c** `d<` ~~e~~",
                "<p>a <em>b</em> <strong>c</strong> <code>d&lt;</code> <del>e</del></p>",
            ),
            ("*one*\ntwo", "<p><em>one</em><br>two</p>"),
            ("- x\n- y", "<ul><li>x</li><li>y</li></ul>"),
            (
                "- [x] a\n- [ ] b",
                "<ul><li><span role=\"img\" aria-label=\"done\">☑</span> a</li><li><span role=\"img\" aria-label=\"to do\">☐</span> b</li></ul>",
            ),
            ("7. x", "<ol start=\"7\"><li>x</li></ol>"),
            ("> x", "<blockquote><p>x</p></blockquote>"),
            (
                "```sql\nselect 1\n```",
                "<p class=\"muted\">sql</p><pre dir=\"auto\" tabindex=\"0\"><code>select 1\n</code></pre>",
            ),
            ("---", "<hr>"),
        ] {
            assert_eq!(html(raw), expected);
        }
        let table = html("| a | b |\n|---|---|\n| 1 | `2` |\n");
        assert!(table.contains("<thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>2</code></td></tr></tbody></table>"), "{table}");
    }

    #[test]
    fn text_without_markdown_or_with_lost_words_is_not_rendered() {
        for raw in [
            "",
            "one\n  two   three\n\n    at main.rs:7\n",
            "5 < 7 & x_y, <b>bold</b>\n\n<div>\n  <p>as it is</p>\n</div>",
            "| a |\n|---|\n| b | lost |",
            "*a* [label]: here\n\n[label]: https://a.example/ \"first\"\n[label]: https://a.example/ \"second\"",
            "3. *a*\n7. b",
        ] {
            assert_eq!(Html::markdown(raw), None, "{raw}");
        }
        assert_eq!(html("*a* &amp;&#33; b"), "<p><em>a</em> &amp;! b</p>");
    }

    #[test]
    fn links_show_their_host_unless_the_text_does() {
        let link = |to: &str, words: &str| {
            format!("<p><a rel=\"noreferrer noopener nofollow\" href=\"{to}\">{words}</a>")
        };
        for (raw, to, words, behind) in [
            ("[a](https://u@b.example/c)", "https://u@b.example/c", "a", "(b.example)"),
            ("[b.example/d](http://b.example/c)", "http://b.example/c", "b.example/d", ""),
            ("<https://b.example/c>", "https://b.example/c", "https://b.example/c", ""),
            ("<a@b.example>", "mailto:a@b.example", "a@b.example", ""),
            (
                "[https://good.example/evil.example](https://evil.example)",
                "https://evil.example",
                "https://good.example/evil.example",
                "(evil.example)",
            ),
            ("[a](https://b.example \"t<\")", "https://b.example", "a", "(b.example “t&lt;”)"),
            ("![a](https://b.example/i.png)", "https://b.example/i.png", "image: a", "(b.example)"),
        ] {
            let html = html(raw);
            assert!(html.starts_with(&link(to, words)), "{html}");
            let note = match behind {
                "" => "</a></p>".to_owned(),
                note => format!("</a> <span class=\"muted\">{note}</span></p>"),
            };
            assert!(html.ends_with(&note), "{html}");
        }
    }

    #[test]
    fn html_is_text_and_links_only_lead_to_the_web() {
        let html = html(
            "<script>alert(1)</script>\n\nx <img src=x onerror=alert(1)> y\n\n\
             ![pixel](https://evil.example/p.png) [go](javascript:alert(1)) [go](/logout) [a\u{202e}b](https://a.example/\"x)\n\n\
             [![in](https://b.example/i.png)](https://c.example/)",
        );
        for inert in [
            "<script",
            "<img",
            "href=\"javascript",
            "href=\"/logout",
            "href=\"https://b.example",
            "\u{202e}",
        ] {
            assert!(!html.contains(inert), "{inert}: {html}");
        }
        assert!(html.contains("&lt;script&gt;") && html.contains("&lt;img src=x"));
        assert!(html.contains(">image: pixel</a>"), "{html}");
        assert!(html.contains("(javascript:alert(1))") && html.contains("[U+202E]"));
        assert_eq!(html.matches("<a ").count(), html.matches("</a>").count());
    }

    #[test]
    fn markup_much_longer_than_the_text_is_rejected() {
        let wide =
            format!("{}\n{}\n{}", "|a".repeat(1_000), "|-".repeat(1_000), "|x\n".repeat(10_000));
        assert!(Html::markdown(&wide).is_none());
        let deep = html(&format!("{}a", ">".repeat(MAX_OPENED)));
        assert_eq!(deep.matches("<blockquote>").count(), MAX_DEPTH);
        let table = format!("{}| a |\n", "> ".repeat(MAX_DEPTH - 2));
        let table = format!("{table}{}|---|\n", "> ".repeat(MAX_DEPTH - 2));
        let html = html(&table);
        assert!(!html.contains("<t") && !html.contains("</t"), "{html}");
    }

    /// The attribute names of a tag; all values must be quoted.
    fn attributes(tag: &str) -> Vec<&str> {
        let outside = tag.split('"').step_by(2);
        let words = outside.flat_map(str::split_whitespace);
        words.filter(|word| word.ends_with('=')).collect()
    }

    proptest::proptest! {
        #[test]
        fn any_text_becomes_balanced_markup_without_scripts(
            raw in r#"([\n >|`*_\[\]()<a/!#~\-1.:"'=\\x]|javascript:|https://a\.b|<script>|onclick="|src=|\]\(|!\[|- \[x\]){0,60}"#
        ) {
            let html = Html::markdown(&raw).map(|html| html.to_string()).unwrap_or_default();
            let mut open = Vec::new();
            for part in html.split('<').skip(1) {
                let tag = part.split('>').next().unwrap_or("");
                let name = tag.split(' ').next().unwrap_or("");
                let known = ["rel=", "href=", "class=", "start=", "dir=", "tabindex=", "role=", "aria-label="];
                for attribute in attributes(tag) {
                    proptest::prop_assert!(known.contains(&attribute), "{attribute} in {html}");
                }
                if tag.contains("href=") {
                    let is_web = ["href=\"http://", "href=\"https://", "href=\"mailto:"];
                    let is_led = is_web.iter().any(|start| tag.to_lowercase().contains(start));
                    proptest::prop_assert!(is_led, "{tag}");
                }
                proptest::prop_assert!(!["script", "img", "iframe"].contains(&name), "{html}");
                match name.strip_prefix('/') {
                    Some(name) => {
                        let last: Option<&str> = open.pop();
                        proptest::prop_assert_eq!(last, Some(name));
                    }
                    None if name == "br" || name == "hr" => {}
                    None => open.push(name),
                }
            }
            proptest::prop_assert!(open.is_empty());
        }

        #[test]
        fn markup_contains_each_word(raw in r"([\n >|`*_\[\]()<a/!#~\-.:]|word[a-d]|https://a\.b/|\]\(| \[x\] ){0,40}") {
            if let Some(html) = Html::markdown(&raw) {
                for word in ["worda", "wordb", "wordc", "wordd"] {
                    proptest::prop_assert!(!raw.contains(word) || html.as_str().contains(word), "{word}: {html}");
                }
            }
        }
    }

    #[test]
    fn text_with_lost_cells_or_characters_or_high_cost_is_not_rendered() {
        let nested = format!("{}a\n{}", "- ".repeat(16_384), "b\n".repeat(16_384));
        let quoted = format!("{}a\n{}", ">".repeat(33), "b\n".repeat(9));
        for raw in [
            "| Tool | Ok |\n|---|---|\n| a | b | \u{274c} |",
            "| n | m |\n|---|---|\n| one | two | one |",
            &nested,
            &quoted,
        ] {
            assert!(Html::markdown(raw).is_none(), "{}", &raw[..40.min(raw.len())]);
        }
        assert!(html("> > - quoted").contains("<blockquote>"));
        assert!(html("1. one\n1. two").contains("<ol"));
        assert!(html("a\n\n----------------------------------------\n\nb").contains("<hr>"));
    }

    #[test]
    fn url_without_host_is_not_a_link() {
        for raw in [
            "[good.example](http:///evil.example/x)",
            "[good.example](https://\\evil.example)",
            "[good.example](<http://&#9;/evil.example>)",
        ] {
            let html = Html::markdown(raw).map(|html| html.to_string());
            assert!(!html.unwrap_or_default().contains("href"), "{raw}");
        }
    }
}
