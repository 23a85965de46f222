//! The list of latest traces with its filter.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::format::{clock, count, dollars, duration};
use crate::overview::Setup;
use crate::scores::Chip;
use crate::shell::encode;
use crate::{Shell, Text};

/// Chips shown on a line; the rest is counted.
const CHIPS: usize = 5;
/// Tags shown on a line.
const TAGS: usize = 3;

/// Latest traces.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "traces.html")]
pub struct TracesPage {
    /// Around the page.
    pub shell: Shell,
    /// The filter as it was asked for.
    pub query: TracesQuery,
    /// What is wrong with the filter, naming the field.
    pub problem: Option<Text>,
    /// The traces of this page, newest first.
    pub lines: Vec<TraceLine>,
    /// Where in the list this page is.
    pub pager: Pager,
    /// Nothing was recorded yet: how to change that.
    pub setup: Option<Setup>,
}

/// The filter's fields as typed; empty means any.
#[derive(Clone, Debug, Default)]
pub struct TracesQuery {
    /// Part of the trace's name.
    pub name: String,
    /// Environment.
    pub environment: String,
    /// End user.
    pub user: String,
    /// Session.
    pub session: String,
    /// One tag.
    pub tag: String,
    /// `WARNING` or `ERROR`: the least severe level to be found in the trace.
    pub level: String,
    /// Not before, `YYYY-MM-DDTHH:MM`, UTC.
    pub from: String,
    /// Before.
    pub to: String,
    /// Seconds at least.
    pub latency: String,
    /// Name of a score.
    pub score: String,
    /// How its value compares: `ge`, `le` or `eq`.
    pub score_is: String,
    /// With what.
    pub score_value: String,
}

impl TracesQuery {
    /// Any field is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.fields()
            .iter()
            .any(|(name, value)| *name != "score_is" && !value.is_empty())
    }

    /// One of the fields in the folded part of the form is set.
    fn is_detailed(&self) -> bool {
        [
            &self.session,
            &self.tag,
            &self.from,
            &self.to,
            &self.latency,
            &self.score,
            &self.score_value,
        ]
        .iter()
        .any(|value| !value.is_empty())
    }

    fn fields(&self) -> [(&'static str, &str); 12] {
        [
            ("name", &self.name),
            ("environment", &self.environment),
            ("user", &self.user),
            ("session", &self.session),
            ("tag", &self.tag),
            ("level", &self.level),
            ("from", &self.from),
            ("to", &self.to),
            ("latency", &self.latency),
            ("score", &self.score),
            ("score_is", &self.score_is),
            ("score_value", &self.score_value),
        ]
    }

    /// The address of a page of this list, in the project at `base`.
    #[must_use]
    pub fn address(&self, base: &str, page: u64) -> String {
        let mut pairs: Vec<String> = self
            .fields()
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        if page > 1 {
            pairs.push(format!("page={page}"));
        }
        if pairs.is_empty() {
            format!("{base}/traces")
        } else {
            format!("{base}/traces?{}", pairs.join("&"))
        }
    }
}

/// Where in a list a page is.
#[derive(Clone, Debug, Default)]
pub struct Pager {
    /// Number of the first line, from 1.
    pub first: u64,
    /// Number of the last line.
    pub last: u64,
    /// Lines in all, when that is known.
    pub total: Option<u64>,
    /// Address of the page before.
    pub previous: Option<String>,
    /// Address of the page after.
    pub next: Option<String>,
}

impl Pager {
    fn position(&self) -> String {
        let range = format!("{}–{}", count(self.first), count(self.last));
        match self.total {
            Some(total) => format!("{range} of {}", count(total)),
            None => range,
        }
    }
}

/// One trace in the list.
#[derive(Clone, Debug)]
pub struct TraceLine {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<Text>,
    /// When it started.
    pub at: Timestamp,
    /// Environment.
    pub environment: Text,
    /// End user.
    pub user: Option<Text>,
    /// Session.
    pub session: Option<Text>,
    /// Tags.
    pub tags: Vec<Text>,
    /// Latest end minus earliest start.
    pub latency_us: i64,
    /// Tokens in all.
    pub tokens: u64,
    /// US dollars.
    pub cost: f64,
    /// Observations.
    pub n_observations: u32,
    /// Of these with level error.
    pub n_errors: u32,
    /// Of these with level warning.
    pub n_warnings: u32,
    /// Its scores.
    pub scores: Vec<Chip>,
}

impl TraceLine {
    pub(crate) fn href(&self, base: &str) -> String {
        format!("{base}/traces/{}", encode(&self.id))
    }

    pub(crate) fn user_href(&self, base: &str) -> String {
        let user = self.user.as_ref().map_or("", Text::raw);
        format!("{base}/users/{}", encode(user))
    }

    pub(crate) fn session_href(&self, base: &str) -> String {
        let session = self.session.as_ref().map_or("", Text::raw);
        format!("{base}/sessions/{}", encode(session))
    }

    pub(crate) fn time(&self) -> String {
        clock(self.at)
    }

    pub(crate) fn latency(&self) -> String {
        duration(self.latency_us)
    }

    pub(crate) fn token_text(&self) -> String {
        if self.tokens == 0 {
            crate::format::NONE.to_owned()
        } else {
            count(self.tokens)
        }
    }

    pub(crate) fn cost_text(&self) -> String {
        dollars(self.cost)
    }

    pub(crate) fn first_chips(&self) -> &[Chip] {
        &self.scores[..self.scores.len().min(CHIPS)]
    }

    pub(crate) fn more_chips(&self) -> usize {
        self.scores.len().saturating_sub(CHIPS)
    }

    pub(crate) fn first_tags(&self) -> &[Text] {
        &self.tags[..self.tags.len().min(TAGS)]
    }

    pub(crate) fn more_tags(&self) -> usize {
        self.tags.len().saturating_sub(TAGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_carries_the_filter_encoded() {
        let query = TracesQuery {
            name: "a&b=\"c\"".to_owned(),
            ..TracesQuery::default()
        };
        assert_eq!(
            query.address("/p", 2),
            "/p/traces?name=a%26b%3D%22c%22&page=2"
        );
        assert_eq!(TracesQuery::default().address("/p", 1), "/p/traces");
        assert!(query.is_set() && !query.is_detailed());
    }
}
