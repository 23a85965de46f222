//! Markdown as markup: CommonMark and tables. HTML in it is text, a picture is its address, and a link leads only where a
//! browser may be sent.

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag};

use super::{Html, push_text};

/// Elements inside elements; what is nested deeper stands in the innermost of these.
const MAX_DEPTH: usize = 24;
/// Markup that a text may become, to its length: the cells that a short row of a table lacks are made up.
const MAX_GROWTH: usize = 10;

impl Html {
    /// The text with its markdown rendered; none when that would be much longer than the text.
    #[must_use]
    pub fn markdown(raw: &str) -> Option<Self> {
        let max = raw.len() * MAX_GROWTH + 4096;
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        let mut writer = Writer::default();
        for event in Parser::new_ext(raw, options) {
            writer.event(event);
            if max < writer.out.len() {
                return None;
            }
        }
        Some(Self(writer.out))
    }
}

#[derive(Default)]
struct Writer {
    out: String,
    /// What ends each of the open elements.
    ends: Vec<String>,
    /// In the row with the names of the columns.
    in_head: bool,
    in_link: bool,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => {
                let end = match MAX_DEPTH <= self.ends.len() {
                    true => String::new(),
                    false => self.start(&tag),
                };
                self.ends.push(end);
            }
            Event::End(_) => {
                let end = self.ends.pop().unwrap_or_default();
                self.in_link &= !end.starts_with("</a>");
                self.in_head &= !end.starts_with("</tr></thead>");
                self.out.push_str(&end);
            }
            Event::Code(text) => self.within("code", &text),
            Event::SoftBreak | Event::HardBreak => self.out.push_str("<br>"),
            Event::Rule => self.out.push_str("<hr>"),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => push_text(&mut self.out, &text),
            Event::TaskListMarker(_) => {}
        }
    }

    fn within(&mut self, element: &str, text: &str) {
        self.out.push_str(&format!("<{element}>"));
        push_text(&mut self.out, text);
        self.out.push_str(&format!("</{element}>"));
    }

    /// Opens an element; what ends it.
    fn start(&mut self, tag: &Tag<'_>) -> String {
        let (start, end): (&str, &str) = match tag {
            Tag::Paragraph => ("<p>", "</p>"),
            // The headings of a page are ours.
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
                    push_text(&mut self.out, language);
                    self.out.push_str("</p>");
                }
                ("<pre dir=\"auto\" tabindex=\"0\"><code>", "</code></pre>")
            }
            Tag::HtmlBlock => ("<p class=\"as-is\">", "</p>"),
            Tag::List(None) => ("<ul>", "</ul>"),
            Tag::List(Some(first)) => {
                self.out.push_str(&format!("<ol start=\"{first}\">"));
                ("", "</ol>")
            }
            Tag::Item => ("<li>", "</li>"),
            Tag::Table(_) => (
                "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>",
                "</tbody></table></div>",
            ),
            Tag::TableHead => {
                self.in_head = true;
                ("<thead><tr>", "</tr></thead><tbody>")
            }
            Tag::TableRow => ("<tr>", "</tr>"),
            Tag::TableCell if self.in_head => ("<th>", "</th>"),
            Tag::TableCell => ("<td>", "</td>"),
            Tag::Emphasis => ("<em>", "</em>"),
            Tag::Strong => ("<strong>", "</strong>"),
            Tag::Strikethrough => ("<del>", "</del>"),
            Tag::Link {
                link_type,
                dest_url,
                ..
            } => return self.link(dest_url, matches!(link_type, LinkType::Autolink)),
            Tag::Image { dest_url, .. } => {
                self.out.push_str("<span class=\"outside\">[image: ");
                let mut end = "] ".to_owned();
                match self.in_link {
                    true => push_text(&mut end, dest_url),
                    false => push_link(&mut end, dest_url),
                }
                end.push_str("</span>");
                return end;
            }
            _ => ("", ""),
        };
        self.out.push_str(start);
        end.to_owned()
    }

    /// A link; behind its words stands where it leads.
    fn link(&mut self, to: &str, says_where: bool) -> String {
        let mut end = String::new();
        if is_web(to) {
            self.in_link = true;
            push_start(&mut self.out, to);
            end.push_str("</a>");
        }
        if !says_where {
            end.push_str(" <span class=\"muted\">(");
            push_text(&mut end, to);
            end.push_str(")</span>");
        }
        end
    }
}

fn is_web(address: &str) -> bool {
    let starts = |scheme: &str| {
        let start = address.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    starts("https://") || starts("http://")
}

fn push_start(out: &mut String, to: &str) {
    out.push_str("<a rel=\"noreferrer noopener nofollow\" target=\"_blank\" href=\"");
    push_text(out, to);
    out.push_str("\">");
}

/// An address as its own link, where a browser may be sent there.
fn push_link(out: &mut String, to: &str) {
    if !is_web(to) {
        push_text(out, to);
        return;
    }
    push_start(out, to);
    push_text(out, to);
    out.push_str("</a>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(raw: &str) -> String {
        Html::markdown(raw).unwrap().to_string()
    }

    #[test]
    fn the_usual_marks_are_rendered() {
        for (raw, expected) in [
            ("# Title", "<p class=\"mh mh1\">Title</p>"),
            (
                "a *b* **c** `d<`",
                "<p>a <em>b</em> <strong>c</strong> <code>d&lt;</code></p>",
            ),
            ("one\ntwo", "<p>one<br>two</p>"),
            ("- x\n- y", "<ul><li>x</li><li>y</li></ul>"),
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
    fn html_and_pictures_are_text_and_links_lead_to_the_web_alone() {
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
            "\u{202e}",
        ] {
            assert!(!html.contains(inert), "{inert}: {html}");
        }
        assert!(html.contains("&lt;script&gt;") && html.contains("&lt;img src=x"));
        assert!(html.contains("[image: pixel] <a rel="), "{html}");
        assert!(html.contains("(javascript:alert(1))") && html.contains("[U+202E]"));
        assert_eq!(html.matches("<a ").count(), html.matches("</a>").count());
        assert!(!html.contains(
            "<a rel=\"noreferrer noopener nofollow\" target=\"_blank\" href=\"https://b.example"
        ));
    }

    #[test]
    fn what_would_become_much_longer_is_left_alone() {
        let wide = format!(
            "{}\n{}\n{}",
            "|a".repeat(1_000),
            "|-".repeat(1_000),
            "|x\n".repeat(10_000)
        );
        assert!(Html::markdown(&wide).is_none());
        let deep = html(&">".repeat(60_000));
        assert!(deep.matches("<blockquote>").count() <= MAX_DEPTH);
    }

    proptest::proptest! {
        #[test]
        fn any_text_becomes_markup_that_closes(raw in r#"[\n >|`*_\[\]()<a/!#~\-1.:]{0,80}"#) {
            let html = html(&raw);
            let mut open = Vec::new();
            for part in html.split('<').skip(1) {
                let tag: String = part.split('>').next().unwrap_or("").to_owned();
                let name = tag.split([' ', '>']).next().unwrap_or("").to_owned();
                match name.strip_prefix('/') {
                    Some(name) => {
                        let last: Option<String> = open.pop();
                        proptest::prop_assert_eq!(last.as_deref(), Some(name));
                    }
                    None if name == "br" || name == "hr" => {}
                    None => open.push(name),
                }
            }
            proptest::prop_assert!(open.is_empty());
        }
    }
}
