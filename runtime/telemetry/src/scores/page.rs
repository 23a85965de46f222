//! Pages of the list of scores in both directions, each read up to a limit.

use std::borrow::Cow;

use perpend_domain::ids::ProjectId;
use perpend_domain::list::{BidirectionalPage, Cursor, ListPosition};
use perpend_domain::score::Score;
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;

use super::query::{ScoreStatement, leaves_few};
use super::read::COLUMNS;
use crate::{Error, Telemetry};
use perpend_db::{Pool, query};

/// One end of a range of the list. A range has one such condition: an index uses only one of two, and would
/// read all rows that only the other one excludes.
#[derive(Clone, Copy)]
enum ScoreRangeEnd<'c> {
    Open,
    At(Timestamp),
    Beyond(&'c Cursor),
    With(&'c Cursor),
}

/// Scores from one position in the list to another.
#[derive(Clone, Copy)]
struct ScoreRange<'c> {
    newest: ScoreRangeEnd<'c>,
    oldest: ScoreRangeEnd<'c>,
    is_backwards: bool,
}

impl<'c> ScoreRange<'c> {
    fn new(query: &ScoreQuery, position: &'c ListPosition) -> Self {
        let at = |time: Option<Timestamp>| time.map_or(ScoreRangeEnd::Open, ScoreRangeEnd::At);
        let is_backwards = position.is_backwards;
        let mut stretch = Self { newest: at(query.to), oldest: at(query.from), is_backwards };
        if let Some(cursor) = &position.cursor {
            let beyond = ScoreRangeEnd::Beyond(cursor);
            match is_backwards {
                false if query.to.is_none_or(|to| cursor.at < to) => stretch.newest = beyond,
                true if query.from.is_none_or(|from| from <= cursor.at) => stretch.oldest = beyond,
                _ => {}
            }
        }
        stretch
    }

    /// The same range up to this score, in its direction.
    const fn until(mut self, last: &'c Cursor) -> Self {
        match self.is_backwards {
            false => self.oldest = ScoreRangeEnd::With(last),
            true => self.newest = ScoreRangeEnd::With(last),
        }
        self
    }
}

/// The conditions of a query that an index has in the order of the list, and the index.
fn by_index(query: &ScoreQuery) -> (ScoreQuery, &'static str) {
    let mut indexed = ScoreQuery { from: query.from, to: query.to, ..ScoreQuery::default() };
    let index = if query.fingerprint.is_some() {
        indexed.fingerprint = query.fingerprint;
        "scores_by_fingerprint"
    } else if let [_] = query.names.as_slice() {
        indexed.names.clone_from(&query.names);
        "scores_by_name"
    } else {
        "scores_newest"
    };
    (indexed, index)
}

/// The matching scores of a range, in its direction.
fn list(
    pool: &Pool,
    (what, project): (&str, &ProjectId),
    query: &ScoreQuery,
    stretch: &ScoreRange<'_>,
) -> ScoreStatement {
    let is_few = leaves_few(query);
    // SQLite has no statistics: it might choose an index with another order, and sort all scores.
    let table = match is_few || pool.is_postgres() {
        true => Cow::Borrowed("scores s"),
        false => Cow::Owned(format!("scores s INDEXED BY {}", by_index(query).1)),
    };
    let mut statement = ScoreStatement::select_from(&table, what, project);
    let anytime = ScoreQuery { from: None, to: None, ..query.clone() };
    statement.filter(pool, &anytime);
    // Few scores are sorted: a plus makes the index of all scores unusable.
    let plus = if is_few { "+" } else { "" };
    for (end, [at, beyond, with]) in
        [(stretch.newest, ["<", "<", "<="]), (stretch.oldest, [">=", ">", ">="])]
    {
        let (sign, cursor) = match end {
            ScoreRangeEnd::Open => continue,
            ScoreRangeEnd::At(time) => {
                statement.push(&format!(" AND {plus}s.timestamp {at} "));
                statement.integer(time.as_micros());
                continue;
            }
            ScoreRangeEnd::Beyond(cursor) => (beyond, cursor),
            ScoreRangeEnd::With(cursor) => (with, cursor),
        };
        statement.push(&format!(" AND ({plus}s.timestamp, s.id) {sign} ("));
        statement.integer(cursor.at.as_micros());
        statement.push(", ");
        statement.text(&cursor.id);
        statement.push(")");
    }
    let order = if stretch.is_backwards { "ASC" } else { "DESC" };
    statement.push(&format!(" ORDER BY {plus}s.timestamp {order}, s.id {order}"));
    statement
}

impl Telemetry {
    /// A page of the matching scores. If no index has the conditions, at most `max_tested` scores are read, and
    /// the result contains the cursor at which to continue.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn scores_from(
        &self,
        project: &ProjectId,
        query: &ScoreQuery,
        position: &ListPosition,
        (limit, max_tested): (u32, u64),
    ) -> Result<BidirectionalPage<Score>, Error> {
        let stretch = ScoreRange::new(query, position);
        let (indexed, _) = by_index(query);
        let stop = match indexed == *query || leaves_few(query) {
            true => None,
            false => self.stop(project, &indexed, &stretch, max_tested).await?,
        };
        let stretch = stop.as_ref().map_or(stretch, |stop| stretch.until(stop));
        let mut statement = list(&self.pool, (COLUMNS, project), query, &stretch);
        statement.push(&format!(" LIMIT {}", u64::from(limit) + 1));
        let mut items = self.fetch_scores(statement).await?;
        let has_more = (limit as usize) < items.len();
        items.truncate(limit as usize);
        let cursor =
            |score: &Score| Cursor::new(score.written.timestamp, score.written.id.to_string());
        let page = BidirectionalPage::read(items, position, has_more, cursor);
        Ok(BidirectionalPage { stopped: stop.filter(|_| !has_more), ..page })
    }

    /// The last score to be read, if more of the range follow; from the index alone.
    async fn stop(
        &self,
        project: &ProjectId,
        indexed: &ScoreQuery,
        stretch: &ScoreRange<'_>,
        max_tested: u64,
    ) -> Result<Option<Cursor>, Error> {
        let what = ("s.timestamp, s.id", project);
        let ScoreStatement { sql, args, .. } = list(&self.pool, what, indexed, stretch);
        let last = max_tested.saturating_sub(1);
        let sql = format!("{sql} LIMIT 2 OFFSET {last}");
        let rows: Vec<(i64, String)> = query(sql).bind_all(&args).fetch_all(&self.pool).await?;
        Ok(match <[(i64, String); 2]>::try_from(rows) {
            Ok([(at, id), _]) => Some(Cursor::new(Timestamp::from_micros(at), id)),
            Err(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{OpenStore as _, TempDatabase};

    #[tokio::test]
    async fn a_walk_has_both_its_ends_from_one_index_and_sorts_nothing() {
        let database = TempDatabase::sqlite();
        let store = database.open().await;
        let perpend_db::Engine::Sqlite { reader, .. } = store.pool.engine() else {
            unreachable!("the database is an SQLite file");
        };
        let project: ProjectId = "p".parse().unwrap();
        let cursor = |millis| Cursor::new(Timestamp::from_millis(millis), "s".to_owned());
        let named = ScoreQuery {
            names: vec!["a".to_owned()],
            number: vec![(perpend_domain::filter::Order::Greater, 0.5)],
            ..ScoreQuery::default()
        };
        let two = ScoreQuery {
            names: vec!["a".to_owned(), "b".to_owned()],
            from: Some(Timestamp::from_millis(1)),
            ..ScoreQuery::default()
        };
        let printed = ScoreQuery {
            fingerprint: "ab".repeat(32).parse().ok(),
            names: vec!["a".to_owned()],
            ..ScoreQuery::default()
        };
        for (query, index) in [
            (&named, "scores_by_name"),
            (&two, "scores_newest"),
            (&printed, "scores_by_fingerprint"),
        ] {
            let before = ListPosition { cursor: Some(cursor(2)), is_backwards: true };
            for position in [ListPosition::after(cursor(9)), before] {
                let (stop, begin) = (cursor(5), ScoreRange::new(query, &position));
                let statement = list(&store.pool, (COLUMNS, &project), query, &begin.until(&stop));
                let sql = format!("EXPLAIN QUERY PLAN {} LIMIT 50", statement.sql);
                let plan: Vec<(i64, i64, i64, String)> =
                    sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(reader).await.unwrap();
                assert_eq!(plan.len(), 1, "nothing is sorted: {plan:?}");
                let step = &plan[0].3;
                let has_ends = step.contains('<') && step.contains('>');
                assert!(step.contains(index) && has_ends, "{step}");
            }
        }
        store.close().await;
    }
}
