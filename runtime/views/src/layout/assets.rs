//! Style sheets, scripts and icon, served under names with their digest. All are embedded except the code editor, which is
//! installed next to the program.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use perpend_domain::plugin::Digest;

/// Pages load style sheets, scripts, images and media only from this server. Inline scripts and styles, frames, other
/// origins and `data:` are forbidden.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self'; media-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Forbids browser features that pages do not use. Only writing to the clipboard is allowed.
pub const PERMISSIONS_POLICY: &str = "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), \
     clipboard-write=(self), display-capture=(), encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), \
     idle-detection=(), local-fonts=(), magnetometer=(), microphone=(), midi=(), payment=(), picture-in-picture=(), \
     publickey-credentials-get=(), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()";

/// One file.
#[derive(Debug)]
pub struct Asset {
    /// `app.css`.
    name: &'static str,
    /// MIME type.
    pub content_type: &'static str,
    /// Content.
    pub bytes: Cow<'static, [u8]>,
    /// Brotli-compressed content, if it was installed; else set by the first request that accepts it.
    pub packed: OnceLock<Vec<u8>>,
    /// URL path. It changes with the content, so that responses can be cached forever.
    pub path: String,
}

impl Asset {
    fn new(
        name: &'static str,
        content_type: &'static str,
        bytes: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        let bytes = bytes.into();
        let digest = Digest::of(&bytes).to_string();
        let path = format!("/assets/{}-{name}", &digest[..16]);
        Self { name, content_type, bytes, packed: OnceLock::new(), path }
    }

    /// The script of the code editor; `packed` is its Brotli-compressed form.
    #[must_use]
    pub fn code_editor(script: Vec<u8>, packed: Option<Vec<u8>>) -> Self {
        let asset = Self::new("code-editor.js", SCRIPT, script);
        match packed {
            Some(packed) => Self { packed: OnceLock::from(packed), ..asset },
            None => asset,
        }
    }
}

/// The style sheet. The order of the parts matters, because later rules override earlier ones.
const STYLE: &str = concat!(
    include_str!("../../assets/style/base.css"),
    include_str!("../../assets/style/lists.css"),
    include_str!("../../assets/style/trace.css"),
    include_str!("../../assets/style/pages.css"),
    include_str!("../../assets/style/datasets.css"),
    include_str!("../../assets/style/print.css"),
);

/// Start of the dark theme in the style sheet.
const DARK: &str = "@media (prefers-color-scheme: dark) {\n";

const SCRIPT: &str = "text/javascript; charset=utf-8";

static ASSETS: LazyLock<Vec<Arc<Asset>>> = LazyLock::new(|| {
    let asset = |name: &'static str, content_type: &'static str, bytes: &'static [u8]| {
        Arc::new(Asset::new(name, content_type, bytes))
    };
    vec![
        asset("app.css", "text/css; charset=utf-8", STYLE.as_bytes()),
        asset("dark.css", "text/css; charset=utf-8", dark().as_bytes()),
        asset("choice.js", SCRIPT, include_bytes!("../../assets/choice.js")),
        asset("drafts.js", SCRIPT, include_bytes!("../../assets/drafts.js")),
        asset("experiments.js", SCRIPT, include_bytes!("../../assets/experiments.js")),
        asset("datasets.js", SCRIPT, include_bytes!("../../assets/datasets.js")),
        asset("find.js", SCRIPT, include_bytes!("../../assets/find.js")),
        asset("follow.js", SCRIPT, include_bytes!("../../assets/follow.js")),
        asset("forms.js", SCRIPT, include_bytes!("../../assets/forms.js")),
        asset("keep.js", SCRIPT, include_bytes!("../../assets/keep.js")),
        asset("keys.js", SCRIPT, include_bytes!("../../assets/keys.js")),
        asset("lines.js", SCRIPT, include_bytes!("../../assets/lines.js")),
        asset("live.js", SCRIPT, include_bytes!("../../assets/live.js")),
        asset("look.js", SCRIPT, include_bytes!("../../assets/look.js")),
        asset("media.js", SCRIPT, include_bytes!("../../assets/media.js")),
        asset("pane.js", SCRIPT, include_bytes!("../../assets/pane.js")),
        asset("progress.js", SCRIPT, include_bytes!("../../assets/progress.js")),
        asset("rows.js", SCRIPT, include_bytes!("../../assets/rows.js")),
        asset("scores.js", SCRIPT, include_bytes!("../../assets/scores.js")),
        asset("shell.js", SCRIPT, include_bytes!("../../assets/shell.js")),
        asset("times.js", SCRIPT, include_bytes!("../../assets/times.js")),
        asset("trace.js", SCRIPT, include_bytes!("../../assets/trace.js")),
        asset("value.js", SCRIPT, include_bytes!("../../assets/value.js")),
        asset("onward.js", SCRIPT, include_bytes!("../../assets/onward.js")),
        asset("palette.js", SCRIPT, include_bytes!("../../assets/palette.js")),
        asset("split.js", SCRIPT, include_bytes!("../../assets/split.js")),
        asset("widths.js", SCRIPT, include_bytes!("../../assets/widths.js")),
        asset("suggest.js", SCRIPT, include_bytes!("../../assets/suggest.js")),
        asset("table.js", SCRIPT, include_bytes!("../../assets/table.js")),
        asset("mark.svg", "image/svg+xml", include_bytes!("../../assets/mark.svg")),
    ]
});

/// The rules of the dark theme, for users who choose it on a system with a light theme.
fn dark() -> &'static str {
    let (_, rest) = STYLE.split_once(DARK).unwrap_or_default();
    rest.split_once("\n}\n").unwrap_or_default().0
}

/// The file at a path, such as `/assets/0123456789abcdef-app.css`.
#[must_use]
pub fn find(path: &str) -> Option<Arc<Asset>> {
    ASSETS.iter().find(|asset| asset.path == path).cloned()
}

/// The path of a file, for templates.
pub(crate) fn path(name: &str) -> &'static str {
    ASSETS.iter().find(|asset| asset.name == name).map_or("", |asset| &asset.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_served_only_under_their_digest() {
        let path = path("app.css");
        assert_eq!(find(path).map(|asset| asset.content_type), Some("text/css; charset=utf-8"));
        assert!(find("/assets/app.css").is_none());
    }

    #[test]
    fn the_code_editor_is_named_by_its_digest_and_keeps_its_compressed_form() {
        let [one, other] = ["one", "other"].map(|text| Asset::code_editor(text.into(), None));
        assert!(one.path.starts_with("/assets/") && one.path.ends_with("-code-editor.js"));
        assert_ne!(one.path, other.path);
        assert!(find(&one.path).is_none() && one.packed.get().is_none());
        let packed = Asset::code_editor(b"one".to_vec(), Some(b"packed".to_vec()));
        assert_eq!((packed.path, packed.packed.into_inner()), (one.path, Some(b"packed".to_vec())));
    }

    #[test]
    fn the_dark_theme_is_one_rule_with_all_colours() {
        assert!(dark().trim_start().starts_with(":root") && dark().trim_end().ends_with('}'));
        assert_eq!(dark().matches('{').count(), 1);
        let n_colours = |css: &str| css.matches("--").count();
        let (light, _) = STYLE.split_once(DARK).unwrap();
        // Three variables are not colours.
        assert!(n_colours(dark()) + 3 > n_colours(light), "{}", dark());
    }

    #[test]
    fn assets_do_not_use_eval_or_other_origins() {
        for asset in ASSETS.iter() {
            let text = std::str::from_utf8(&asset.bytes).unwrap();
            let foreign = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!foreign.contains("http") && !foreign.contains("eval("), "{}", asset.name);
        }
    }

    type Colours = std::collections::BTreeMap<String, [f64; 3]>;

    /// The colour variables of the light and of the dark theme.
    fn themes() -> [Colours; 2] {
        let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        let (dark, _) = rest.split_once("* {").unwrap();
        [light, dark].map(|part| {
            let lines = part.lines().filter_map(|line| line.trim().strip_prefix("--"));
            let pairs = lines.filter_map(|line| line.trim_end_matches(';').split_once(": #"));
            let colours = pairs.map(|(name, hex)| {
                let channel =
                    |at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
                (name.to_owned(), [channel(0), channel(2), channel(4)])
            });
            colours.collect()
        })
    }

    fn mixed(a: [f64; 3], b: [f64; 3], share: f64) -> [f64; 3] {
        std::array::from_fn(|i| a[i] * share + b[i] * (1.0 - share))
    }

    /// Contrast as the accessibility guidelines define it.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let linear = |value: f64| match value / 255.0 {
            low if low <= 0.03928 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        };
        let light =
            |c: [f64; 3]| 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
        let (a, b) = (light(a), light(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_has_enough_contrast_in_both_themes() {
        for colours in themes() {
            let mut pairs: Vec<(&str, [f64; 3], [f64; 3])> = vec![
                ("on-accent", colours["on-accent"], colours["accent"]),
                ("good", colours["good"], colours["good-soft"]),
                ("bad", colours["bad"], colours["bad-soft"]),
                ("wait", colours["wait"], colours["wait-soft"]),
            ];
            for behind in ["surface", "sunken", "bg", "accent-soft"] {
                let behind = colours[behind];
                pairs.extend(["text", "muted", "accent"].map(|name| (name, colours[name], behind)));
                let kinds = colours.iter().filter(|(name, _)| name.starts_with("c-"));
                // The percentages are those of `.kind` in the style sheet.
                pairs.extend(kinds.map(|(name, kind)| {
                    let text = mixed(*kind, colours["ink"], 0.74);
                    (name.as_str(), text, mixed(*kind, behind, 0.12))
                }));
            }
            for json in ["jk", "js", "jn"] {
                pairs.push((json, colours[json], colours["sunken"]));
            }
            for (name, text, behind) in pairs {
                let ratio = contrast(text, behind);
                assert!(ratio >= 4.5, "{name}: {ratio:.2} on {behind:?}");
            }
        }
    }
}
