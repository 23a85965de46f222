//! Text search in a trace.

use perpend_domain::ids::ObservationId;
use perpend_domain::observation::ObservationKind;
use perpend_domain::text_search::{FieldMatch, SearchField, SearchHit};
use perpend_domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A page of results of a search in a trace.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TraceSearchResponse)]
pub struct TraceSearchResponse {
    /// The trace itself, then observations by start and id; at most 100.
    pub data: Vec<TraceSearchHit>,
    /// The progress of the search.
    pub meta: TraceSearchMeta,
}

/// The progress of a search.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSearchMeta {
    /// Observations searched so far.
    pub searched: u64,
    /// Observations of the trace.
    pub total: u64,
    /// The cursor for `after`; absent when all observations were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// An observation, or the trace itself, that contains the text.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSearchHit {
    /// Null for the trace itself, as are the next three.
    observation_id: Option<ObservationId>,
    r#type: Option<ObservationKind>,
    name: Option<String>,
    start_time: Option<Timestamp>,
    /// The fields that contain the text.
    places: Vec<TraceSearchMatch>,
}

/// A field that contains the text, with its first occurrence.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceSearchMatch {
    part: SearchField,
    /// At most 80 characters.
    before: String,
    /// The text as it occurs.
    found: String,
    /// At most 80 characters.
    behind: String,
    /// Occurrences in this field.
    count: u64,
}

impl From<SearchHit> for TraceSearchHit {
    fn from(hit: SearchHit) -> Self {
        let places = hit.matches.into_iter().map(TraceSearchMatch::from).collect();
        match hit.observation {
            Some(observation) => Self {
                observation_id: Some(observation.id),
                r#type: Some(observation.kind),
                name: Some(observation.name),
                start_time: Some(observation.start),
                places,
            },
            None => {
                Self { observation_id: None, r#type: None, name: None, start_time: None, places }
            }
        }
    }
}

impl From<FieldMatch> for TraceSearchMatch {
    fn from(field_match: FieldMatch) -> Self {
        Self {
            part: field_match.field,
            before: field_match.excerpt.before,
            found: field_match.excerpt.matched,
            behind: field_match.excerpt.after,
            count: field_match.n,
        }
    }
}
