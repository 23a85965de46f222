//! The front matter of the main file of a skill: YAML between two lines of dashes.

use serde_json::Value;

/// Most bytes of the front matter.
const MAX_BYTES: usize = 64 << 10;
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// Parsed front matter.
#[derive(Debug)]
pub(super) struct FrontMatter {
    pub(super) name: String,
    pub(super) description: String,
    /// All members.
    pub(super) whole: Value,
}

/// Whether it is a valid name of a skill, which is part of URLs and file paths.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(fits)
}

/// The text between the dashes.
fn head(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---")?;
    let (first, _) = rest.split_once('\n')?;
    if !first.trim().is_empty() {
        return None;
    }
    let body = &rest[first.len() + 1..];
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&body[..at]);
        }
        at += line.len();
    }
    None
}

fn text<'v>(whole: &'v Value, name: &str) -> Result<&'v str, String> {
    let found = whole[name].as_str().map(str::trim);
    found
        .filter(|text| !text.is_empty())
        .ok_or_else(|| format!("the front matter must have the string {name:?}"))
}

impl FrontMatter {
    /// Parses the front matter of a file.
    ///
    /// # Errors
    /// A message about the missing or invalid member.
    pub(super) fn read(file: &str) -> Result<Self, String> {
        let head = head(file).ok_or(
            "must start with front matter: a line ---, YAML with name and description, and a line ---",
        )?;
        if head.len() > MAX_BYTES {
            return Err(format!("the front matter must have at most {} KiB", MAX_BYTES >> 10));
        }
        let whole: Value = serde_saphyr::from_str(head).map_err(|error| {
            format!("the front matter must be YAML that can be converted to JSON: {error}")
        })?;
        if !whole.is_object() {
            return Err("the front matter must be a mapping".to_owned());
        }
        let (name, description) = (text(&whole, "name")?, text(&whole, "description")?);
        if !is_name(name) {
            return Err(format!(
                "the name in the front matter must have 1 to {MAX_NAME_CHARS} letters, digits, -, _ and \
                 ., and start with a letter or digit"
            ));
        }
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            return Err(format!(
                "the description in the front matter must have at most {MAX_DESCRIPTION_CHARS} characters"
            ));
        }
        Ok(Self { name: name.to_owned(), description: description.to_owned(), whole })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn name_and_description_are_read_and_all_members_are_kept() {
        let file = "---\r\nname: pdf-forms\r\ndescription: >\r\n  Fills\r\n  forms.\r\nallowed-tools: [read, \"write\"]\r\nmetadata:\r\n  version: 1.5\r\n---\r\n# Forms\r\n---\r\n";
        let found = FrontMatter::read(file).unwrap();
        assert_eq!(found.name, "pdf-forms");
        assert_eq!(found.description, "Fills forms.");
        assert_eq!(found.whole["allowed-tools"], json!(["read", "write"]));
        assert_eq!(found.whole["metadata"]["version"], 1.5);
    }

    #[test]
    fn an_invalid_front_matter_is_reported() {
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1_025));
        for (file, expected) in [
            ("# Forms", "start with front matter"),
            ("---\nname: a\ndescription: b\n", "start with front matter"),
            ("---\n- name\n---\n", "a mapping"),
            ("---\nname: [\n---\n", "must be YAML"),
            ("---\nname: a\n---\n", "the string \"description\""),
            ("---\nname: 5\ndescription: b\n---\n", "the string \"name\""),
            ("---\nname: a/b\ndescription: b\n---\n", "name in the front matter"),
            ("---\nname: ..\ndescription: b\n---\n", "name in the front matter"),
            (&long, "at most 1024"),
        ] {
            let error = FrontMatter::read(file).unwrap_err();
            assert!(error.contains(expected), "{file}: {error}");
        }
    }

    #[test]
    fn front_matter_with_too_many_aliases_or_levels_is_refused() {
        let mut bomb =
            "---\nname: a\ndescription: b\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..12 {
            let before = format!("*a{}, ", n - 1).repeat(9);
            bomb.push_str(&format!("a{n}: &a{n} [{before}]\n"));
        }
        bomb.push_str("---\n");
        assert!(FrontMatter::read(&bomb).is_err());
        let deep = format!("---\nname: {}{}\n---\n", "[".repeat(20_000), "]".repeat(20_000));
        assert!(FrontMatter::read(&deep).is_err());
    }
}
