//! `GET P/traces`: the traces that fit the filter.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::TraceMark;
use perpend_domain::filter::{Condition, Filter, TRACES};
use perpend_domain::trace_list::TraceQuery;
use perpend_query::Parsed;
use perpend_telemetry::{Bounds, TestedTraces, TracesFrom};
use perpend_ui::{ListPage, Pager, Section, TermChip, Text, TracesPage, Ways};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::asked::Asked;
use crate::conditions::Conditions;
use crate::state::App;
use crate::viewer::Viewer;
use crate::{facets, lines, peek, read, setup};

/// Terms of which it is said how many traces they alone leave.
const MAX_ALONE: usize = 10;
/// Counted as far as the first; of traces that no index can tell so many are looked through.
const ALONE: (Option<u64>, u64) = (Some(MAX_COUNTED), 2_000);
/// Traces that are counted where there is a filter.
const MAX_COUNTED: u64 = 10_000;

pub(super) async fn show(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let Asked {
        query,
        page: which,
        from,
        peek,
        has_facets,
        counts_all,
        notices,
    } = Asked::new(raw.as_deref());
    let Conditions { parsed, hides_own } = Conditions::new(&query.q);
    let mut view = TracesPage {
        shell: viewer.shell(Section::Traces),
        terms: terms(&query.q, &parsed),
        columns: TRACES.iter().map(|column| column.id).collect(),
        origin: setup::origin(&app, &headers),
        page: which,
        query,
        notices,
        ..TracesPage::default()
    };
    if hides_own {
        let all = format!("{} environment:set", view.query.q);
        let all = view.query.with(all.trim());
        view.with_own = Some(all.first(view.shell.base()));
    }
    view.json = json(&parsed);
    let bounds = Bounds {
        max_tested: read::MAX_TESTED,
        max_counted: (!counts_all && !view.terms.is_empty()).then_some(MAX_COUNTED),
    };
    let filter = parsed.filter.clone();
    fill(&app, &viewer, (filter, bounds), from, &mut view).await?;
    if view.lines.is_empty() && view.pager.is_first() {
        let hidden = parsed.filter.conditions.last().filter(|_| hides_own);
        count_alone(&app, &viewer, (&parsed, hidden), &mut view).await?;
    }
    let is_bare = view.lines.is_empty() && view.terms.is_empty();
    if is_bare
        && read::newest(&app, &viewer.project, Filter::default(), 1)
            .await?
            .is_empty()
    {
        view.setup = Some(setup::of(&app, &viewer.project, &headers).await?);
    }
    if has_facets {
        view.facets = Some(facets::of(&app, &viewer, &view.query).await?);
    }
    if let Some(id) = peek {
        let close = view.query.address(view.shell.base(), &view.page);
        view.peek = Some(peek::of(&app, &viewer, &id, close).await?);
    }
    page(StatusCode::OK, &view)
}

fn terms(q: &str, parsed: &Parsed) -> Vec<TermChip> {
    let chip = |term: &perpend_query::Term| {
        let fault = term.outcome.as_ref().err();
        let before = q.get(..term.at.start).unwrap_or_default();
        let behind = q.get(term.at.end..).unwrap_or_default();
        TermChip {
            text: Text::from(term.text.as_str()),
            problem: fault.map(|fault| Text::from(fault.message.as_str())),
            without: format!("{} {}", before.trim_end(), behind.trim_start())
                .trim()
                .to_owned(),
            alone: None,
        }
    };
    parsed.terms.iter().map(chip).collect()
}

/// Says of each of the first terms how many traces it alone leaves. `hidden`: what nobody asked for and holds all the same.
async fn count_alone(
    app: &App,
    viewer: &Viewer,
    (parsed, hidden): (&Parsed, Option<&Condition>),
    view: &mut TracesPage,
) -> Result<(), Problem> {
    let telemetry = &app.store.telemetry;
    for (chip, term) in view.terms.iter_mut().zip(&parsed.terms).take(MAX_ALONE) {
        let Ok(conditions) = &term.outcome else {
            continue;
        };
        let conditions = conditions.iter().chain(hidden).cloned();
        let filter = Filter {
            conditions: conditions.collect(),
        };
        let counted = telemetry.count_traces(&viewer.project, &filter, ALONE);
        chip.alone = Some(counted.await?);
    }
    Ok(())
}

fn json(parsed: &Parsed) -> String {
    let conditions = parsed.filter.conditions.iter();
    let conditions: Vec<String> = conditions
        .filter_map(Condition::to_json)
        .map(|condition| condition.to_string())
        .collect();
    match conditions.is_empty() {
        true => String::new(),
        false => format!("[{}]", conditions.join(",")),
    }
}

async fn fill(
    app: &App,
    viewer: &Viewer,
    (filter, bounds): (Filter, Bounds),
    from: Option<TracesFrom>,
    view: &mut TracesPage,
) -> Result<(), Problem> {
    let number = match view.page {
        ListPage::Number(number) => number,
        _ => 1,
    };
    let asked = TraceQuery {
        filter,
        order: view.query.sort.order.clone(),
        ascending: view.query.sort.ascending,
        page: number,
        limit: view.query.n,
        with_content: true,
        ..TraceQuery::default()
    };
    let telemetry = &app.store.telemetry;
    let tested = telemetry.traces_from(&viewer.project, &asked, from.as_ref(), bounds);
    let TestedTraces {
        traces,
        total,
        n_left,
        places,
    } = tested.await?;
    view.n_left = n_left;
    let n = traces.len() as u64;
    let to = |label, page: ListPage| Some((label, view.query.address(&viewer.base(), &page)));
    let is_counted = total.is_some_and(|total| !total.is_more);
    view.pager = Pager {
        n_before: places.n_before,
        n,
        total,
        exact: (!is_counted && from.is_none() && bounds.max_counted.is_some())
            .then(|| view.query.counted(&viewer.base())),
        ways: Ways {
            first: (places.n_before != Some(0)).then(|| view.query.first(&viewer.base())),
            before: places
                .first
                .and_then(|place| to("Previous", ListPage::Before(place.to_string()))),
            behind: places
                .last
                .as_ref()
                .and_then(|place| to("Next", ListPage::After(place.to_string()))),
            last: (places.last.is_some())
                .then(|| view.query.address(&viewer.base(), &ListPage::Last)),
        },
    };
    let traces: Vec<_> = traces.into_iter().map(|stored| stored.trace).collect();
    view.lines = lines::with(app, &viewer.project, &traces, &view.query.columns).await?;
    view.may_mark = viewer.may(TraceMark);
    for line in &mut view.lines {
        line.is_markable = view.may_mark;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perpend_query::parse;

    #[test]
    fn a_chip_leads_to_the_filter_without_its_term() {
        let q = "level:ERROR latncy:>2 \"a b\"";
        let terms = terms(q, &parse(q, TRACES));
        let without: Vec<_> = terms.iter().map(|chip| chip.without.as_str()).collect();
        let wanted = [
            "latncy:>2 \"a b\"",
            "level:ERROR \"a b\"",
            "level:ERROR latncy:>2",
        ];
        assert_eq!(without, wanted);
        let problem = terms[1].problem.as_ref().unwrap();
        assert!(problem.raw().contains("latency"), "{problem}");
    }
}
