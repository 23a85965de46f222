//! Text searches: the column `text`, and the exclusion of rows before their content is parsed.
//!
//! `text` of an observation is its id, name, input and output. `text` of a trace is the same four of its own,
//! and those of each of its observations. Each text is tested separately, input and output in each of
//! [`Payload::readings`](perpend_domain::payload::Payload::readings).

use std::collections::{HashMap, HashSet};

use crate::rows::needle::{Needle, is_on};
use perpend_db::{Arg, Scratch, value_list};
use perpend_domain::filter::{Condition, Row, Test, TextOp};
use perpend_domain::telemetry::StoredTrace;

use super::cells::{ObservationCells, TraceCells};
use super::read::LIST;
use super::row::{ObservationRow, READ};
use crate::{Error, Telemetry};

/// Observations whose contents are searched at a time.
const SCAN: usize = 500;
/// Bytes of contents that are tested at a time.
const PART_BYTES: usize = 4 << 20;

/// A condition on the `text` of a trace, which a single part decides.
#[derive(Debug)]
pub(super) struct TextSearch {
    /// Never negated: the condition on one text.
    sought: Condition,
    /// Whether the trace matches when a text is found.
    is_wanted: bool,
    needle: Option<Needle>,
}

impl TextSearch {
    /// `None` for a condition on another column.
    pub(super) fn of(condition: &Condition) -> Option<Self> {
        if !is_on(condition, "text") {
            return None;
        }
        let (test, is_wanted) = match &condition.test {
            Test::Text(TextOp::DoesNotContain, value) => {
                (Test::Text(TextOp::Contains, value.clone()), false)
            }
            Test::NoneOf(values) => (Test::AnyOf(values.clone()), false),
            Test::IsNull => (Test::IsNotNull, false),
            other => (other.clone(), true),
        };
        let sought = Condition { column: condition.column, test };
        Some(Self { needle: Needle::of(&sought), sought, is_wanted })
    }
}

perpend_db::record! {
    /// The columns of an observation that a search needs first.
    struct PartRow {
        seq: i64,
        trace: i64,
        payload: Option<i64>,
        place: i64,
        id: String,
        name: String,
    }
}

/// The searches that have found a text, by the number of the trace.
struct SearchMatches<'s> {
    searches: &'s [TextSearch],
    by_trace: HashMap<i64, Vec<bool>>,
}

impl SearchMatches<'_> {
    fn look(&mut self, trace: i64, row: &dyn Row) {
        let found = self.by_trace.entry(trace).or_default();
        found.resize(self.searches.len(), false);
        for (found, search) in found.iter_mut().zip(self.searches) {
            *found = *found || search.sought.holds(row);
        }
    }

    /// The searches that have found nothing in the trace so far.
    fn open(&self, trace: i64) -> impl Iterator<Item = &TextSearch> {
        let found = self.by_trace.get(&trace).into_iter().flatten();
        let each = found.zip(self.searches);
        each.filter_map(|(found, search)| (!found).then_some(search))
    }

    fn is_open(&self, trace: i64) -> bool {
        self.open(trace).next().is_some()
    }

    fn passes(&self, trace: i64) -> bool {
        self.by_trace.get(&trace).is_some_and(|found| {
            let mut each = found.iter().zip(self.searches);
            each.all(|(found, search)| *found == search.is_wanted)
        })
    }
}

impl Telemetry {
    /// The numbers of the traces that match the searches. The time is proportional to the size of the
    /// contents of the traces; only a few of them are in memory at a time.
    pub(super) async fn searched(
        &self,
        traces: &[(i64, &StoredTrace)],
        searches: &[TextSearch],
    ) -> Result<HashSet<i64>, Error> {
        let mut passing = HashSet::new();
        for chunk in traces.chunks(LIST) {
            let mut found = SearchMatches { searches, by_trace: HashMap::new() };
            for (number, stored) in chunk {
                let cells = TraceCells { stored, scores: &[] };
                found.look(*number, &cells);
            }
            let open: Vec<i64> = chunk
                .iter()
                .map(|(number, _)| *number)
                .filter(|number| found.is_open(*number))
                .collect();
            if !open.is_empty() {
                self.search_parts(&open, &mut found).await?;
            }
            let numbers = chunk.iter().map(|(number, _)| *number);
            passing.extend(numbers.filter(|number| found.passes(*number)));
        }
        Ok(passing)
    }

    async fn search_parts(
        &self,
        traces: &[i64],
        found: &mut SearchMatches<'_>,
    ) -> Result<(), Error> {
        let sql = format!(
            "SELECT o.seq, o.trace, o.payload, o.place, o.id, o.name FROM observations o \
             WHERE o.trace IN ({}) ORDER BY o.trace, o.seq",
            value_list(traces.len(), 1)
        );
        let args: Vec<Arg<'static>> = traces.iter().map(|number| (*number).into()).collect();
        let parts: Vec<PartRow> = self.pool.select(&sql, &args).await?;
        for parts in parts.chunks(SCAN) {
            perpend_db::check_deadline()?;
            let open = parts.iter().filter(|part| found.is_open(part.trace));
            let open: Vec<&PartRow> = open.collect();
            let places: Vec<(Option<i64>, i64)> =
                open.iter().map(|part| (part.payload, part.place)).collect();
            let may_pass = |at: usize, content: &str| {
                open.get(at).is_some_and(|part| {
                    found.open(part.trace).any(|search| {
                        let needle = search.needle.as_ref();
                        needle.is_none_or(|it| it.may_be_in(&part.id, &part.name, content))
                    })
                })
            };
            let may_pass = self.contents_with(&places, may_pass).await?;
            let parts = open.iter().zip(may_pass);
            let parts: Vec<&PartRow> =
                parts.filter_map(|(part, may)| may.then_some(*part)).collect();
            for parts in parts.chunks(LIST) {
                self.look_at(parts, found).await?;
            }
        }
        Ok(())
    }

    /// Tests whole observations, except those of traces with no open search.
    async fn look_at(
        &self,
        parts: &[&PartRow],
        found: &mut SearchMatches<'_>,
    ) -> Result<(), Error> {
        let open = parts.iter().filter(|part| found.is_open(part.trace));
        let args: Vec<Arg<'static>> = open.map(|part| part.seq.into()).collect();
        if args.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT {READ} FROM observations o JOIN traces t ON t.number = o.trace \
             WHERE o.seq IN ({})",
            value_list(args.len(), 1)
        );
        let rows = self.pool.select::<ObservationRow>(&sql, &args).await?;
        let mut left = rows.as_slice();
        while !left.is_empty() {
            let _scratch = Scratch::begin();
            let part = self.stored_up_to(left, PART_BYTES).await?;
            for (row, stored) in left.iter().zip(&part) {
                let cells = ObservationCells { stored, scores: &[] };
                found.look(row.trace, &cells);
            }
            left = &left[part.len()..];
        }
        Ok(())
    }
}
