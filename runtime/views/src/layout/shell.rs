//! What stands around the content of every page: the bar with the project, and the rail with its sections.

use crate::markup::{encode, segment};
use crate::urls::{Focus, is_known};
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;

use crate::layout::forms::FormContext;
use crate::layout::preferences::Preferences;
use crate::{ApiRequest, Text};

/// The frame of a page.
#[derive(Clone, Debug, Default)]
pub struct Shell {
    /// Absent before login, and then there is nothing to navigate.
    pub project: Option<ProjectLink>,
    /// The other projects that the browser is logged in to, the last used first.
    pub others: Vec<ProjectLink>,
    /// The entry of the rail to mark.
    pub section: Section,
    /// How the reader wants it.
    pub preferences: Preferences,
    /// What its forms carry.
    pub forms: FormContext,
    /// The time and the environments: links to sections keep them.
    pub focus: Focus,
    /// The address of the page; empty where it stands for another one, as an error does.
    pub here: String,
    /// What waits for somebody.
    pub attention: AttentionCounts,
    /// The requests of the API that give the same rows as the page.
    pub api: Vec<ApiRequest>,
    /// When the page was made.
    pub now: Timestamp,
}

/// What waits for somebody, as the rail counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionCounts {
    /// Rules that are paused.
    pub paused: u64,
    /// Executions that failed in the last 24 hours.
    pub failed: u64,
}

impl AttentionCounts {
    /// As far as they are counted.
    pub const LIMIT: u32 = 100;
}

/// The project that is looked at.
#[derive(Clone, Debug)]
pub struct ProjectLink {
    pub(crate) name: Text,
    base: String,
}

impl ProjectLink {
    /// From its id and its name.
    #[must_use]
    pub fn new(id: &str, name: &str) -> Self {
        Self { name: Text::from(name), base: base(id) }
    }
}

/// The address that those of all pages of a project begin with.
#[must_use]
pub fn base(project: &str) -> String {
    format!("/project/{}", encode(project))
}

/// The address of the list of sessions, or of users, in the project at `base`.
#[must_use]
pub fn list_href(base: &str, by: GroupKey) -> String {
    let path = match by {
        GroupKey::Session => "sessions",
        GroupKey::User => "users",
    };
    format!("{base}/{path}")
}

/// The address of one session or user.
#[must_use]
pub fn href(base: &str, by: GroupKey, id: &str) -> String {
    format!("{}/{}", list_href(base, by), segment(id))
}

/// The entries of the rail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Section {
    /// None of them.
    #[default]
    Other,
    /// How the application is, and what waits for somebody.
    Overview,
    /// Latest traces and one trace.
    Traces,
    /// Conversations.
    Sessions,
    /// End users of the application.
    Users,
    /// What was measured.
    Scores,
    /// Rules and evaluators.
    Rules,
    /// The reference of the API.
    Reference,
    /// What is found by an id or a name.
    Search,
}

/// One entry of the rail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) section: Section,
    pub(crate) label: &'static str,
    /// The address below that of the project.
    path: &'static str,
    /// The letter that opens it, after `g`.
    pub(crate) key: &'static str,
    /// Its picture where the sections are folded: a path of SVG in a box of 16 by 16.
    pub(crate) icon: &'static str,
}

/// Entries that belong together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) label: &'static str,
    pub(crate) entries: &'static [Entry],
}

const fn entry(
    section: Section,
    label: &'static str,
    path: &'static str,
    (key, icon): (&'static str, &'static str),
) -> Entry {
    Entry { section, label, path, key, icon }
}

static GROUPS: [Group; 2] = [
    Group {
        label: "Observe",
        entries: &[
            entry(Section::Overview, "Overview", "", ("h", "M2 8l6-5 6 5M4 7v6h8V7")),
            entry(Section::Traces, "Traces", "/traces", ("t", "M2 4h7M5 8h9M8 12h5")),
            entry(Section::Sessions, "Sessions", "/sessions", ("s", "M2 3h12v8H8l-3 3v-3H2z")),
            entry(
                Section::Users,
                "Users",
                "/users",
                ("u", "M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5M3 14a5 5 0 0 1 10 0"),
            ),
        ],
    },
    Group {
        label: "Evaluate",
        entries: &[
            entry(Section::Scores, "Scores", "/scores", ("c", "M2 12a6 6 0 0 1 12 0M8 12l3-4")),
            entry(Section::Rules, "Rules", "/rules", ("r", "M2 5h12M2 11h12M6 3v4M10 9v4")),
        ],
    },
];

impl Shell {
    /// The time of day of an instant, with its date where that is not today's.
    pub(crate) fn short_time(&self, at: &Timestamp) -> String {
        crate::format::short_time(*at, self.now)
    }

    /// How long ago an instant was; nothing where it is still to come.
    pub(crate) fn ago(&self, at: &Timestamp) -> String {
        crate::format::ago(*at, self.now).unwrap_or_default()
    }

    pub(crate) fn name(&self) -> Option<&Text> {
        self.project.as_ref().map(|project| &project.name)
    }

    /// The address of the project, or of nothing before login.
    #[must_use]
    pub fn base(&self) -> &str {
        self.project.as_ref().map_or("", |project| &project.base)
    }

    /// The address of the page without what says how the reader came to it: places in a list, and the list itself; and
    /// without what no page reads.
    pub(crate) fn canonical(&self) -> Option<String> {
        const LEFT_OUT: [&str; 8] =
            ["in", "view", "after", "before", "page", "saved", "looked", "found"];
        let (path, query) = self.here.split_once('?').unwrap_or((&self.here, ""));
        let pairs = query.split('&').filter(|pair| {
            let name = pair.split('=').next().unwrap_or_default();
            is_known(name) && !LEFT_OUT.contains(&name)
        });
        let pairs: Vec<&str> = pairs.collect();
        let address = match pairs.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", pairs.join("&")),
        };
        (!address.is_empty()).then_some(address)
    }

    /// Around a page whose rows these requests give too.
    #[must_use]
    pub fn with_api(self, api: impl IntoIterator<Item = ApiRequest>) -> Self {
        Self { api: api.into_iter().collect(), ..self }
    }

    pub(crate) fn groups(&self) -> &'static [Group] {
        &GROUPS
    }

    pub(crate) fn href(&self, entry: &Entry) -> String {
        format!("{}{}{}", self.base(), entry.path, self.focus.query())
    }

    /// The same section of another project.
    pub(crate) fn in_project(&self, other: &ProjectLink) -> String {
        let mut entries = GROUPS.iter().flat_map(|group| group.entries);
        let path = entries.find(|entry| self.marks(entry));
        let path = path.map_or("", |entry| entry.path);
        format!("{}{path}{}", other.base, self.focus.query())
    }

    /// What an entry of the rail counts: the number, what it is of, and its class.
    pub(crate) fn counters(&self, entry: &Entry) -> Vec<(String, &'static str, &'static str)> {
        let all = match entry.section {
            Section::Rules => [
                (self.attention.paused, "paused", "waiting"),
                (self.attention.failed, "failed in 24 hours", "bad"),
            ],
            _ => return Vec::new(),
        };
        let limit = u64::from(AttentionCounts::LIMIT);
        let shown = |n: u64| match n < limit {
            true => n.to_string(),
            false => format!("{}+", limit - 1),
        };
        let some = all.into_iter().filter(|(n, ..)| 0 < *n);
        some.map(|(n, what, class)| (shown(n), what, class)).collect()
    }

    pub(crate) fn marks(&self, entry: &Entry) -> bool {
        self.section == entry.section
    }

    pub(crate) fn is_reference(&self) -> bool {
        self.section == Section::Reference
    }

    /// Name and address of the pages that one can go to from anywhere.
    #[must_use]
    pub fn places(&self) -> Vec<(&'static str, String)> {
        let entries = GROUPS.iter().flat_map(|group| group.entries);
        let own = entries.map(|entry| (entry.label, self.href(entry)));
        let others = [("API reference", "/api/reference"), ("Preferences", "/preferences")];
        let others = others.map(|(label, href)| (label, format!("{href}{}", self.focus.query())));
        own.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_opens_two_sections() {
        let keys = GROUPS.iter().flat_map(|group| group.entries).map(|entry| entry.key);
        let mut keys: Vec<_> = keys.collect();
        let n = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), n);
    }

    #[test]
    fn only_the_rules_count_and_only_what_there_is() {
        let counted = |paused, failed| {
            let attention = AttentionCounts { paused, failed };
            let shell = Shell { attention, ..Shell::default() };
            let entries = GROUPS.iter().flat_map(|group| group.entries);
            let all = entries.flat_map(|entry| shell.counters(entry));
            all.map(|(n, what, _)| format!("{n} {what}")).collect::<Vec<_>>()
        };
        assert!(counted(0, 0).is_empty());
        assert_eq!(counted(2, 0), ["2 paused"]);
        assert_eq!(counted(0, 99), ["99 failed in 24 hours"]);
        assert_eq!(counted(1, 100), ["1 paused", "99+ failed in 24 hours"]);
    }

    #[test]
    fn a_page_has_one_address_wherever_its_reader_came_from() {
        let canonical = |here: &str| {
            let here = here.to_owned();
            let shell = Shell { here, ..Shell::default() };
            shell.canonical()
        };
        for (here, own) in [
            ("/project/p", "/project/p"),
            ("/project/p/traces?after=_5_a&q=in%3Aa&n=25", "/project/p/traces?q=in%3Aa&n=25"),
            ("/project/p/traces?page=2&before=end&ref=mail", "/project/p/traces"),
            (
                "/project/p/traces/t?in=%2Ftraces&observation=o&view=x",
                "/project/p/traces/t?observation=o",
            ),
            ("/project/p/traces/t?trace&min=ERROR", "/project/p/traces/t?trace&min=ERROR"),
        ] {
            assert_eq!(canonical(here).as_deref(), Some(own));
        }
        assert_eq!(canonical(""), None);
    }

    #[test]
    fn an_odd_id_stays_one_part_of_the_address() {
        assert_eq!(base("a/b c-d"), "/project/a%2Fb%20c-d");
    }
}
