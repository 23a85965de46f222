//! The values of the newest traces with their frequency, and counts up to a limit.

use std::fmt::Write as _;

use perpend_db::Sql;
use perpend_domain::filter::Filter;
use perpend_domain::ids::ProjectId;
use perpend_domain::text_search::{BoundedCount, Facet, FacetColumn, Facets};
use perpend_domain::trace_list::TraceQuery;

use super::row::OBSERVATION_MARKS;
use super::trace_shape::{AccessPath, ListShape};
use crate::{Error, Telemetry};

/// Values of a column that are returned; one more is read to detect further ones.
const VALUES: usize = 20;

/// The values of a list in the detail of the traces `n`.
fn listed(list: &str, is_postgres: bool) -> String {
    match is_postgres {
        // JSON can contain a NUL, which a text of PostgreSQL cannot.
        true => format!(
            "SELECT g.value AS value FROM n, json_array_elements_text( \
                CASE WHEN strpos(n.detail, '\"{list}\":') > 0 \
                     THEN COALESCE(replace(n.detail, '\\u0000', '\\ufffd')::json -> '{list}', '[]') ELSE '[]' END) g"
        ),
        false => format!(
            "SELECT g.value AS value FROM n, json_each(n.detail, '$.{list}') g \
              WHERE instr(n.detail, '\"{list}\":') > 0"
        ),
    }
}

perpend_db::record! {
    struct FacetRow {
        facet: i64,
        value: Option<String>,
        n: i64,
    }
}

/// The values of a column, one row per trace that has it, from the traces `n` and the marks of their
/// observations, `m`.
fn rows_of(column: FacetColumn, project: &str, is_postgres: bool) -> String {
    let own = |column: &str| format!("SELECT NULLIF(n.{column}, '') AS value FROM n");
    let [kind, model, prompt] = OBSERVATION_MARKS.map(|of| {
        format!("SELECT substr(m.value, 2) AS value FROM m WHERE substr(m.value, 1, 1) = '{of}'")
    });
    match column {
        FacetColumn::Environment => own("environment"),
        FacetColumn::Name => own("name"),
        FacetColumn::User => own("user_id"),
        FacetColumn::Release => own("release"),
        FacetColumn::Level => own("level"),
        FacetColumn::Tag => listed("tags", is_postgres),
        FacetColumn::Kind => kind,
        FacetColumn::Model => model,
        FacetColumn::Prompt => prompt,
        // Traces are the outer table: there are fewer of them than scores.
        FacetColumn::Score => format!(
            "SELECT s.name AS value FROM n CROSS JOIN scores s \
              WHERE s.project_id = {project} AND s.trace_id = n.trace_id AND s.observation_id IS NULL \
              GROUP BY s.trace_id, s.name"
        ),
    }
}

impl Telemetry {
    /// The values of the newest matching traces; at most `max` traces are read. Conditions that no column
    /// decides are ignored.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_facets(
        &self,
        project: &ProjectId,
        filter: &Filter,
        max: u32,
    ) -> Result<Facets, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Facets::default());
        };
        let is_postgres = self.pool.is_postgres();
        let query = TraceQuery { filter: filter.clone(), ..TraceQuery::default() };
        let shape = ListShape::new(project, tenant, &query, is_postgres, AccessPath::InTime);
        let mut sql = Sql { text: String::new(), args: shape.args };
        let project = sql.bind_text(project.as_str());
        sql.push(&format!(
            "WITH n AS MATERIALIZED (SELECT t.trace_id, t.environment, t.name, t.user_id, t.release, t.level, t.detail{} \
              ORDER BY {} DESC LIMIT {}), m AS MATERIALIZED ({}) SELECT CAST(-1 AS BIGINT) AS facet, CAST(NULL AS TEXT) AS value, COUNT(*) AS n FROM n",
            shape.from_traces,
            shape.start,
            max,
            listed("steps", is_postgres)
        ));
        for (at, column) in FacetColumn::ALL.into_iter().enumerate() {
            let rows = rows_of(column, &project, is_postgres);
            let _ = write!(
                sql.text,
                " UNION ALL SELECT * FROM (SELECT CAST({at} AS BIGINT) AS facet, v{at}.value AS value, COUNT(*) AS n \
                   FROM ({rows}) v{at} GROUP BY v{at}.value ORDER BY 3 DESC, 2 LIMIT {}) f{at}",
                VALUES + 1
            );
        }
        let facet_rows: Vec<FacetRow> = self.pool.select(&sql.text, &sql.args).await?;
        let n_traces = facet_rows.iter().find(|row| row.facet < 0);
        let n_traces = n_traces.map_or(0, |row| row.n.unsigned_abs());
        let facets = FacetColumn::ALL.into_iter().enumerate();
        let facets = facets.map(|(at, column)| {
            let own = facet_rows.iter().filter(|row| usize::try_from(row.facet) == Ok(at));
            let mut values: Vec<_> =
                own.map(|row| (row.value.clone(), row.n.unsigned_abs())).collect();
            let has_more = VALUES < values.len();
            values.truncate(VALUES);
            Facet { column, values, has_more }
        });
        Ok(Facets { n_traces, is_cut: n_traces == u64::from(max), facets: facets.collect() })
    }

    /// Number of matching traces: counted up to `max`, or to the end without it. If a part of the filter is
    /// tested in memory, only the newest `max_tested` traces are tested.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn count_traces(
        &self,
        project: &ProjectId,
        filter: &Filter,
        (max, max_tested): (Option<u64>, u64),
    ) -> Result<BoundedCount, Error> {
        let query = TraceQuery { filter: filter.clone(), limit: 1, ..TraceQuery::default() };
        let nothing = BoundedCount::default();
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(nothing);
        };
        let shape =
            ListShape::new(project, tenant, &query, self.pool.is_postgres(), AccessPath::Any);
        if !shape.is_decided_by_columns() {
            let tested = self.search_traces(project, &query, max_tested).await?;
            return Ok(tested.total.unwrap_or_default());
        }
        self.counted(&shape.rows(), max).await
    }
}
