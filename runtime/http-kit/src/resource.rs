//! The resource of an API path.

/// The resource of an API path: its first segment that is neither prefix nor version.
pub(crate) fn resource(path: &str) -> Option<&str> {
    let mut parts = path.strip_prefix("/api/")?.split('/');
    let is_public = parts.next() == Some("public");
    let is_prefix = |part: &&str| is_public && matches!(*part, "v1" | "v2" | "v3" | "unstable");
    parts.find(|part| !is_prefix(part))
}
