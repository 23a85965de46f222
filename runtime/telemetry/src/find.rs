//! Text search in one trace, part by part: memory holds one part of the trace and the hits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::patch::record_id;
use perpend_domain::telemetry::StoredObservation;
use perpend_domain::text_search::{
    FieldMatch, HitObservation, SearchCursor, SearchField, SearchHit, TextPattern, TraceSearchPage,
};

use perpend_db::Scratch;

use super::row::wrong;
use crate::{Error, Telemetry};

/// Search term, start and limits of a search in a trace.
#[derive(Clone, Debug)]
pub struct FindQuery {
    pub(crate) sought: TextPattern,
    pub(crate) after: Option<SearchCursor>,
    /// The search stops after this number of hits. At least 2, because the first one may be the trace itself.
    pub(crate) limit: usize,
    /// The search stops after the first part that ends later.
    pub(crate) time: Duration,
}

impl FindQuery {
    /// A search of at most 2 seconds and 100 hits: in the observations after a position, or in the whole
    /// trace.
    #[must_use]
    pub const fn new(sought: TextPattern, after: Option<SearchCursor>) -> Self {
        Self { sought, after, limit: 100, time: Duration::from_secs(2) }
    }
}

/// Comments that contain the text, by observation: the newest one and the occurrences in all of them.
/// Comments on the trace and on observations that have not arrived share one entry.
type Comments = HashMap<Option<String>, FieldMatch>;

impl Telemetry {
    /// Searches the observations of a trace by start and id: their ids, names, status messages, inputs,
    /// outputs, metadata and events, and the comments of their scores. A search from the start also covers
    /// the trace itself, with comments on observations that have not arrived. `None` if the project has no
    /// such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn find_in_trace(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        query: &FindQuery,
    ) -> Result<Option<TraceSearchPage>, Error> {
        let until = Instant::now() + query.time;
        let after = query.after.as_ref();
        let Some((mut reader, n_observations)) =
            self.read_observations(project, trace, after).await?
        else {
            return Ok(None);
        };
        let sought = Arc::new(query.sought.clone());
        let of = (trace, reader.number);
        let mut comments = self.found_comments(project, of, after, &sought).await?;
        let mut hits = Vec::new();
        if query.after.is_none() {
            let own = comments.remove(&None);
            hits.extend(self.found_in_record(project, trace, &sought, own).await?);
        }
        let mut next = query.after.clone();
        let mut n_left = reader.n_left();
        while 0 < n_left && hits.len() < query.limit {
            let _scratch = Scratch::begin();
            let part = self.next_observations(&mut reader).await?;
            // Deleted observations count as searched.
            n_left = reader.n_left() + part.len();
            for (observation, mut matches) in searched(part, Arc::clone(&sought)).await? {
                if query.limit <= hits.len() {
                    break;
                }
                n_left -= 1;
                next = Some((observation.start, observation.id.clone()));
                matches.extend(comments.remove(&Some(observation.id.to_string())));
                if !matches.is_empty() {
                    let observation = Some(observation);
                    hits.push(SearchHit { observation, matches });
                }
            }
            if next.is_some() && until <= Instant::now() {
                break;
            }
        }
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Ok(Some(TraceSearchPage {
            hits,
            n_searched: count(n_observations.saturating_sub(n_left)),
            n_observations: count(n_observations),
            next: next.filter(|_| 0 < n_left),
        }))
    }

    async fn found_comments(
        &self,
        project: &ProjectId,
        of: (&TraceId, i64),
        after: Option<&SearchCursor>,
        sought: &TextPattern,
    ) -> Result<Comments, Error> {
        let mut comments = Comments::new();
        let take = |observation, comment: &str| {
            let Some(field_match) = sought.field_match(SearchField::Comment, comment) else {
                return;
            };
            match comments.entry(observation) {
                Entry::Occupied(known) => known.into_mut().n += field_match.n,
                Entry::Vacant(free) => {
                    free.insert(field_match);
                }
            }
        };
        self.each_comment(project, of, after, take).await?;
        Ok(comments)
    }

    /// The trace itself, if its id, its record or one of its comments contains the text.
    async fn found_in_record(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        sought: &TextPattern,
        comment: Option<FieldMatch>,
    ) -> Result<Option<SearchHit>, Error> {
        let mut matches: Vec<FieldMatch> = Vec::new();
        matches.extend(sought.field_match(SearchField::Id, trace.as_str()));
        if let Some(id) = record_id(trace)
            && let Some(record) = self.observation_of(project, trace, &id).await?
            && let Some(facts) = record.observation.trace
        {
            matches.extend(sought.trace_matches(&facts));
        }
        matches.extend(comment);
        Ok((!matches.is_empty()).then_some(SearchHit { observation: None, matches }))
    }
}

/// The hits of each observation of a part, computed off the threads that answer requests, because contents
/// may be large.
async fn searched(
    part: Vec<StoredObservation>,
    sought: Arc<TextPattern>,
) -> Result<Vec<(HitObservation, Vec<FieldMatch>)>, Error> {
    let search = move || {
        let observations = part.into_iter().map(|stored| stored.observation);
        let with_matches = |observation: Observation| {
            let matches = sought.field_matches(&observation);
            let Observation { id, kind, name, start, .. } = observation;
            (HitObservation { id, kind, name, start }, matches)
        };
        observations.map(with_matches).collect()
    };
    tokio::task::spawn_blocking(search).await.map_err(|error| wrong("observation", error))
}
