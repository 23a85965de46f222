//! Validation of the files of a skill.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_catalog::skills::{NewSkill, SkillFile};
use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use utoipa::ToSchema;

use super::front_matter::FrontMatter;
use crate::state::App;

/// The main file of a skill.
const MAIN: &str = "SKILL.md";
const MAX_FILES: usize = 500;
const MAX_PATH_BYTES: usize = 500;
const MAX_MESSAGE_CHARS: usize = 500;

/// A new version of a skill.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewVersion {
    /// All files. The front matter of `SKILL.md` has name and description.
    files: Vec<FileInput>,
    /// At most 500 characters.
    commit_message: Option<String>,
}

/// A file, by content or by the hash of a stored content.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FileInput {
    /// Relative path with slashes, unique.
    path: String,
    content: Option<String>,
    /// SHA-256 of the content of an earlier version, in base64.
    sha256_hash: Option<String>,
}

/// The hash of a content in base64.
pub(super) fn hash(text: &str) -> String {
    STANDARD.encode(Digest::of(text.as_bytes()).as_bytes())
}

/// Whether a string is a hash in canonical base64.
pub(super) fn is_hash(raw: &str) -> bool {
    STANDARD.decode(raw).is_ok_and(|bytes| bytes.len() == 32)
}

/// Whether a path stays inside the folder on all platforms.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| {
        let is_clean = |c: char| !c.is_control() && !matches!(c, '\\' | ':');
        !matches!(part, "" | "." | "..") && part.chars().all(is_clean)
    };
    path.len() <= MAX_PATH_BYTES && path.split('/').all(is_part)
}

/// The MIME type for the extension of a path; all files are text.
pub(super) fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "md" => "text/markdown",
        "py" => "text/x-python",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "html" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "xml" => "application/xml",
        "js" | "mjs" => "text/javascript",
        _ => "text/plain",
    }
}

/// Hash and size of a file.
struct FileEntry {
    sha256: String,
    size: u64,
}

/// The stored content with this hash.
async fn stored(app: &App, project: &ProjectId, hash: &str) -> Result<String, Problem> {
    let hashes = [hash.to_owned()];
    let found = app.store.catalog.skill_contents(project, &hashes).await?;
    let text = found.into_iter().next().map(|(_, text)| text);
    text.ok_or_else(|| Problem::not_found("content of a skill"))
}

impl NewVersion {
    /// Validates paths, and that each file has either content or hash.
    fn check(&self) -> Result<(), Problem> {
        let n_files = self.files.len();
        if n_files == 0 || n_files > MAX_FILES {
            let message = format!("must contain 1 to {MAX_FILES} files, got {n_files}");
            return Err(Problem::body("files", message));
        }
        let message = self.commit_message.as_ref();
        if message.is_some_and(|text| text.chars().count() > MAX_MESSAGE_CHARS) {
            let message = format!("must have at most {MAX_MESSAGE_CHARS} characters");
            return Err(Problem::body("commitMessage", message));
        }
        let mut seen = std::collections::HashSet::new();
        for (n, file) in self.files.iter().enumerate() {
            let refuse = |name: &str, message: &str| {
                Err(Problem::body(&format!("files[{n}].{name}"), message))
            };
            if !is_path(&file.path) {
                return refuse(
                    "path",
                    "must be a relative path of at most 500 bytes without . and .., backslash and colon",
                );
            }
            if !seen.insert(file.path.as_str()) {
                return refuse("path", "must be unique: another file has this path");
            }
            match (&file.content, &file.sha256_hash) {
                (Some(_), Some(_)) | (None, None) => {
                    return refuse("content", "either content or sha256Hash is required");
                }
                (None, Some(hash)) if !is_hash(hash) => {
                    return refuse("sha256Hash", "must be 32 bytes in base64");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Sizes of the stored contents that the files refer to.
    async fn stored_sizes(
        &self,
        app: &App,
        project: &ProjectId,
    ) -> Result<HashMap<String, u64>, Problem> {
        let hashes = self.files.iter().filter_map(|file| file.sha256_hash.clone());
        let hashes: Vec<String> = hashes.collect();
        Ok(app.store.catalog.skill_sizes(project, &hashes).await?)
    }

    /// Validates the version.
    pub(super) async fn read(self, app: &App, project: &ProjectId) -> Result<NewSkill, Problem> {
        self.check()?;
        let stored_sizes = self.stored_sizes(app, project).await?;
        let mut files: BTreeMap<String, FileEntry> = BTreeMap::new();
        let mut contents = BTreeMap::new();
        let mut main = None;
        for (n, file) in self.files.into_iter().enumerate() {
            let (sha256, size) = match (&file.content, file.sha256_hash) {
                (Some(text), _) => (hash(text), text.len() as u64),
                (None, hash) => {
                    let hash = hash.unwrap_or_default();
                    let size = stored_sizes.get(&hash).copied().ok_or_else(|| {
                        let message = "must be the hash of a stored content: send content instead";
                        Problem::body(&format!("files[{n}].sha256Hash"), message)
                    })?;
                    (hash, size)
                }
            };
            if file.path == MAIN {
                let text = match &file.content {
                    Some(text) => text.clone(),
                    None => stored(app, project, &sha256).await?,
                };
                let read = FrontMatter::read(&text);
                let refuse =
                    |message: String| Problem::body(&format!("files[{n}].content"), message);
                main = Some(read.map_err(refuse)?);
            }
            if let Some(text) = file.content.filter(|_| !stored_sizes.contains_key(&sha256)) {
                contents.insert(sha256.clone(), text);
            }
            files.insert(file.path, FileEntry { sha256, size });
        }
        let main = main.ok_or_else(|| Problem::body("files", format!("must contain {MAIN:?}")))?;
        let files = files.into_iter().map(|(path, known)| SkillFile {
            id: app.web.ids.uuid().to_string(),
            path,
            sha256: known.sha256,
            size: known.size,
        });
        Ok(NewSkill {
            id: app.web.ids.uuid().to_string(),
            name: main.name,
            description: main.description,
            frontmatter: main.whole,
            files: files.collect(),
            contents: contents.into_iter().collect(),
            commit_message: self.commit_message,
            created_by: "API".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_outside_the_folder_are_refused() {
        for path in ["SKILL.md", "a/b c/ü.py", ".hidden", "..a"] {
            assert!(is_path(path), "{path}");
        }
        for path in ["", "/a", "a/", "a//b", "../a", "a/..", "./a", "a\\b", "c:a", "a\nb"] {
            assert!(!is_path(path), "{path}");
        }
        assert!(!is_path(&"a".repeat(501)));
    }

    #[test]
    fn only_canonical_base64_is_a_hash() {
        let good = hash("text");
        assert!(is_hash(&good) && good.len() == 44);
        for bad in ["", "abc", good.trim_end_matches('='), &good.replace('/', "_")[..43]] {
            assert!(!is_hash(bad), "{bad}");
        }
    }
}
