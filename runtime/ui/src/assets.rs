//! Style sheet, script and mark: embedded, and served under names that carry their digest.

use std::sync::LazyLock;

use assay_domain::plugin::Digest;

/// What a page of ours may load and do: its own style sheet, script and images. No inline script or
/// style, no frames, no other origin.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// One embedded file.
#[derive(Debug)]
pub struct Asset {
    /// `app.css`.
    name: &'static str,
    /// MIME type.
    pub content_type: &'static str,
    /// The bytes.
    pub bytes: &'static [u8],
    /// Path on the server; changes with the bytes, so that it may be cached for good.
    pub path: String,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |name: &'static str, content_type, bytes: &'static [u8]| {
        let digest = Digest::of(bytes).to_string();
        Asset {
            name,
            content_type,
            bytes,
            path: format!("/assets/{}-{name}", &digest[..16]),
        }
    };
    [
        asset(
            "app.css",
            "text/css; charset=utf-8",
            include_bytes!("../assets/app.css"),
        ),
        asset(
            "app.js",
            "text/javascript; charset=utf-8",
            include_bytes!("../assets/app.js"),
        ),
        asset(
            "mark.svg",
            "image/svg+xml",
            include_bytes!("../assets/mark.svg"),
        ),
    ]
});

/// The file at a path, such as `/assets/0123456789abcdef-app.css`.
#[must_use]
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// The path of a file, for templates.
pub(crate) fn path(name: &str) -> &'static str {
    ASSETS
        .iter()
        .find(|asset| asset.name == name)
        .map_or("", |asset| &asset.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_under_their_digest_only() {
        let path = path("app.css");
        assert_eq!(
            find(path).map(|asset| asset.content_type),
            Some("text/css; charset=utf-8")
        );
        assert!(find("/assets/app.css").is_none());
    }

    #[test]
    fn the_script_makes_no_markup_of_its_own_and_nothing_is_fetched_from_elsewhere() {
        for asset in ASSETS.iter() {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            let foreign = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !foreign.contains("http") && !foreign.contains("eval("),
                "{}",
                asset.name
            );
        }
    }
}
