//! Queries of lists of scores as SQL.

use std::fmt::Write as _;
use std::mem::take;

use perpend_domain::telemetry::{MemberTest, ScoreQuery, ScoreValues};

use perpend_domain::filter::{Condition, Test, TextOp};
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, ScoreId, TraceId};
use perpend_domain::score::ScoreDataType;

use perpend_db::{Arg, Expr, Pool, Sql};
use perpend_domain::text::storable;

/// Whether the query has a key with its own index and few scores.
pub(super) fn leaves_few(query: &ScoreQuery) -> bool {
    !query.ids.is_empty()
        || !query.trace_ids.is_empty()
        || !query.session_ids.is_empty()
        || !query.experiment_ids.is_empty()
}

/// The members of the metadata as rows `m (key, text)`.
const MEMBERS_SQLITE: &str = "
    (SELECT j.key AS key,
            CASE j.type WHEN 'text' THEN j.value ELSE s.metadata -> j.fullkey END AS text
       FROM json_each(s.metadata) j) m";
const MEMBERS_POSTGRES: &str = "
    (SELECT j.key AS key,
            CASE json_typeof(j.value) WHEN 'string' THEN j.value #>> '{}' ELSE j.value::text END AS text
       FROM json_each(s.metadata::json) j) m";

/// The trace of a score; a condition on `t` and two brackets follow.
const OF_TRACE: &str = "
    AND EXISTS (SELECT 1 FROM tenants p JOIN traces t ON t.tenant = p.number
                 WHERE p.project_id = s.project_id AND t.trace_id = s.trace_id AND ";
const TAGS_SQLITE: &str = "(SELECT g.value FROM json_each(t.detail, '$.tags') g)";
const TAGS_POSTGRES: &str =
    "(SELECT g.value FROM json_array_elements_text(t.detail::json -> 'tags') g)";

/// A column of `SCORES`, with the scores as `s`.
fn column(id: &str, is_postgres: bool) -> Option<Expr> {
    Some(match id {
        "id" => Expr::Text("s.id"),
        "name" | "text" => Expr::Text("s.name"),
        "source" => Expr::Text("s.source"),
        "dataType" => Expr::Text("s.data_type"),
        "environment" => Expr::Text("s.environment"),
        "timestamp" => Expr::Time("s.timestamp"),
        "value" => Expr::Number("s.number"),
        "stringValue" => Expr::NullableText("s.text"),
        "comment" => Expr::NullableText("s.comment"),
        "traceId" => Expr::NullableText("s.trace_id"),
        "observationId" => Expr::NullableText("s.observation_id"),
        "sessionId" => Expr::NullableText("s.session_id"),
        "configId" => Expr::NullableText("s.config_id"),
        "queueId" => Expr::NullableText("s.queue_id"),
        "authorUserId" => Expr::NullableText("s.author_user_id"),
        "executionId" => Expr::NullableText("s.execution_id"),
        "fingerprint" => Expr::NullableText(match is_postgres {
            false => "lower(hex(s.fingerprint))",
            true => "encode(s.fingerprint, 'hex')",
        }),
        "metadata" => Expr::Present,
        _ => return None,
    })
}

/// Text of a statement with the values of its placeholders.
#[derive(Debug)]
pub(super) struct ScoreStatement {
    pub(super) sql: String,
    pub(super) args: Vec<Arg<'static>>,
    /// Whether its rows are needed newest first.
    is_ordered: bool,
}

impl ScoreStatement {
    /// `SELECT` of the scores of a project.
    pub(super) fn select(what: &str, project: &ProjectId) -> Self {
        Self::select_from("scores s", what, project)
    }

    /// The same from a table with these columns, under the alias `s`.
    pub(super) fn select_from(table: &str, what: &str, project: &ProjectId) -> Self {
        Self {
            sql: format!("SELECT {what} FROM {table} WHERE s.project_id = $1"),
            args: vec![project.as_str().to_owned().into()],
            is_ordered: false,
        }
    }

    fn put(&mut self, arg: Arg<'static>) {
        self.args.push(arg);
        // Writing to a `String` cannot fail.
        let _ = write!(self.sql, "${}", self.args.len());
    }

    /// The same for a list that is read newest first.
    pub(super) fn select_newest(what: &str, project: &ProjectId) -> Self {
        Self { is_ordered: true, ..Self::select(what, project) }
    }

    /// Appends trusted SQL.
    pub(super) fn push(&mut self, sql: &str) {
        self.sql.push_str(sql);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.put(text.to_owned().into());
    }

    pub(super) fn integer(&mut self, integer: i64) {
        self.put(integer.into());
    }

    fn number(&mut self, number: f64) {
        self.put(number.into());
    }

    fn in_list<T>(&mut self, column: &str, list: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.push(" AND s.");
        self.push(column);
        self.push(" IN (");
        for (at, value) in list.iter().enumerate() {
            if at > 0 {
                self.push(", ");
            }
            put(self, value);
        }
        self.push(")");
    }

    pub(super) fn texts<'v>(&mut self, column: &str, list: impl ExactSizeIterator<Item = &'v str>) {
        if list.len() > 0 {
            let list: Vec<&str> = list.collect();
            self.in_list(column, &list, |sql, value| sql.text(value));
        }
    }

    /// Appends the conditions of `query`.
    pub(super) fn filter(&mut self, pool: &Pool, query: &ScoreQuery) {
        self.texts("id", query.ids.iter().map(ScoreId::as_str));
        // The index of names has the scores of one name in order; those of several names would have to be
        // sorted.
        let is_hidden = self.is_ordered && query.names.len() > 1 && !pool.is_postgres();
        let name = if is_hidden { "name || ''" } else { "name" };
        self.texts(name, query.names.iter().map(String::as_str));
        self.texts("source", query.sources.iter().map(|s| s.as_str()));
        self.texts("data_type", query.data_types.iter().map(|t| t.as_str()));
        self.texts("environment", query.environments.iter().map(String::as_str));
        let others = &query.other_than_environments;
        self.texts("environment NOT", others.iter().map(String::as_str));
        self.texts("config_id", query.config_ids.iter().map(String::as_str));
        self.texts("queue_id", query.queue_ids.iter().map(String::as_str));
        self.texts("author_user_id", query.author_user_ids.iter().map(String::as_str));
        self.texts("trace_id", query.trace_ids.iter().map(TraceId::as_str));
        self.texts("observation_id", query.observation_ids.iter().map(ObservationId::as_str));
        self.texts("session_id", query.session_ids.iter().map(String::as_str));
        self.texts("experiment_id", query.experiment_ids.iter().map(String::as_str));
        self.texts("execution_id", query.execution_ids.iter().map(ExecutionId::as_str));
        if let Some(fingerprint) = &query.fingerprint {
            self.push(" AND s.fingerprint = ");
            let bytes = fingerprint.as_bytes().to_vec();
            self.put(Arg::Blob(Some(bytes.into())));
        }
        if query.is_in_trace {
            self.push(" AND s.trace_id IS NOT NULL");
        }
        self.values(&query.values);
        for (comparison, number) in &query.number {
            self.push(" AND s.number ");
            self.push(comparison.sign());
            self.push(" ");
            self.number(*number);
        }
        for (key, test) in &query.metadata {
            self.member(pool, key, test);
        }
        if !query.trace_user_ids.is_empty() {
            self.push(OF_TRACE);
            self.push("t.user_id IN (");
            for (at, user) in query.trace_user_ids.iter().enumerate() {
                self.push(if at > 0 { ", " } else { "" });
                self.text(user);
            }
            self.push("))");
        }
        for tag in &query.trace_tags {
            self.push(OF_TRACE);
            self.text(tag);
            self.push(" IN ");
            self.push(match pool.is_postgres() {
                false => TAGS_SQLITE,
                true => TAGS_POSTGRES,
            });
            self.push(")");
        }
        for condition in &query.filter.conditions {
            self.condition(pool, condition);
        }
        if let Some(from) = query.from {
            self.push(" AND s.timestamp >= ");
            self.integer(from.as_micros());
        }
        if let Some(to) = query.to {
            self.push(" AND s.timestamp < ");
            self.integer(to.as_micros());
        }
    }

    /// Callers keep lists within the limits of a statement.
    fn condition(&mut self, pool: &Pool, condition: &Condition) {
        if let Test::Text(TextOp::MatchesAnyCase, text) = &condition.test {
            self.push(" AND ");
            self.compare("s.name", TextOp::MatchesAnyCase, text);
            return;
        }
        let mut sql = Sql { text: take(&mut self.sql), args: take(&mut self.args) };
        let is_postgres = pool.is_postgres();
        if !sql.condition(condition, |id| column(id, is_postgres), is_postgres) {
            sql.push(" AND 1 = 0");
        }
        (self.sql, self.args) = (sql.text, sql.args);
    }

    fn values(&mut self, values: &ScoreValues) {
        let data_type = match values {
            ScoreValues::Any => return,
            ScoreValues::Numeric(numbers) => {
                self.in_list("number", numbers, |sql, n| sql.number(*n));
                ScoreDataType::Numeric
            }
            ScoreValues::Boolean(truths) => {
                self.in_list("number", truths, |sql, t| {
                    sql.number(f64::from(u8::from(*t)));
                });
                ScoreDataType::Boolean
            }
            ScoreValues::Categorical(texts) => {
                self.in_list("text", texts, |sql, text| sql.text(text));
                ScoreDataType::Categorical
            }
        };
        self.texts("data_type", std::iter::once(data_type.as_str()));
    }

    /// A key with dots may denote a nested member; `false` if it is nested too deeply.
    fn deep_member(&mut self, pool: &Pool, key: &str, test: &MemberTest) -> bool {
        let key = storable(key).into_owned();
        let test = match test {
            MemberTest::IsSet => Test::MemberIsSet(key),
            MemberTest::IsNotSet => Test::MemberIsNotSet(key),
            MemberTest::Text(op, value) => Test::MemberText(key, *op, storable(value).into_owned()),
        };
        // Numbering of placeholders continues after those of this statement.
        let n = self.args.len();
        let mut sql = Sql { text: String::new(), args: vec![Arg::Text(None); n] };
        let is_known = sql.member("s.metadata", &test, pool.is_postgres());
        if is_known {
            self.push(&sql.text);
            self.args.extend(sql.args.drain(n..));
        }
        is_known
    }

    fn member(&mut self, pool: &Pool, key: &str, test: &MemberTest) {
        if key.contains('.') && self.deep_member(pool, key, test) {
            return;
        }
        self.push(match test {
            MemberTest::IsNotSet => " AND NOT EXISTS (SELECT 1 FROM ",
            MemberTest::IsSet | MemberTest::Text(..) => " AND EXISTS (SELECT 1 FROM ",
        });
        self.push(match pool.is_postgres() {
            false => MEMBERS_SQLITE,
            true => MEMBERS_POSTGRES,
        });
        self.push(" WHERE m.key = ");
        self.text(key);
        if let MemberTest::Text(op, value) = test {
            self.push(" AND ");
            self.compare("m.text", *op, value);
        }
        self.push(")");
    }

    /// Without `LIKE`, whose wildcards and case differ between the databases.
    fn compare(&mut self, column: &str, op: TextOp, value: &str) {
        // Each piece is followed by the value; the last one closes the expression.
        let pieces: &[&str] = match op {
            TextOp::Equal => &["{} = ", ""],
            TextOp::Contains => &["(", " = '' OR replace({}, ", ", '') <> {})"],
            TextOp::DoesNotContain => &["(", " <> '' AND replace({}, ", ", '') = {})"],
            TextOp::StartsWith => &["substr({}, 1, length(", ")) = ", ""],
            TextOp::EndsWith => &[
                "(length({}) >= length(",
                ") AND substr({}, length({}) - length(",
                ") + 1) = ",
                ")",
            ],
            TextOp::MatchesAnyCase => {
                &["(", " = '' OR replace(lower({}), lower(", "), '') <> lower({}))"]
            }
        };
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                self.text(value);
            }
            self.push(&piece.replace("{}", column));
        }
    }
}
