//! The nodes of a value as a tree with keys, types and sizes. Renders a limited number of nodes; the others and long strings
//! are loaded by path.

use std::collections::VecDeque;

use crate::urls::traces_matching;
use perpend_domain::content::beginning;
use perpend_domain::filter::{Test, TextOp};
use perpend_domain::mapping::{NodePath, PathSegment};
use perpend_domain::payload::Payload;

use super::fold::Fold;
use super::media::{Addresses, MAX_PATH};
use super::node::{Kind, Node};
use super::source::without_media;
use crate::Text;
use crate::format::{count, plural, size};

/// Maximum number of nodes on a page.
const NODES: usize = 200;
/// Maximum and default number of expanded levels. Deeper nodes have their own pages.
const LEVELS: usize = 10;
/// Maximum length in bytes of a string in a row.
const IN_ROW: usize = 280;
/// Maximum number of bytes read to expand nodes. Each level of a value is read once, and once more for its members.
const WORK: usize = 96 << 20;
/// Maximum length in bytes of a value in a filter link.
const MAX_FILTERED: usize = 200;

/// A part of the nodes of a value.
#[derive(Clone, Debug)]
pub struct Tree {
    /// In document order.
    pub(crate) items: Vec<TreeItem>,
    /// Media of the value.
    pub(crate) media: Option<Box<Fold>>,
    /// A message and the URL of the first nodes if the requested offset is past the end.
    pub(crate) past_end: Option<(String, String)>,
}

/// A node or a boundary of a node, in document order.
#[derive(Clone, Debug)]
pub(crate) enum TreeItem {
    /// The start of an expanded node. Its children follow up to `Close`.
    Open(TreeRow),
    Close,
    /// A node whose members, or the rest of whose text, are loaded on request.
    Closed(TreeRow),
    /// A node that is shown completely.
    Leaf(TreeRow),
    /// More children of the same node: the shown range, and the URL of the next nodes.
    More(String, Option<String>),
}

/// The row of a node.
#[derive(Clone, Debug)]
pub(crate) struct TreeRow {
    pub(crate) key: Text,
    /// The key is an array index, not a recorded name.
    pub(crate) is_index: bool,
    /// `object`, `text` …
    pub(crate) kind: &'static str,
    /// `3 keys, 1.2 KB`.
    pub(crate) size: String,
    pub(crate) is_parsed: bool,
    pub(crate) value: Text,
    /// `value` is only the beginning of the string.
    is_cut: bool,
    pub(crate) class: &'static str,
    /// URL of the page of the node; absent if its path is too long.
    pub(crate) page: Option<String>,
    /// URL of the list of traces with this value.
    pub(crate) filter: Option<String>,
}

/// A shown node and its shown children.
struct VisibleNode {
    line: TreeRow,
    node: Node,
    /// Absent if the path is too long for a URL; then the paths of the children are too long as well.
    path: Option<String>,
    below: Vec<usize>,
    /// Not all children are shown.
    is_cut: bool,
    has_more: bool,
}

impl Tree {
    /// The children of a node from index `from` on, with `levels` expanded levels.
    pub(super) fn of(
        node: &Node,
        path: &NodePath,
        at: &Addresses,
        (from, levels): (usize, Option<usize>),
        max: Option<usize>,
    ) -> Self {
        let max = max.unwrap_or(NODES);
        let levels = levels.unwrap_or(LEVELS).clamp(1, LEVELS);
        let mut all: Vec<VisibleNode> = Vec::new();
        let mut work = WORK;
        let own_path = path.to_string();
        let is_root = path.0.is_empty();
        let top = below(node, Some(&own_path), (at, is_root), (from, max));
        let mut queue: VecDeque<(usize, usize)> = (0..top.len()).map(|at| (at, 1)).collect();
        let n_top = top.len();
        all.extend(top);
        // Breadth first, so that one large member does not displace its siblings.
        while let Some((number, level)) = queue.pop_front() {
            let (open, n_left) = (&all[number], max.saturating_sub(all.len()));
            let cost = open.node.json().len();
            if !open.has_more || level == levels || n_left == 0 || work < cost {
                continue;
            }
            work -= cost;
            let new = below(&open.node, open.path.as_deref(), (at, false), (0, n_left));
            let first = all.len();
            let own: Vec<usize> = (first..first + new.len()).collect();
            queue.extend(own.iter().map(|number| (*number, level + 1)));
            all[number].is_cut = new.len() < all[number].node.n();
            all[number].below = own;
            all.extend(new);
        }
        let mut items = in_order(&all, n_top, at);
        let to = from + n_top;
        if to < node.n() {
            items.push(more((from, to), node.n(), &at.at(&own_path)));
        }
        let past_end = (0 < node.n() && node.n() <= from).then(|| {
            let n = count(node.n() as u64);
            let message = format!("The offset is past the end: this node has {n} children.");
            (message, at.at(&own_path).page("&as=tree"))
        });
        Self { items, media: None, past_end }
    }
}

fn span((from, to): (usize, usize), n: usize) -> String {
    let number = |n: usize| count(n as u64);
    match from {
        0 => format!("{} of {}", number(to), number(n)),
        from => format!("{}–{} of {}", number(from + 1), number(to), number(n)),
    }
}

fn more((from, to): (usize, usize), n: usize, at: &Addresses) -> TreeItem {
    TreeItem::More(span((from, to), n), Some(at.page(&format!("&as=tree&from={to}"))))
}

/// Up to `n` children of a node from index `from` on.
fn below(
    node: &Node,
    path: Option<&str>,
    (at, is_root): (&Addresses, bool),
    (from, n): (usize, usize),
) -> Vec<VisibleNode> {
    let filter = at.filter().filter(|_| is_root);
    let members = node.members(from).take(n);
    let shown = members.map(|(segment, member)| {
        let node = member.opened();
        let mut line = TreeRow::of(&node, &segment);
        let segment_text = segment.to_string();
        let path = path.filter(|path| path.len() + segment_text.len() <= MAX_PATH);
        let path = path.map(|path| format!("{path}{segment_text}"));
        // A key that contains media data does not belong in a URL.
        let path = path.filter(|path| without_media(path) == *path);
        if let Some(path) = &path {
            let at = at.at(path);
            let form = if node.holds_others() { "&as=tree" } else { "&as=text" };
            line.page = Some(at.page(form));
        }
        line.filter = filter.and_then(|base| filter_link(base, &segment, &node));
        VisibleNode {
            has_more: node.holds_others() && 0 < node.n(),
            is_cut: false,
            below: Vec::new(),
            line,
            node,
            path,
        }
    });
    shown.collect()
}

/// The nodes in document order. Not recursive.
fn in_order(all: &[VisibleNode], n_top: usize, at: &Addresses) -> Vec<TreeItem> {
    enum Next {
        Node(usize),
        Done(TreeItem),
    }
    let mut items = Vec::new();
    let mut stack: Vec<Next> = (0..n_top).rev().map(Next::Node).collect();
    while let Some(next) = stack.pop() {
        let number = match next {
            Next::Done(item) => {
                items.push(item);
                continue;
            }
            Next::Node(number) => number,
        };
        let shown = &all[number];
        let line = shown.line.clone();
        if shown.below.is_empty() {
            items.push(match shown.has_more || line.is_cut {
                true => TreeItem::Closed(line),
                false => TreeItem::Leaf(line),
            });
            continue;
        }
        stack.push(Next::Done(TreeItem::Close));
        if shown.is_cut {
            let (n, n_all) = (shown.below.len(), shown.node.n());
            stack.push(Next::Done(match &shown.path {
                Some(path) => more((0, n), n_all, &at.at(path)),
                None => TreeItem::More(span((0, n), n_all), None),
            }));
        }
        stack.extend(shown.below.iter().rev().map(|below| Next::Node(*below)));
        items.push(TreeItem::Open(line));
    }
    items
}

impl TreeRow {
    fn of(node: &Node, segment: &PathSegment) -> Self {
        let (key, is_index) = match segment {
            PathSegment::Name(name) => (Text::from(short(&without_media(name)).0), false),
            PathSegment::Index(index) => (Text::from(index.to_string()), true),
        };
        let (kind, size, (value, is_cut), class) = describe(node);
        Self {
            key,
            is_index,
            kind,
            size,
            is_parsed: node.is_parsed,
            value: Text::lines(value),
            is_cut,
            class,
            page: None,
            filter: None,
        }
    }
}

/// The beginning of a text, and whether it was truncated.
fn short(text: &str) -> (String, bool) {
    match beginning(text, IN_ROW) {
        start if start.len() < text.len() => (format!("{start}…"), true),
        whole => (whole.to_owned(), false),
    }
}

/// Type, size, displayed value and CSS class.
fn describe(node: &Node) -> (&'static str, String, (String, bool), &'static str) {
    let bytes = |text: &str| size(text.len() as u64);
    let n = node.n() as u64;
    match node.kind() {
        Kind::Object => {
            let of = format!("{}, {}", plural(n, "key"), bytes(node.json()));
            ("object", of, (String::new(), false), "")
        }
        Kind::List => {
            let of = format!("{}, {}", plural(n, "item"), bytes(node.json()));
            ("list", of, (String::new(), false), "")
        }
        Kind::Text => {
            let text = without_media(&node.string().unwrap_or_default());
            let of = match text.len() {
                0..=24 => String::new(),
                _ => bytes(&text),
            };
            ("text", of, short(&text), "js")
        }
        Kind::Number => ("number", String::new(), short(node.json()), "jn"),
        Kind::Boolean => ("boolean", String::new(), short(node.json()), "jn"),
        Kind::Null => ("null", String::new(), short("null"), "jn"),
    }
}

/// URL of the list of traces with this value under this metadata key.
fn filter_link(base: &str, segment: &PathSegment, node: &Node) -> Option<String> {
    let PathSegment::Name(key) = segment else { return None };
    let value = match node.payload() {
        // Nodes parsed from a string would have to be filtered by the complete string, which is unavailable here.
        _ if node.holds_others() || node.is_parsed || node.kind() == Kind::Null => return None,
        Payload::Text(text) | Payload::Json(text) => text,
    };
    (!value.is_empty() && value.len() <= MAX_FILTERED).then(|| {
        let test = Test::MemberText(key.clone(), TextOp::Equal, value);
        traces_matching(base, "metadata", test)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(payload: &Payload, range: (usize, Option<usize>)) -> Tree {
        let node = Node::of(payload).opened();
        let at = Addresses::new("/project/p", "t", None, "input");
        Tree::of(&node, &NodePath::default(), &at, range, None)
    }

    /// One line per item: indented keys with their values, `+` for collapsed nodes.
    fn sketch(tree: &Tree) -> Vec<String> {
        let mut depth = 0;
        let mut lines = Vec::new();
        for item in &tree.items {
            let (line, mark) = match item {
                TreeItem::Close => {
                    depth -= 1;
                    continue;
                }
                TreeItem::More(shown, _) => {
                    lines.push(format!("{}… {shown}", " ".repeat(depth)));
                    continue;
                }
                TreeItem::Open(line) => (line, "-"),
                TreeItem::Closed(line) => (line, "+"),
                TreeItem::Leaf(line) => (line, " "),
            };
            let parsed = if line.is_parsed { " parsed" } else { "" };
            lines.push(format!(
                "{}{mark}{} {} {}{parsed}",
                " ".repeat(depth),
                line.key,
                line.kind,
                line.value
            ));
            depth += usize::from(mark == "-");
        }
        lines
    }

    #[test]
    fn small_value_is_expanded_and_json_in_strings_is_parsed() {
        let value = json!({"a": [1, null], "b": {}, "c": "{\"d\":true}", "e": "x".repeat(300)});
        let tree = tree(&Payload::from_value(value), (0, None));
        let long = format!("+e text {}…", "x".repeat(280));
        let expected = [
            "-a list ",
            "  0 number 1",
            "  1 null null",
            " b object ",
            "-c object  parsed",
            "  d boolean true",
            long.as_str(),
        ];
        assert_eq!(sketch(&tree), expected);
        let TreeItem::Closed(line) = tree.items.last().unwrap() else { panic!() };
        let page = "/project/p/value?trace=t&part=input&path=%24%5B%27e%27%5D&as=text";
        assert_eq!(line.page.as_deref(), Some(page));
    }

    #[test]
    fn depth_limits_the_expanded_levels() {
        let tree = tree(&Payload::from_value(json!({"a": {"b": {"c": 1}}})), (0, Some(2)));
        assert_eq!(sketch(&tree), ["-a object ", " +b object "]);
    }

    #[test]
    fn first_200_nodes_are_shown_with_a_link_to_the_rest() {
        let list: Vec<usize> = (0..500).collect();
        let value = Payload::from_value(json!({"first": list, "last": 1}));
        let lines = sketch(&tree(&value, (0, None)));
        assert_eq!(lines.len(), 201);
        assert_eq!(lines[199..], [" … 198 of 500", " last number 1"]);
        let value = Payload::from_value(json!(list));
        let further = tree(&value, (200, None));
        let Some(TreeItem::More(shown, Some(next))) = further.items.last() else { panic!() };
        assert_eq!(shown, "201–400 of 500");
        assert!(next.ends_with("&as=tree&from=400"), "{next}");
    }

    #[test]
    fn wide_and_deep_values_are_limited() {
        let members: Vec<String> =
            (0..1_000_000).map(|n| format!("\"key number {n}\":{n}")).collect();
        let tree_of = |json: String| tree(&Payload::Json(json), (0, None));
        assert_eq!(tree_of(format!("{{{}}}", members.join(","))).items.len(), 201);
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(tree_of(deep).items.len(), 2 * (LEVELS - 1) + 1);
    }

    #[test]
    fn media_data_is_a_label_and_a_long_path_has_no_url() {
        let data = format!("data:image/png;base64,{}", "AP8=".repeat(3));
        let name = "k".repeat(3_000);
        let mut value = json!({"picture": data});
        value[&name] = json!({"x": 1});
        let tree = tree(&Payload::from_value(value), (0, None));
        let TreeItem::Leaf(line) = &tree.items[0] else { panic!() };
        assert!(line.value.raw().starts_with("[image/png"), "{}", line.value);
        let TreeItem::Open(line) = &tree.items[1] else { panic!() };
        assert!(line.page.is_none() && line.key.raw().len() < 300);
    }

    #[test]
    fn offset_past_the_end_is_reported_with_a_link_to_the_first_nodes() {
        let payload = Payload::from_value(json!([1, 2, 3]));
        let at = Addresses::new("/project/p", "t", None, "input");
        let of = |from| {
            let path = NodePath::default();
            Tree::of(&Node::of(&payload), &path, &at, (from, None), None)
        };
        assert!(of(2).past_end.is_none());
        let (message, href) = of(3).past_end.unwrap();
        assert!(message.ends_with("3 children."), "{message}");
        assert_eq!(href, "/project/p/value?trace=t&part=input&as=tree");
    }

    #[test]
    fn only_trace_metadata_has_filter_links() {
        let payload = Payload::from_value(json!({"tier": "gold", "n": 5, "more": {"x": 1}}));
        let of = |observation, part| {
            let at = Addresses::new("/project/p", "t", observation, part);
            let tree = Tree::of(&Node::of(&payload), &NodePath::default(), &at, (0, None), None);
            let lines = tree.items.iter().filter_map(|item| match item {
                TreeItem::Leaf(line) => line.filter.clone(),
                _ => None,
            });
            lines.collect::<Vec<_>>()
        };
        let filters = of(None, "metadata");
        assert_eq!(filters[0], "/project/p/traces?q=metadata.tier%3Agold");
        assert_eq!(filters.len(), 2);
        assert!(of(Some("o"), "metadata").is_empty() && of(None, "input").is_empty());
    }
}
