//! Menu of a row: filter by its values or copy them.

use crate::urls::TracesQuery;
use perpend_domain::filter::{Condition, TRACES, Test, find};

use crate::Text;
use crate::lists::facets::{MAX_FILTER, joined};
use crate::lists::table::MenuItem;
use crate::lists::trace_line::TraceLine;

/// Maximum number of tags and of models in a menu.
const TAGS: usize = 3;
/// Longer values are omitted, because the URLs would be longer than the row.
const MAX_VALUE: usize = 256;

/// Menu items of a row.
pub(crate) fn of(line: &TraceLine, query: &TracesQuery, base: &str) -> Vec<MenuItem> {
    let one = |label, column, text: &Option<Text>| text.clone().map(|text| (label, column, text));
    let values = [
        one("name", "name", &line.name),
        one("environment", "environment", &Some(line.environment.clone())),
        one("user", "userId", &line.user),
        one("session", "sessionId", &line.session),
        one("release", "release", &line.release),
        one("version", "version", &line.version),
    ];
    let tags = line.tags.iter().take(TAGS);
    let tags = tags.map(|tag| ("tag", "tags", tag.clone()));
    let models = line.observation_names.models.iter().take(TAGS);
    let models = models.map(|model| ("model", "models", Text::from(model.as_str())));
    let all = values.into_iter().flatten().chain(models).chain(tags);
    let fits = |text: &Text| !text.is_empty() && text.raw().len() <= MAX_VALUE;
    all.filter(|(.., text)| fits(text))
        .filter_map(|(label, column, text)| {
            let is_short = query.q.len() <= MAX_FILTER;
            let list = |test: Test| {
                let column = find(TRACES, column);
                let q = joined(&query.q, Condition { column, test })?;
                Some(query.with(&q).first(base))
            };
            let one = || vec![text.raw().to_owned()];
            let [only, not] = [Test::AnyOf(one()), Test::NoneOf(one())];
            let lists = match is_short {
                true => Some((list(only)?, list(not)?)),
                false => None,
            };
            Some(MenuItem { label, lists, text })
        })
        .collect()
}
