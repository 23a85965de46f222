//! The one place where HTML is built by hand: inert text, JSON with its parts marked, and markdown.

mod markdown;

use std::fmt::{self, Write as _};

use askama::filters::HtmlSafe;

/// Text from outside. Shows control characters as signs, so that nothing can hide or reorder the
/// page; templates escape it like any other value.
///
/// Line breaks and tabs are shown as signs, because a browser would show them as spaces. A text made by
/// [`lines`](Self::lines) keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    raw: String,
    keeps_lines: bool,
}

impl Text {
    /// A text that may have several lines: a message, a comment, a part of a value.
    #[must_use]
    pub fn lines(raw: impl Into<String>) -> Self {
        Self { raw: raw.into(), keeps_lines: true }
    }

    /// The text as it came.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }
}

impl From<String> for Text {
    fn from(raw: String) -> Self {
        Self { raw, keeps_lines: false }
    }
}

impl From<&str> for Text {
    fn from(raw: &str) -> Self {
        Self::from(raw.to_owned())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_visible(f, &self.raw, self.keeps_lines)
    }
}

/// Markup made by this crate out of escaped text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Html(String);

impl Html {
    /// Escaped plain text.
    #[must_use]
    pub fn text(raw: &str) -> Self {
        let mut out = String::with_capacity(raw.len() + raw.len() / 16);
        push_text(&mut out, raw);
        Self(out)
    }

    /// A sentence in which names stand between backticks.
    #[must_use]
    pub fn naming(sentence: &str) -> Self {
        let plain = |text: &str| Self::from(Text::from(text)).0;
        let (mut out, mut rest) = (String::new(), sentence);
        while let Some((before, (name, behind))) =
            rest.split_once('`').and_then(|(before, rest)| Some((before, rest.split_once('`')?)))
        {
            out.push_str(&format!("{}<code>{}</code>", plain(before), plain(name)));
            rest = behind;
        }
        out.push_str(&plain(rest));
        Self(out)
    }

    /// An instant: how a program reads it, and how it is shown until the page puts it into the reader's zone.
    #[must_use]
    pub fn time(datetime: &str, shown: &str) -> Self {
        let [datetime, shown] = [datetime, shown].map(Self::text);
        Self(format!("<time datetime=\"{datetime}\">{shown}</time>"))
    }

    /// The markup.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A JSON document, indented, with its parts marked. Takes text that is cut off or no JSON at
    /// all just as well: every character of it is shown, only the marks may then be off.
    #[must_use]
    pub fn json(raw: &str) -> Self {
        let mut printer = Printer::default();
        printer.out.reserve(raw.len() * 2);
        printer.print(raw);
        Self(printer.out)
    }
}

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Html {}

impl From<Text> for Html {
    fn from(text: Text) -> Self {
        let mut out = String::with_capacity(text.raw.len());
        // Writing into a `String` cannot fail.
        let _ = write_visible(&mut Escaping(&mut out), &text.raw, text.keeps_lines);
        Self(out)
    }
}

/// Controls that change how the rest of a line reads, or do not show at all. Joiners and variation selectors stay:
/// scripts and emoji are written with them.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}')
        || matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        // Tags: a text in them is read by models and seen by nobody.
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// What begins another line, or a wider space.
fn is_layout(c: char) -> bool {
    matches!(c, '\n' | '\t' | '\u{2028}' | '\u{2029}')
}

fn write_visible(out: &mut impl fmt::Write, raw: &str, keeps_lines: bool) -> fmt::Result {
    let is_sign = |c: char| is_hidden(c) || !keeps_lines && is_layout(c);
    let mut rest = raw;
    while let Some(at) = rest.find(is_sign) {
        out.write_str(&rest[..at])?;
        let Some(c) = rest[at..].chars().next() else {
            break;
        };
        match u32::from(c) {
            // A carriage return before a line feed is only a line end.
            0x0d if rest[at + 1..].starts_with('\n') => {}
            code @ 0..=0x1f => {
                out.write_char(char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'))?
            }
            code => write!(out, "[U+{code:04X}]")?,
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_str(rest)
}

/// Writes into a `String`, replacing what HTML would read as markup.
struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(['<', '>', '&', '"', '\'']) {
            self.0.push_str(&rest[..at]);
            self.0.push_str(match rest.as_bytes()[at] {
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'&' => "&amp;",
                b'"' => "&quot;",
                _ => "&#39;",
            });
            rest = &rest[at + 1..];
        }
        self.0.push_str(rest);
        Ok(())
    }
}

fn push_text(out: &mut String, raw: &str) {
    // Writing into a `String` cannot fail.
    let _ = write_visible(&mut Escaping(out), raw, true);
}

/// Deeper levels stay at this indentation: otherwise a megabyte of `[` would become a terabyte.
const MAX_INDENT: usize = 32;

/// Indents JSON text token by token: no tree, no recursion, numbers exactly as they were sent.
#[derive(Default)]
struct Printer {
    out: String,
    depth: usize,
}

impl Printer {
    fn print(&mut self, raw: &str) {
        let mut rest = raw;
        while let Some(first) = rest.chars().next() {
            let taken = match first {
                '"' => self.string(rest),
                '{' | '[' => self.open(rest),
                '}' | ']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.line();
                    self.out.push(first);
                    1
                }
                ',' => {
                    self.out.push(',');
                    self.line();
                    1
                }
                ':' => {
                    self.out.push_str(": ");
                    1
                }
                c if c.is_ascii_whitespace() => 1,
                _ => self.word(rest),
            };
            rest = &rest[taken..];
        }
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth.min(MAX_INDENT) {
            self.out.push_str("  ");
        }
    }

    /// An opening bracket; an empty pair stays on its line.
    fn open(&mut self, rest: &str) -> usize {
        let close = if rest.starts_with('{') { '}' } else { ']' };
        let inner = &rest[1..];
        let trimmed = inner.trim_start_matches([' ', '\n', '\r', '\t']);
        self.out.push_str(&rest[..1]);
        if trimmed.starts_with(close) {
            self.out.push(close);
            return 1 + (inner.len() - trimmed.len()) + 1;
        }
        self.depth += 1;
        self.line();
        1
    }

    /// A string with its quotes; a colon behind it makes it a key.
    fn string(&mut self, rest: &str) -> usize {
        let bytes = rest.as_bytes();
        let mut end = 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        // The step over an escape may end beyond the text, or inside a character of broken input.
        end = (end + 1).min(bytes.len());
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let is_key = rest[end..].trim_start().starts_with(':');
        self.marked(if is_key { "jk" } else { "js" }, &rest[..end]);
        end
    }

    /// A number, a literal, or whatever else stands there.
    fn word(&mut self, rest: &str) -> usize {
        let is_end = |c: char| c.is_ascii_whitespace() || matches!(c, ',' | ':' | '}' | ']' | '"');
        let end = rest.find(is_end).unwrap_or(rest.len()).max(1);
        self.marked("jn", &rest[..end]);
        end
    }

    fn marked(&mut self, class: &str, text: &str) {
        let _ = write!(self.out, "<span class=\"{class}\">");
        push_text(&mut self.out, text);
        self.out.push_str("</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_and_a_text_become_markup_that_is_inert() {
        let time = Html::time("2026-03-01T10:00:00Z", "<b>");
        let wanted = "<time datetime=\"2026-03-01T10:00:00Z\">&lt;b&gt;</time>";
        assert_eq!(time.as_str(), wanted);
        let shown = Html::from(Text::from("<i>\n"));
        assert!(!shown.as_str().contains(['<', '\n']), "{shown}");
        assert!(Html::from(Text::lines("a\nb")).as_str().contains('\n'));
        let sentence = Html::naming("no `<a>`, but `b` or `");
        let wanted = "no <code>&lt;a&gt;</code>, but <code>b</code> or `";
        assert_eq!(sentence.as_str(), wanted);
    }

    fn plain(html: &Html) -> String {
        let mut out = String::new();
        let mut in_tag = false;
        for c in html.to_string().chars() {
            match c {
                '<' => in_tag = true,
                '>' => in_tag = false,
                c if !in_tag => out.push(c),
                _ => {}
            }
        }
        out.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    }

    #[test]
    fn control_and_direction_characters_become_signs() {
        let text = Text::lines("a\u{1}b\u{202e}c\r\nd\re\u{7f}\t");
        assert_eq!(text.to_string(), "a\u{2401}b[U+202E]c\nd\u{240d}e[U+007F]\t");
        assert_eq!(Text::from("שלום, 👋🏽").to_string(), "שלום, 👋🏽");
    }

    #[test]
    fn what_smuggles_or_turns_text_is_seen_and_what_scripts_and_emoji_need_stays() {
        let singles = "\u{ad}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{feff}";
        let ranges = ['\u{202a}'..='\u{202e}', '\u{2060}'..='\u{2064}', '\u{2066}'..='\u{2069}'];
        let tags = '\u{e0000}'..='\u{e007f}';
        for c in singles.chars().chain(ranges.into_iter().flatten()).chain(tags) {
            let sign = format!("a[U+{:04X}]b", u32::from(c));
            let raw = format!("a{c}b");
            assert_eq!(Text::from(raw.as_str()).to_string(), sign);
            assert_eq!(Html::text(&raw).to_string(), sign);
            let json = Html::json(&format!("{{\"{raw}\":\"{raw}\"}}")).to_string();
            assert!(json.matches(&sign).count() == 2 && !json.contains(c), "{json}");
        }
        let hidden = "ok\u{e0049}\u{e0067}";
        assert_eq!(Text::from(hidden).to_string(), "ok[U+E0049][U+E0067]");
        for kept in
            ["👩\u{200d}💻", "❤\u{fe0f}", "می\u{200c}خواهم", "क्\u{200d}ष", "naïve\u{a0}é", "日本語"]
        {
            assert_eq!(Text::from(kept).to_string(), kept);
        }
    }

    #[test]
    fn a_name_shows_its_line_breaks_and_tabs() {
        let text = Text::from("a\tb\r\nc\nd\u{2028}e");
        assert_eq!(text.to_string(), "a\u{2409}b\u{240a}c\u{240a}d[U+2028]e");
        assert_eq!(text.raw(), "a\tb\r\nc\nd\u{2028}e");
        assert_eq!(Html::text("a\tb\nc").as_str(), "a\tb\nc");
    }

    #[test]
    fn json_is_indented_with_numbers_as_sent() {
        let html = Html::json(r#"{"a":[1.50,12345678901234567890,true],"b":{},"c":"x: \"y\""}"#);
        let expected = "{\n  \"a\": [\n    1.50,\n    12345678901234567890,\n    true\n  ],\n  \"b\": {},\n  \"c\": \"x: \\\"y\\\"\"\n}";
        assert_eq!(plain(&html), expected);
        assert!(html.to_string().contains("<span class=\"jk\">&quot;a&quot;</span>"));
    }

    #[test]
    fn json_cannot_become_markup() {
        let html = Html::json(r#"{"</script><img src=x onerror=alert(1)>":"<b>'&"}"#).to_string();
        assert!(!html.contains("<img") && !html.contains("<b>") && !html.contains("</script"));
    }

    #[test]
    fn a_megabyte_of_brackets_stays_a_page() {
        let html = Html::json(&"[".repeat(1_000_000)).to_string();
        assert!(html.len() < 80_000_000);
    }

    proptest::proptest! {
        #[test]
        fn any_text_loses_nothing_but_white_space(raw in r"[^\x00-\x1f]{0,200}") {
            let squeeze = |s: &str| s.chars().filter(|c| !c.is_ascii_whitespace()).collect::<String>();
            let shown = plain(&Html::json(&raw)).replace("&#39;", "'");
            let visible = Text::from(raw.as_str()).to_string();
            proptest::prop_assert_eq!(squeeze(&shown), squeeze(&visible));
        }

        #[test]
        fn cut_json_is_printed(json in r#"[\[\]{}":,\\a1é ]{0,60}"#) {
            let _ = Html::json(&json);
            let shown = Html::text(&json).to_string();
            proptest::prop_assert!(!shown.contains('"'));
        }
    }
}
