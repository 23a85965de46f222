//! Files of one crate that need each other, directly or over others.
//!
//! A file needs another one when it names something that the other defines: by a path from `crate`, `self`
//! or `super`, or through a module that it declares. What a file only hands on (`pub use`) counts for the
//! file that defines it. The sources are read as text, so a name that a macro makes up is not seen.

use std::collections::{BTreeMap, BTreeSet};

use super::source::File;

/// A path as it is written, in its segments.
type Path = Vec<String>;

/// The files of one crate, by module.
struct Crate<'f> {
    files: Vec<&'f File>,
    by_module: BTreeMap<&'f [String], usize>,
    /// What a module hands on: by name, where it is from.
    handed_on: Vec<BTreeMap<String, Path>>,
}

/// The files of one circle.
struct Circle {
    files: Vec<String>,
    /// Which of them needs which: `a.rs -> b.rs`.
    arrows: Vec<String>,
}

/// Each circle as a sentence with its arrows below, the largest first.
pub(super) fn found(files: &[File]) -> Vec<String> {
    let sentence = |circle: Circle| {
        let mut lines = vec![format!("{} files: {}", circle.files.len(), circle.files.join(", "))];
        lines.extend(circle.arrows);
        lines.join("\n    ")
    };
    circles(files).into_iter().map(sentence).collect()
}

/// All files of circles: a large circle that becomes smaller is still one.
pub(super) fn files(files: &[File]) -> Vec<String> {
    let circles = circles(files).into_iter();
    circles.flat_map(|circle| circle.files).collect()
}

fn circles(files: &[File]) -> Vec<Circle> {
    let mut by_crate: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files {
        by_crate.entry(&file.krate).or_default().push(file);
    }
    let mut circles: Vec<Circle> = Vec::new();
    for files in by_crate.into_values() {
        let krate = Crate::new(files);
        let arrows = krate.arrows();
        let name = |at: usize| krate.files[at].path.display().to_string();
        for circle in components(&arrows) {
            let between = circle.iter().flat_map(|from| {
                let within = arrows[*from].iter().filter(|to| circle.contains(to));
                within.map(|to| format!("{} -> {}", name(*from), name(*to)))
            });
            circles.push(Circle {
                arrows: between.collect(),
                files: circle.iter().map(|at| name(*at)).collect(),
            });
        }
    }
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    circles
}

impl<'f> Crate<'f> {
    fn new(files: Vec<&'f File>) -> Self {
        let by_module = files.iter().enumerate().map(|(at, file)| (file.module.as_slice(), at));
        let by_module = by_module.collect();
        let mut krate = Self { handed_on: vec![BTreeMap::new(); files.len()], files, by_module };
        for at in 0..krate.files.len() {
            let file = krate.files[at];
            for path in uses(&file.code, true) {
                if let (Some(path), Some(name)) = (krate.absolute(file, &path), path.last()) {
                    krate.handed_on[at].insert(name.clone(), path);
                }
            }
        }
        krate
    }

    /// For each file the files that it needs.
    fn arrows(&self) -> Vec<BTreeSet<usize>> {
        let mut arrows = vec![BTreeSet::new(); self.files.len()];
        for (from, file) in self.files.iter().enumerate() {
            let mut paths = uses(&file.code, false);
            paths.extend(named(&file.code, &self.children(file)));
            for path in paths {
                let to = self.absolute(file, &path).and_then(|path| self.defining(&path, 0));
                arrows[from].extend(to.filter(|to| *to != from));
            }
        }
        arrows
    }

    /// Names of the modules below a file's.
    fn children(&self, file: &File) -> BTreeSet<&str> {
        let below = self.files.iter().filter_map(|other| {
            let (last, before) = other.module.split_last()?;
            (before == file.module.as_slice()).then_some(last.as_str())
        });
        below.collect()
    }

    /// The path from the crate's root; `None` for one that leaves the crate.
    fn absolute(&self, file: &File, path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let mut from: Path = file.module.clone();
        let mut rest = rest.to_vec();
        match first.as_str() {
            "crate" => from.clear(),
            "self" => {}
            "super" => {
                from.pop()?;
                while rest.first().is_some_and(|next| next == "super") {
                    from.pop()?;
                    rest.remove(0);
                }
            }
            name if self.children(file).contains(name) => from.push(name.to_owned()),
            _ => return None,
        }
        from.extend(rest);
        Some(from)
    }

    /// The file that defines what a path names.
    fn defining(&self, path: &[String], n_steps: usize) -> Option<usize> {
        let longest = (0..=path.len()).rev();
        let (n, at) =
            longest.into_iter().find_map(|n| Some((n, *self.by_module.get(&path[..n])?)))?;
        let handed_on = path.get(n).and_then(|name| self.handed_on[at].get(name));
        match handed_on {
            Some(further) if n_steps < 8 => self.defining(further, n_steps + 1),
            _ => Some(at),
        }
    }
}

/// Paths of `use` declarations: of those that hand on, or of the others.
fn uses(code: &str, hands_on: bool) -> Vec<Path> {
    let mut found = Vec::new();
    let mut rest = code;
    let mut is_line_start = true;
    while let Some(at) = rest.find("use ") {
        let before = &rest[..at];
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_use = match line.trim() {
            "" => is_line_start || before.contains('\n'),
            word => word.starts_with("pub"),
        };
        let is_handed_on = line.trim().starts_with("pub");
        rest = &rest[at + 4..];
        is_line_start = false;
        if is_use && is_handed_on == hands_on {
            let end = rest.find(';').unwrap_or(rest.len());
            let tree: String = rest[..end].split_whitespace().collect();
            expand(&tree, &mut Vec::new(), &mut found);
        }
    }
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`. Blanks are gone, so `as` hides in a name: the name before it is
/// taken where it can be told.
fn expand(tree: &str, before: &mut Path, found: &mut Vec<Path>) {
    if let Some((path, group)) = tree.split_once('{') {
        let n = before.len();
        before.extend(path.split("::").filter(|one| !one.is_empty()).map(str::to_owned));
        let group = group.strip_suffix('}').unwrap_or(group);
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&group[start..at], before, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        expand(&group[start..], before, found);
        before.truncate(n);
    } else if !tree.is_empty() {
        let path = tree.split("::").map(str::to_owned);
        found.push(before.iter().cloned().chain(path).collect());
    }
}

/// Paths within the code that begin with `crate`, `super` or `self`, or with a module below. Declarations with
/// `use` are for [`uses`].
fn named(code: &str, children: &BTreeSet<&str>) -> Vec<Path> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let is_use = |line: &str| {
        let line = line.trim_start();
        line.starts_with("use ") || (line.starts_with("pub") && line.contains(" use "))
    };
    let lines = code.lines().filter(|line| !is_use(line));
    let words = lines
        .flat_map(|line| line.split(move |c: char| !is_part(c)))
        .filter(|word| word.contains("::"));
    let paths = words.filter_map(|word| {
        let path: Path = word.split("::").map(str::to_owned).collect();
        let first = path.first()?.as_str();
        let is_ours = ["crate", "super", "self"].contains(&first) || children.contains(first);
        is_ours.then(|| path.into_iter().filter(|one| !one.is_empty()).collect())
    });
    paths.collect()
}

/// Groups of more than one that all reach each other.
fn components(arrows: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reach = |from: usize| {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for to in &arrows[at] {
                if reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached
    };
    let reached: Vec<BTreeSet<usize>> = (0..arrows.len()).map(reach).collect();
    let mut grouped = BTreeSet::new();
    let mut groups = Vec::new();
    for at in 0..arrows.len() {
        if grouped.contains(&at) || !reached[at].contains(&at) {
            continue;
        }
        let of = reached[at].iter().filter(|other| reached[**other].contains(&at));
        let group: Vec<usize> = of.copied().collect();
        grouped.extend(group.iter().copied());
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &[&str], code: &str) -> File {
        File {
            krate: "runtime/a".to_owned(),
            module: module.iter().map(|&one| one.to_owned()).collect(),
            path: format!("{}.rs", module.join("/")).into(),
            code: code.to_owned(),
        }
    }

    #[test]
    fn files_that_name_each_other_are_a_circle_whatever_the_way() {
        let files = [
            file(&[], "mod a;\nmod b;\nmod c;\npub use a::A;"),
            file(&["a"], "use crate::b::{self, B};\npub struct A;"),
            file(&["b"], "fn f() -> crate::c::C { todo }\npub struct B;"),
            file(&["c"], "use super::A;\npub struct C;"),
        ];
        let [circle] = &found(&files)[..] else {
            unreachable!("one circle");
        };
        let mut lines = circle.lines().map(str::trim);
        assert_eq!(lines.next(), Some("3 files: a.rs, b.rs, c.rs"));
        let arrows: Vec<_> = lines.collect();
        assert_eq!(arrows, ["a.rs -> b.rs", "b.rs -> c.rs", "c.rs -> a.rs"]);
    }

    #[test]
    fn a_face_that_only_hands_on_is_in_no_circle() {
        let files = [
            file(&[], "mod a;"),
            file(&["a"], "mod b;\nmod c;\npub(crate) use b::B;"),
            file(&["a", "b"], "pub(crate) struct B;"),
            file(&["a", "c"], "use super::B;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn a_parent_that_calls_a_child_that_calls_back_is_one() {
        let files =
            [file(&["a"], "mod b;\nfn f() { b::g() }"), file(&["a", "b"], "fn g() { super::f() }")];
        assert_eq!(found(&files).len(), 1);
    }
}
