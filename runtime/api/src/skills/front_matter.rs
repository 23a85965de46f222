//! The head of a skill's main file: YAML between two lines of dashes.

use serde_json::Value;

/// Longest head, bytes.
const MAX_BYTES: usize = 64 << 10;
const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// What the head says.
#[derive(Debug)]
pub(super) struct FrontMatter {
    pub(super) name: String,
    pub(super) description: String,
    /// All of it.
    pub(super) whole: Value,
}

/// Whether it may be the name of a skill: it is a part of addresses and of paths.
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
        .ok_or_else(|| format!("its front matter has no text {name:?}"))
}

impl FrontMatter {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// A sentence about what is missing or wrong.
    pub(super) fn read(file: &str) -> Result<Self, String> {
        let head = head(file).ok_or(
            "begins with no front matter: a line ---, YAML with name and description, and a line ---",
        )?;
        if head.len() > MAX_BYTES {
            return Err(format!("its front matter is larger than {} KiB", MAX_BYTES >> 10));
        }
        let whole: Value = serde_saphyr::from_str(head)
            .map_err(|error| format!("its front matter is not YAML that JSON can hold: {error}"))?;
        if !whole.is_object() {
            return Err("its front matter is no mapping".to_owned());
        }
        let (name, description) = (text(&whole, "name")?, text(&whole, "description")?);
        if !is_name(name) {
            return Err(format!(
                "the name in its front matter is none: 1 to {MAX_NAME_CHARS} of letters, digits, -, _ and \
                 ., the first of them a letter or digit"
            ));
        }
        if description.chars().count() > MAX_DESCRIPTION_CHARS {
            return Err(format!(
                "the description in its front matter has more than {MAX_DESCRIPTION_CHARS} characters"
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
    fn name_and_description_come_from_the_head_and_the_rest_of_it_is_kept() {
        let file = "---\r\nname: pdf-forms\r\ndescription: >\r\n  Fills\r\n  forms.\r\nallowed-tools: [read, \"write\"]\r\nmetadata:\r\n  version: 1.5\r\n---\r\n# Forms\r\n---\r\n";
        let found = FrontMatter::read(file).unwrap();
        assert_eq!(found.name, "pdf-forms");
        assert_eq!(found.description, "Fills forms.");
        assert_eq!(found.whole["allowed-tools"], json!(["read", "write"]));
        assert_eq!(found.whole["metadata"]["version"], 1.5);
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1_025));
        for (file, said) in [
            ("# Forms", "no front matter"),
            ("---\nname: a\ndescription: b\n", "no front matter"),
            ("---\n- name\n---\n", "no mapping"),
            ("---\nname: [\n---\n", "not YAML"),
            ("---\nname: a\n---\n", "no text \"description\""),
            ("---\nname: 5\ndescription: b\n---\n", "no text \"name\""),
            ("---\nname: a/b\ndescription: b\n---\n", "name in its front matter"),
            ("---\nname: ..\ndescription: b\n---\n", "name in its front matter"),
            (&long, "more than 1024"),
        ] {
            let error = FrontMatter::read(file).unwrap_err();
            assert!(error.contains(said), "{file}: {error}");
        }
    }

    #[test]
    fn a_head_that_grows_by_aliases_or_depth_is_refused() {
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
