//! The filter of the list of scores: conditions that the score query supports, and others that are tested per score.

use std::str::FromStr;

use perpend_domain::filter::{Condition, Filter, Order, Test, TextOp};
use perpend_domain::telemetry::{MemberTest, ScoreQuery};
use perpend_domain::time::Timestamp;
use perpend_views::Text;

/// Values in the list of a condition.
const MAX_LIST: usize = 100;

/// Adds a filter to a query. A condition that is too long adds a notice and is ignored.
pub(crate) fn narrow(query: &mut ScoreQuery, filter: Filter, notices: &mut Vec<Text>) {
    for condition in filter.conditions {
        let n = match &condition.test {
            Test::AnyOf(values) | Test::NoneOf(values) => values.len(),
            _ => 0,
        };
        if MAX_LIST < n {
            let column = condition.column.map_or("", |column| column.id);
            let fault =
                format!("`{column}` must have at most {MAX_LIST} values, got {n}; ignored.");
            notices.push(Text::from(fault));
        } else if !take(query, &condition) {
            query.filter.conditions.push(condition);
        }
    }
}

/// Sets a field of the query; false if there is no field for the condition or it is already set.
fn take(query: &mut ScoreQuery, condition: &Condition) -> bool {
    let column = condition.column.map_or("", |column| column.id);
    let member = |key: &String, test| Some((key.clone(), test));
    let of_metadata = match &condition.test {
        Test::MemberText(key, op, text) => member(key, MemberTest::Text(*op, text.clone())),
        Test::MemberIsSet(key) => member(key, MemberTest::IsSet),
        Test::MemberIsNotSet(key) => member(key, MemberTest::IsNotSet),
        _ => None,
    };
    if let Some(of_metadata) = of_metadata {
        query.metadata.push(of_metadata);
        return true;
    }
    match (column, &condition.test) {
        ("value", Test::Number(order, number)) => {
            query.number.push((*order, *number));
            true
        }
        (_, Test::Time(order, at)) => take_time(query, *order, *at),
        (_, Test::AnyOf(values)) => take_values(query, column, values),
        (_, Test::Text(TextOp::Equal, value)) => {
            take_values(query, column, std::slice::from_ref(value))
        }
        _ => false,
    }
}

fn take_time(query: &mut ScoreQuery, order: Order, at: Timestamp) -> bool {
    let behind = Timestamp::from_micros(at.as_micros().saturating_add(1));
    let (from, to) = match order {
        Order::AtLeast => (Some(at), None),
        Order::Greater => (Some(behind), None),
        Order::Less => (None, Some(at)),
        Order::AtMost => (None, Some(behind)),
        Order::Equal => (Some(at), Some(behind)),
        Order::NotEqual => return false,
    };
    query.from = query.from.max(from);
    query.to = match (query.to, to) {
        (Some(own), Some(to)) => Some(own.min(to)),
        (own, to) => own.or(to),
    };
    true
}

fn take_values(query: &mut ScoreQuery, column: &str, values: &[String]) -> bool {
    match column {
        "id" => fill(&mut query.ids, values),
        "name" => fill(&mut query.names, values),
        "source" => fill(&mut query.sources, values),
        "dataType" => fill(&mut query.data_types, values),
        "environment" => fill(&mut query.environments, values),
        "traceId" => fill(&mut query.trace_ids, values),
        "observationId" => fill(&mut query.observation_ids, values),
        "sessionId" => fill(&mut query.session_ids, values),
        "configId" => fill(&mut query.config_ids, values),
        "queueId" => fill(&mut query.queue_ids, values),
        "authorUserId" => fill(&mut query.author_user_ids, values),
        "executionId" => fill(&mut query.execution_ids, values),
        "fingerprint" => match values {
            [value] if query.fingerprint.is_none() => {
                query.fingerprint = value.parse().ok();
                query.fingerprint.is_some()
            }
            _ => false,
        },
        _ => false,
    }
}

/// Sets an empty list if all values are valid. An empty value means that the field is absent, which a list cannot express.
fn fill<T: FromStr>(list: &mut Vec<T>, values: &[String]) -> bool {
    let texts = values.iter().filter(|value| !value.is_empty());
    let read: Vec<T> = texts.filter_map(|value| value.parse().ok()).collect();
    let is_whole = !read.is_empty() && read.len() == values.len();
    if is_whole && list.is_empty() {
        *list = read;
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_domain::filter::SCORES;
    use perpend_domain::query::parse;
    use perpend_domain::score::ScoreSource;

    fn narrowed(q: &str) -> (ScoreQuery, usize) {
        let parsed = parse(q, SCORES);
        assert_eq!(parsed.faults().next(), None, "{q}");
        let (mut query, mut notices) = (ScoreQuery::default(), Vec::new());
        narrow(&mut query, parsed.filter, &mut notices);
        (query, notices.len())
    }

    #[test]
    fn supported_conditions_become_fields_and_others_are_tested_per_score() {
        let (query, _) = narrowed(
            "name:a,b source:EVAL value:>0.5 value:<=1 traceId:t metadata.k:v executionId:e tone",
        );
        assert_eq!(query.names, ["a", "b"]);
        assert_eq!(query.sources, [ScoreSource::Eval]);
        assert_eq!(query.number, [(Order::Greater, 0.5), (Order::AtMost, 1.0)]);
        assert_eq!((query.trace_ids.len(), query.execution_ids.len()), (1, 1));
        assert_eq!(query.metadata.len(), 1);
        assert_eq!(query.filter.conditions.len(), 1, "the word");
        let (query, _) = narrowed("name:a name:b,c -name:d name:~e comment:set traceId:\"\"");
        assert_eq!(query.names, ["a"]);
        assert_eq!(query.filter.conditions.len(), 5);
        assert!(query.trace_ids.is_empty());
    }

    #[test]
    fn times_are_intersected_and_a_fingerprint_must_be_complete() {
        let at = |seconds: i64| Timestamp::from_millis(1_767_225_600_000 + 1_000 * seconds);
        let (query, _) = narrowed(
            "timestamp:>=2026-01-01T00:00:01Z timestamp:>2026-01-01 timestamp:<2026-01-01T00:00:09Z \
             timestamp:<=2026-01-01T00:00:05Z",
        );
        let end = Timestamp::from_micros(at(5).as_micros() + 1);
        assert_eq!((query.from, query.to), (Some(at(1)), Some(end)));
        let print = "ab".repeat(32);
        let (query, _) = narrowed(&format!("fingerprint:{print}"));
        assert!(query.fingerprint.is_some() && query.filter.conditions.is_empty());
        let (query, _) = narrowed("fingerprint:^abab");
        assert!(query.fingerprint.is_none() && query.filter.conditions.len() == 1);
    }

    #[test]
    fn a_list_that_is_too_long_is_ignored_with_a_notice() {
        let many: Vec<String> = (0..=MAX_LIST).map(|n| n.to_string()).collect();
        let (query, n_notices) = narrowed(&format!("-name:{} source:API", many.join(",")));
        assert_eq!((query.filter.conditions.len(), n_notices), (0, 1));
        assert_eq!(query.sources.len(), 1);
    }
}
