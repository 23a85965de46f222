//! The name of the SDK in Python. In projects of earlier programs it is the module `perpend`, which hides a package of
//! that name. `perpend plugin update` renames it to `perpend_plugin` and changes the imports in the files of the author.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::project::{MANIFEST, ProjectError};

/// The module name of the SDK.
const NAME: &str = "perpend_plugin";
/// The former module name of the SDK.
const FORMER: &str = "perpend";
/// An import under the new name, for code that uses the former one.
const AS_FORMER: &str = "perpend_plugin as perpend";
/// The same after the import of a module in the package.
const AND_AS_FORMER: &str = ", perpend_plugin as perpend";
/// Folders of toolchain output.
const EXCLUDED_FOLDERS: [&str; 3] = ["target", "node_modules", "__pycache__"];
/// Files that mark a virtual environment and another project.
const ELSEWHERE: [&str; 2] = ["pyvenv.cfg", MANIFEST];
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Whether the SDK of the project in `dir` has its former name.
pub(crate) fn is_former(dir: &Path) -> bool {
    package(dir, FORMER).join("__init__.py").is_file()
}

/// Renames the SDK of the project in `dir` if it has the former name. Returns the changed files of the author,
/// relative to `dir`.
///
/// # Errors
/// When a file cannot be read or written. The folder is renamed last, so that the operation can be repeated.
pub(crate) fn rename(dir: &Path) -> Result<Vec<PathBuf>, ProjectError> {
    if !is_former(dir) {
        return Ok(Vec::new());
    }
    let mut sources = Vec::new();
    collect(dir, &mut sources)?;
    sources.sort();
    let mut changed = Vec::new();
    for source in sources {
        let text = fs::read(&source).map_err(failed(&source))?;
        if let Some(text) = renamed(&text) {
            fs::write(&source, text).map_err(failed(&source))?;
            changed.push(source.strip_prefix(dir).unwrap_or(&source).to_owned());
        }
    }
    // The whole folder is renamed, including files that the author added to it.
    let former = package(dir, FORMER);
    fs::rename(&former, package(dir, NAME)).map_err(failed(&former))?;
    Ok(changed)
}

fn package(dir: &Path, name: &str) -> PathBuf {
    dir.join("perpend/python").join(name)
}

fn failed(file: &Path) -> impl FnOnce(io::Error) -> ProjectError {
    |source| ProjectError::File { file: file.display().to_string(), source }
}

/// The modules below `folder`. Links are not followed, because their targets are not part of the project.
fn collect(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<(), ProjectError> {
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') || EXCLUDED_FOLDERS.contains(&&*name) {
            continue;
        }
        let kind = entry.file_type().map_err(failed(&path))?;
        if kind.is_dir() {
            if !ELSEWHERE.iter().any(|mark| path.join(mark).is_file()) {
                collect(&path, sources)?;
            }
        } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "py") {
            sources.push(path);
        }
    }
    Ok(())
}

/// The source with its imports under the new name; `None` when it does not import the SDK. The names that the code
/// uses are kept: `import perpend` becomes `import perpend_plugin as perpend`. Names in string literals are not changed.
fn renamed(text: &[u8]) -> Option<Vec<u8>> {
    let mut source = Source::new(text);
    while source.at < text.len() {
        source.step();
    }
    if source.edits.is_empty() {
        return None;
    }
    let mut new = Vec::with_capacity(text.len() + text.len() / 8);
    let mut kept = 0;
    for (place, word) in source.edits {
        new.extend_from_slice(&text[kept..place.start]);
        new.extend_from_slice(word.as_bytes());
        kept = place.end;
    }
    new.extend_from_slice(&text[kept..]);
    Some(new)
}

/// A scanner for the part of Python that imports require: comments, strings and names. It works on bytes, regardless of
/// the encoding.
struct Source<'s> {
    text: &'s [u8],
    at: usize,
    /// The replaced ranges in order, and their new content.
    edits: Vec<(Range<usize>, &'static str)>,
}

impl<'s> Source<'s> {
    fn new(text: &'s [u8]) -> Self {
        let has_mark = text.starts_with(BYTE_ORDER_MARK);
        Self { text, at: if has_mark { BYTE_ORDER_MARK.len() } else { 0 }, edits: Vec::new() }
    }

    fn rest(&self) -> &'s [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn is_next(&self, byte: u8) -> bool {
        self.rest().first() == Some(&byte)
    }

    /// Skips a comment, a string, an import, or one other byte.
    fn step(&mut self) {
        match self.rest() {
            [b'#', rest @ ..] => {
                let length = rest.iter().take_while(|byte| **byte != b'\n').count();
                self.at += 1 + length;
            }
            [quote @ (b'"' | b'\''), ..] => self.skip_string(*quote),
            [byte, ..] if is_name_byte(*byte) => match self.name() {
                b"from" => self.import_from(),
                b"import" => self.import(),
                _ => {}
            },
            _ => self.at += 1,
        }
    }

    fn skip_string(&mut self, quote: u8) {
        let long = [quote; 3];
        let is_long = self.rest().starts_with(&long);
        let mark = if is_long { &long[..] } else { &long[..1] };
        self.at += mark.len();
        loop {
            self.at += match self.rest() {
                [] => return,
                [b'\\', b'\r', b'\n', ..] => 3,
                [b'\\', ..] => 2,
                // An unclosed string ends at the end of its line.
                [b'\n', ..] if !is_long => return,
                rest if rest.starts_with(mark) => {
                    self.at += mark.len();
                    return;
                }
                _ => 1,
            };
        }
    }

    /// Skips blanks within a statement.
    fn skip_blanks(&mut self) {
        loop {
            self.at += match self.rest() {
                [b' ' | b'\t' | b'\x0c', ..] => 1,
                [b'\\', b'\n', ..] => 2,
                [b'\\', b'\r', b'\n', ..] => 3,
                _ => return,
            };
        }
    }

    /// Reads a name, which may be empty.
    fn name(&mut self) -> &'s [u8] {
        let rest = self.rest();
        let length = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
        self.at += length;
        &rest[..length]
    }

    /// Reads `name.name` and the blanks after it. Returns the range of the first name and the end.
    fn dotted_name(&mut self) -> (Range<usize>, usize) {
        let begin = self.at;
        self.name();
        let first = begin..self.at;
        let mut end = self.at;
        self.skip_blanks();
        while self.is_next(b'.') {
            self.at += 1;
            self.skip_blanks();
            self.name();
            end = self.at;
            self.skip_blanks();
        }
        (first, end)
    }

    fn is_former(&self, place: &Range<usize>) -> bool {
        self.text.get(place.clone()) == Some(FORMER.as_bytes())
    }

    /// Reads the rest of `from`. After `raise` and `yield` there is no `import`, and nothing is changed.
    fn import_from(&mut self) {
        self.skip_blanks();
        // A relative import has no name before its first dot.
        let (first, _) = self.dotted_name();
        let is_former = self.is_former(&first);
        if self.name() == b"import" && is_former {
            self.edits.push((first, NAME));
        }
    }

    /// Reads the rest of `import`: modules separated by commas.
    fn import(&mut self) {
        loop {
            self.skip_blanks();
            let (first, end) = self.dotted_name();
            let is_named = self.name() == b"as";
            if is_named {
                self.skip_blanks();
                self.name();
                self.skip_blanks();
            }
            if self.is_former(&first) {
                if is_named {
                    self.edits.push((first, NAME));
                } else if first.end == end {
                    self.edits.push((first, AS_FORMER));
                } else {
                    self.edits.push((first, NAME));
                    self.edits.push((end..end, AND_AS_FORMER));
                }
            }
            if !self.is_next(b',') {
                return;
            }
            self.at += 1;
        }
    }
}

/// Whether a byte can be part of a name; all bytes beyond ASCII can.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        renamed(text.as_bytes()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn every_form_of_import_uses_the_new_module_and_binds_the_same_names() {
        for (before, after) in [
            ("import perpend", "import perpend_plugin as perpend"),
            ("import perpend as p\n", "import perpend_plugin as p\n"),
            ("import os, perpend, sys", "import os, perpend_plugin as perpend, sys"),
            ("import perpend.testing", "import perpend_plugin.testing, perpend_plugin as perpend"),
            ("import perpend.testing as t, re", "import perpend_plugin.testing as t, re"),
            (
                "from perpend import Score as S, testing",
                "from perpend_plugin import Score as S, testing",
            ),
            (
                "from perpend.testing import (\n    evaluate,\n)",
                "from perpend_plugin.testing import (\n    evaluate,\n)",
            ),
            (
                "from \\\r\n  perpend . model import Request\r\n",
                "from \\\r\n  perpend_plugin . model import Request\r\n",
            ),
            (
                "try: import perpend; x = 1  # import perpend\nexcept ImportError: pass",
                "try: import perpend_plugin as perpend; x = 1  # import perpend\nexcept ImportError: pass",
            ),
            (
                "\u{feff}import perpend\n\n\nperpend.plugin(\"a/é\")\n",
                "\u{feff}import perpend_plugin as perpend\n\n\nperpend.plugin(\"a/é\")\n",
            ),
            ("x = '\\'' # '\nimport perpend", "x = '\\'' # '\nimport perpend_plugin as perpend"),
        ] {
            assert_eq!(of(before).as_deref(), Some(after));
        }
    }

    #[test]
    fn strings_comments_and_similar_names_are_not_changed() {
        for text in [
            "",
            "'import perpend'",
            "\"\"\"How to use it:\n\n    import perpend\n\"\"\"\n",
            "r'\\' import perpend'",
            "# import perpend",
            "import perpend_plugin as perpend",
            "import perpend_plugin.testing, perpend_plugin as perpend",
            "import perpendicular, my.perpend, os as perpend",
            "from perpendicular import perpend",
            "from .perpend import x",
            "from . import perpend",
            "from .. perpend import perpend",
            "from my import perpend, other",
            "raise Failed from perpend\nx = 1",
            "def f():\n    yield from perpend.items()",
            "perpend.plugin('acme/tone')",
            "x = 'not closed\\",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_source_in_another_encoding_keeps_its_bytes() {
        let text = b"# -*- coding: latin-1 -*-\nimport perpend\nname = '\xe9'\n";
        let expected =
            b"# -*- coding: latin-1 -*-\nimport perpend_plugin as perpend\nname = '\xe9'\n";
        assert_eq!(renamed(text).as_deref(), Some(&expected[..]));
    }
}
