//! `GET P/scores/analytics?a=&b=`: the distribution of a score, or the agreement of two scores on the same subjects.

use std::collections::BTreeMap;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::filter::{
    Condition, Filter, Order, SCORE_NAMES, SCORES, SetOp, TRACES, Test, find,
};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ObservationId, TraceId};
use perpend_domain::query::print;
use perpend_domain::score::{ScoreDataType, ScoreSource, Subject};
use perpend_domain::score_analytics::ScoreSelection;
use perpend_domain::time::Timestamp;
use perpend_experiments::comparison::MetricSummary;
use perpend_experiments::score_analysis::{
    BinValues, ComparedScore, CorrectedShare, MissingScores, PairCell, ScoreCell, ScoreComparison,
    ScoreDistribution, ScoreGroup, ScoreGroups, ScorePair, ScoreStatistic, ScoreVersion,
};
use perpend_http_kit::problem::{Code, Problem};
use perpend_storage::ScoreAnalyticsQuery;
use perpend_views::{
    ApiRequest, CategoryLine, ComparedScoreLine, Estimate, Focus, FocusView, Moment, PairCellView,
    PairLine, PairRow, Parameter, RunChart, RunPoint, ScoreAnalyticsPage, ScoreBinLine,
    ScoreComparisonView, ScoreDistributionView, ScoreGroupLine, ScoreGroupTable,
    ScoreSelectionForm, Section, Text, Unit, clock, count, number, percent, plural, with_query,
};

use crate::read;
use crate::request::query::reject_repeated;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Offered names of scores.
pub(super) const MAX_NAMES: u32 = 500;
/// Shown evaluator versions.
const MAX_VERSIONS: usize = 30;
/// Sources with their labels.
pub(super) const SOURCES: [(&str, &str); 4] =
    [("", "all"), ("EVAL", "evaluators"), ("ANNOTATION", "people"), ("API", "API")];

/// The parameters of the page.
struct AnalyticsParams {
    base: String,
    values: BTreeMap<String, String>,
    focus: Focus,
    unknown: Vec<Parameter>,
    notices: Vec<Text>,
}

impl AnalyticsParams {
    fn new(viewer: &Viewer, raw: Option<&str>) -> Result<Self, Problem> {
        reject_repeated(raw)?;
        let values = form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned();
        Ok(Self {
            base: viewer.base(),
            values: values.collect(),
            focus: viewer.focus.clone(),
            unknown: viewer.unknown_parameters(),
            notices: viewer.faults.clone(),
        })
    }

    fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", |value| value.trim())
    }

    /// The name of a score, which may begin or end with spaces.
    fn score_name(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    fn path(&self) -> String {
        format!("{}/scores/analytics", self.base)
    }

    /// The selection of a parameter and its source; `None` without a name.
    fn selection(&mut self, name: &str, source_name: &str) -> Option<ScoreSelection> {
        let raw = self.text(source_name).to_owned();
        let source: Option<ScoreSource> = raw.parse().ok();
        if !raw.is_empty() && source.is_none() {
            let fault =
                format!("`{source_name}` must be one of `API`, `ANNOTATION`, `EVAL`; got `{raw}`.");
            self.notices.push(Text::from(fault));
        }
        let name = self.score_name(name).to_owned();
        (!name.trim().is_empty()).then_some(ScoreSelection { name, source })
    }

    /// Parameters that no form of the page has: whether internal environments are left out, and unknown ones.
    fn kept(&self) -> Vec<Parameter> {
        let mut kept = Vec::new();
        if self.text("own") == "0" {
            kept.push(("own".into(), "0".to_owned()));
        }
        kept.extend(self.unknown.iter().cloned());
        kept
    }

    fn fields_of(a: &ScoreSelection, b: Option<&ScoreSelection>) -> Vec<Parameter> {
        let mut fields: Vec<Parameter> = Vec::new();
        let both = [("a", "a-source", Some(a)), ("b", "b-source", b)];
        for (name, source_name, selection) in both {
            if let Some(selection) = selection {
                fields.push((name.into(), selection.name.clone()));
                let source = selection.source.map(|source| source.as_str().to_owned());
                fields.extend(source.map(|source| (source_name.into(), source)));
            }
        }
        fields
    }

    /// URL of the page for these scores and this focus.
    fn href(&self, a: &ScoreSelection, b: Option<&ScoreSelection>, focus: &Focus) -> String {
        let all = [Self::fields_of(a, b), focus.parameters(), self.kept()].concat();
        with_query(&self.path(), &all)
    }

    /// URL of the list of the scores of a selection that meet the conditions.
    fn list_href(&self, a: &ScoreSelection, conditions: Vec<Condition>, focus: &Focus) -> String {
        let mut all = conditions;
        if let Some(source) = a.source {
            all.push(one_of("source", source.as_str()));
        }
        let mut pairs = vec![("name".into(), a.name.clone())];
        let q = print(&Filter { conditions: all });
        if !q.is_empty() {
            pairs.push(("q".into(), q));
        }
        let all = [pairs, focus.parameters(), self.kept()].concat();
        with_query(&format!("{}/scores", self.base), &all)
    }
}

fn one_of(column: &str, value: &str) -> Condition {
    Condition { column: find(SCORES, column), test: Test::AnyOf(vec![value.to_owned()]) }
}

fn in_order(order: Order, number: f64) -> Condition {
    Condition { column: find(SCORES, "value"), test: Test::Number(order, number) }
}

/// `tone`, or `tone (people)`.
fn shown_name(selection: &ScoreSelection) -> Text {
    let source = selection.source.map(ScoreSource::as_str);
    let label = SOURCES.iter().find(|(value, _)| Some(*value) == source);
    Text::from(match label {
        Some((_, label)) => format!("{} ({label})", selection.name),
        None => selection.name.clone(),
    })
}

/// `GET P/scores/analytics`
pub(crate) async fn analytics_page(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let mut params = AnalyticsParams::new(&viewer, raw.as_deref())?;
    let a = params.selection("a", "a-source");
    let mut b = params.selection("b", "b-source");
    if a.is_none() && b.is_some() {
        params.notices.push(Text::from("`a` is required if `b` is set."));
    } else if a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a.overlaps(b)) {
        b = None;
        let fault = "The second score must differ from the first one in name, or both must have different sources.";
        params.notices.push(Text::from(fault));
    }
    let names = app.store.telemetry.score_name_list(&viewer.project, MAX_NAMES).await?;
    let mut view = ScoreAnalyticsPage {
        shell: viewer.shell(Section::Scores),
        focus: focus_view(&params, a.as_ref(), b.as_ref()),
        notices: Vec::new(),
        form: form(&params, &names),
        distribution: None,
        comparison: None,
    };
    if let Some(a) = a {
        let query = query(&app, &viewer, &params, (a, b));
        view.shell = view.shell.with_api([api(&viewer, &query)]);
        let found = app.store.analyze_scores(&viewer.project, &query).await;
        match found.map_err(Problem::from) {
            Ok(found) => {
                if let Some(distribution) = found.distribution {
                    let distribution = (&query, distribution);
                    let distribution = distribution_view(&app, &viewer, &params, distribution);
                    view.distribution = Some(distribution.await?);
                }
                view.comparison =
                    found.comparison.map(|found| comparison_view(&params, &query, &found));
            }
            Err(problem) if problem.code() == Code::Conflict => {
                let fault = format!("No statistics: {}.", problem.message());
                params.notices.push(Text::from(fault));
            }
            Err(problem) => return Err(problem),
        }
    }
    view.notices = params.notices;
    page(StatusCode::OK, &view)
}

fn focus_view(
    params: &AnalyticsParams,
    a: Option<&ScoreSelection>,
    b: Option<&ScoreSelection>,
) -> FocusView {
    let own = a.map_or_else(Vec::new, |a| AnalyticsParams::fields_of(a, b));
    let fields = [own, params.kept()].concat();
    FocusView::new(&params.focus, (params.path(), fields), ("All time", true)).in_all_environments()
}

fn form(params: &AnalyticsParams, names: &[String]) -> ScoreSelectionForm {
    let sources = |name: &str| {
        let own = params.text(name).to_uppercase();
        SOURCES.iter().map(|(value, label)| (*value, *label, *value == own)).collect()
    };
    ScoreSelectionForm {
        action: params.path(),
        hidden_fields: [params.focus.parameters(), params.kept()].concat(),
        names: names.iter().map(|name| Text::from(name.as_str())).collect(),
        a: Text::from(params.score_name("a")),
        b: Text::from(params.score_name("b")),
        a_sources: sources("a-source"),
        b_sources: sources("b-source"),
    }
}

fn query(
    app: &App,
    viewer: &Viewer,
    params: &AnalyticsParams,
    (a, b): (ScoreSelection, Option<ScoreSelection>),
) -> ScoreAnalyticsQuery {
    let (from, to) = viewer.focus.range(read::start_of_minute(app.web.clock.now()));
    let cell = params.values.get("row").zip(params.values.get("column"));
    let cell = cell.map(|(row, column)| PairCell { row: row.clone(), column: column.clone() });
    ScoreAnalyticsQuery {
        cell: cell.filter(|_| b.is_some()),
        a,
        b,
        environments: viewer.focus.environments.clone(),
        other_than_environments: match params.text("own") {
            "0" => read::INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec(),
            _ => Vec::new(),
        },
        from,
        to,
    }
}

fn api(viewer: &Viewer, query: &ScoreAnalyticsQuery) -> ApiRequest {
    let mut request = ApiRequest::new(&viewer.origin, "/api/v1/score-analytics");
    let both = [("a", "aSource", Some(&query.a)), ("b", "bSource", query.b.as_ref())];
    for (name, source_name, selection) in both {
        if let Some(selection) = selection {
            request = request.with(name, &selection.name);
            if let Some(source) = selection.source {
                request = request.with(source_name, source.as_str());
            }
        }
    }
    if !query.environments.is_empty() {
        request = request.with("environment", query.environments.join(","));
    }
    for (name, at) in [("fromTimestamp", query.from), ("toTimestamp", query.to)] {
        if let Some(at) = at {
            request = request.with(name, at.to_iso_micros());
        }
    }
    if let Some(cell) = &query.cell {
        request = request.with("row", &cell.row).with("column", &cell.column);
    }
    match query.other_than_environments.is_empty() {
        true => request,
        false => request.with_note("The response also counts evaluations and experiments."),
    }
}

/// The means of a score are shares unless it is numeric.
fn unit(data_type: Option<ScoreDataType>) -> Unit {
    match data_type {
        Some(ScoreDataType::Boolean | ScoreDataType::Categorical) => Unit::Share,
        _ => Unit::Number,
    }
}

fn estimate(summary: &MetricSummary, unit: Unit) -> Option<Estimate> {
    let interval = summary.interval.map(|ends| [ends.lower, ends.upper]);
    summary.mean.map(|mean| Estimate { mean, interval, n: summary.n, unit })
}

/// `good`, `3`, `0.2 to 0.3`.
fn bin_label(values: &BinValues) -> String {
    match (values.from, values.to) {
        (Some(from), Some(to)) if from == to => number(from),
        (Some(from), Some(to)) => format!("{} to {}", number(from), number(to)),
        _ => values.label.clone().unwrap_or_default(),
    }
}

/// The conditions of exactly the scores of a bin.
fn bin_conditions(values: &BinValues, data_type: ScoreDataType) -> Vec<Condition> {
    let mut conditions = vec![one_of("dataType", data_type.as_str())];
    match (values.from, values.to, &values.label) {
        (Some(from), Some(to), _) if from == to => conditions.push(in_order(Order::Equal, from)),
        (Some(from), Some(to), _) => {
            let end = if values.includes_end { Order::AtMost } else { Order::Less };
            conditions.extend([in_order(Order::AtLeast, from), in_order(end, to)]);
        }
        (_, _, Some(label)) if data_type == ScoreDataType::Boolean => {
            let truth = f64::from(u8::from(label == "true"));
            conditions.push(in_order(Order::Equal, truth));
        }
        (_, _, Some(label)) => conditions.push(one_of("stringValue", label)),
        _ => {}
    }
    conditions
}

async fn distribution_view(
    app: &App,
    viewer: &Viewer,
    params: &AnalyticsParams,
    (query, found): (&ScoreAnalyticsQuery, ScoreDistribution),
) -> Result<ScoreDistributionView, Problem> {
    let unit = unit(found.data_type);
    let data_type = found.data_type.unwrap_or(ScoreDataType::Numeric);
    let most = found.bins.iter().map(|bin| bin.count).max().unwrap_or_default();
    let bins = found.bins.iter().map(|bin| {
        let conditions = bin_conditions(&bin.values, data_type);
        let href = params.list_href(&query.a, conditions, &params.focus);
        ScoreBinLine::new(&bin_label(&bin.values), (bin.count, bin.share), most, href)
    });
    let measure = match (&found.category, data_type) {
        (Some(category), _) => format!("share of {category}"),
        (None, ScoreDataType::Boolean) => "share of true".to_owned(),
        _ => "mean".to_owned(),
    };
    let versions = version_names(app, viewer, &found.versions).await?;
    let mut groups = Vec::new();
    if found.versions.iter().any(|version| version.evaluator_version_id.is_some()) {
        groups.push(version_table(&found.versions, &versions, unit));
    }
    let in_environment = |group: &ScoreGroup| {
        let environments = vec![group.value.clone()?];
        let focus = Focus { environments, ..params.focus.clone() };
        Some(params.href(&query.a, None, &focus))
    };
    groups.extend(group_table(
        ("By environment", "Environment"),
        &found.environments,
        unit,
        &in_environment,
    ));
    let no_link = |_: &ScoreGroup| None;
    groups.extend(group_table(("By model", "Model"), &found.models, unit, &no_link));
    groups.extend(group_table(("By prompt version", "Prompt"), &found.prompts, unit, &no_link));
    groups.extend(group_table(("By release", "Release"), &found.releases, unit, &no_link));
    let others = (0 < found.n_other_types).then(|| {
        let n = count(found.n_other_types);
        format!("{n} scores of this name have another type than {data_type} and are left out.")
    });
    Ok(ScoreDistributionView {
        name: shown_name(&query.a),
        measure: Text::from(measure),
        estimate: estimate(&found.summary, unit),
        n: found.n,
        others,
        missing: found.missing.as_ref().map(missing),
        corrected: found.corrected.as_ref().map(corrected),
        is_weighted: found.is_weighted,
        list_href: params.list_href(
            &query.a,
            vec![one_of("dataType", data_type.as_str())],
            &params.focus,
        ),
        links: links(params, &query.a),
        bins: bins.collect(),
        n_more_categories: found.n_more_categories,
        over_time: over_time(params, query, &found, &versions),
        groups,
    })
}

/// `12 of 40 traces (30 %) that started in this selection have no score of this name.`
fn missing(found: &MissingScores) -> String {
    format!(
        "{} of {} ({}) that started in this selection have no score of this name.",
        count(found.n_missing),
        plural(found.n_traces, "trace"),
        percent(found.share)
    )
}

/// The corrected share in words, or why it is undefined.
fn corrected(found: &CorrectedShare) -> Text {
    let interval = found.interval.map(|ends| [ends.lower, ends.upper]);
    let estimate =
        found.value.map(|mean| Estimate { mean, interval, n: found.n_pairs, unit: Unit::Share });
    let rates = found.sensitivity.zip(found.specificity);
    Text::from(match (estimate, rates) {
        (Some(estimate), Some((sensitivity, specificity))) => format!(
            "Corrected for the errors of the evaluator: {}. On {} it agrees with {} of the true and {} of the false scores by people.",
            estimate.text(),
            plural(found.n_pairs, "subject"),
            percent(sensitivity),
            percent(specificity)
        ),
        _ => format!(
            "The share is not corrected for the errors of the evaluator: {}.",
            found.undefined.as_deref().unwrap_or("it is undefined")
        ),
    })
}

/// The same name by people and by evaluators, and the traces without it.
fn links(params: &AnalyticsParams, a: &ScoreSelection) -> Vec<(&'static str, String)> {
    let by = |source| ScoreSelection { name: a.name.clone(), source: Some(source) };
    let (people, evaluators) = (by(ScoreSource::Annotation), by(ScoreSource::Eval));
    let compared = params.href(&people, Some(&evaluators), &params.focus);
    let without = Test::List(SetOp::NoneOf, vec![a.name.clone()]);
    let without = Condition { column: find(TRACES, SCORE_NAMES), test: without };
    let q = print(&Filter { conditions: vec![without] });
    let pairs = [vec![("q".into(), q)], params.focus.parameters(), params.unknown.clone()];
    let unscored = with_query(&format!("{}/traces", params.base), &pairs.concat());
    let source = a.source.map(|source| ("source".into(), source.as_str().to_owned()));
    let named = [("name".into(), a.name.clone())].into_iter().chain(source).collect();
    let pairs: [Vec<Parameter>; 2] = [named, params.focus.parameters()];
    let thresholds = with_query(&format!("{}/scores/thresholds", params.base), &pairs.concat());
    vec![
        ("Compare people and evaluators", compared),
        ("Traces without a score of this name", unscored),
        ("Other thresholds", thresholds),
    ]
}

/// The chart over time, with a line at each change of the version.
fn over_time(
    params: &AnalyticsParams,
    query: &ScoreAnalyticsQuery,
    found: &ScoreDistribution,
    versions: &[Text],
) -> Option<RunChart> {
    if found.over_time.len() < 2 {
        return None;
    }
    let unit = unit(found.data_type);
    let data_type = found.data_type?;
    let points = found.over_time.iter().map(|period| {
        let from = query.from.map_or(period.from, |from| from.max(period.from));
        let to = query.to.map_or(period.to, |to| to.min(period.to));
        let environments = params.focus.environments.clone();
        let focus = Focus { from: Some(Moment::At(from)), to: Some(Moment::At(to)), environments };
        let conditions = vec![one_of("dataType", data_type.as_str())];
        RunPoint {
            name: Text::from(clock(period.from)),
            href: params.list_href(&query.a, conditions, &focus),
            estimate: estimate(&period.summary, unit),
        }
    });
    let chart = RunChart::new(&query.a.name, &points.collect::<Vec<_>>());
    // The first version is not a change.
    let changes = found.versions.iter().zip(versions).skip(1);
    let changes = changes.filter_map(|(version, name)| {
        let holds = |at: Timestamp| {
            found.over_time.iter().position(|period| period.from <= at && at < period.to)
        };
        Some((holds(version.first_at)?, name.clone()))
    });
    Some(chart.over_time(changes.collect()))
}

/// The names of versions, in their order.
async fn version_names(
    app: &App,
    viewer: &Viewer,
    versions: &[ScoreVersion],
) -> Result<Vec<Text>, Problem> {
    let mut names = Vec::new();
    for version in versions.iter().take(MAX_VERSIONS) {
        let ids = version.evaluator_id.as_deref().zip(version.evaluator_version_id.as_deref());
        names.push(match ids {
            Some((evaluator, version)) => version_name(app, viewer, evaluator, version).await?,
            None => Text::from("people and API"),
        });
    }
    Ok(names)
}

/// `tone version 3`; a deleted evaluator is named by the id of the version.
async fn version_name(
    app: &App,
    viewer: &Viewer,
    evaluator: &str,
    version: &str,
) -> Result<Text, Problem> {
    let (catalog, project) = (&app.store.catalog, &viewer.project);
    let ids = EvaluatorId::new(evaluator).ok().zip(EvaluatorVersionId::new(version).ok());
    if let Some((evaluator_id, version_id)) = ids {
        let found = catalog.evaluator(project, &evaluator_id).await?;
        let number = catalog.evaluator_version(project, &version_id).await?;
        if let (Some(evaluator), Some((_, version))) = (found, number) {
            return Ok(Text::from(format!("{} version {}", evaluator.name, version.number)));
        }
    }
    Ok(Text::from(format!("version {version} (deleted)")))
}

fn version_table(versions: &[ScoreVersion], names: &[Text], unit: Unit) -> ScoreGroupTable {
    let lines = versions.iter().zip(names).map(|(version, name)| ScoreGroupLine {
        name: name.clone(),
        href: None,
        estimate: estimate(&version.summary, unit),
        n: version.summary.n,
        since: Some(clock(version.first_at)),
    });
    ScoreGroupTable {
        title: "By evaluator version",
        property: "Version",
        lines: lines.collect(),
        n_more: versions.len().saturating_sub(names.len()) as u64,
    }
}

/// A table of the groups; `None` if no score has the property.
fn group_table(
    (title, property): (&'static str, &'static str),
    groups: &ScoreGroups,
    unit: Unit,
    href: &dyn Fn(&ScoreGroup) -> Option<String>,
) -> Option<ScoreGroupTable> {
    if groups.groups.iter().all(|group| group.value.is_none()) {
        return None;
    }
    let lines = groups.groups.iter().map(|group| {
        let name = match (&group.value, group.version) {
            (Some(value), Some(version)) => format!("{value} version {version}"),
            (Some(value), None) => value.clone(),
            (None, _) => "none".to_owned(),
        };
        ScoreGroupLine {
            name: Text::from(name),
            href: href(group),
            estimate: estimate(&group.summary, unit),
            n: group.summary.n,
            since: None,
        }
    });
    Some(ScoreGroupTable { title, property, lines: lines.collect(), n_more: groups.n_more })
}

fn comparison_view(
    params: &AnalyticsParams,
    query: &ScoreAnalyticsQuery,
    found: &ScoreComparison,
) -> ScoreComparisonView {
    let b = query.b.as_ref().unwrap_or(&query.a);
    let side = |selection: &ScoreSelection, found: &ComparedScore| ComparedScoreLine {
        name: shown_name(selection),
        href: params.href(selection, None, &params.focus),
        n_scores: found.n_scores,
        n_subjects: found.n_subjects,
        n_unpaired: found.n_unpaired,
        n_other_types: found.n_other_types,
    };
    let whole = params.href(&query.a, Some(b), &params.focus);
    let cell_href = |row: &BinValues, column: &BinValues| {
        let cell = [("row", row.key.clone()), ("column", column.key.clone())];
        let cell = with_query("", &cell);
        format!("{whole}&{}#cell", cell.trim_start_matches('?'))
    };
    let rows = found.rows.iter().zip(&found.counts).map(|(row, counts)| {
        let cells = found.columns.iter().zip(counts);
        let cells = cells.map(|(column, n)| (*n, cell_href(row, column)));
        PairRow { label: Text::from(bin_label(row)), cells: cells.collect() }
    });
    let categories = found.agreement.iter().flat_map(|agreement| &agreement.categories);
    let categories = categories.map(|category| CategoryLine {
        label: Text::from(category.label.as_str()),
        counts: [category.n_a, category.n_b],
        precision: category.precision,
        recall: category.recall,
    });
    ScoreComparisonView {
        sides: [side(&query.a, &found.a), side(b, &found.b)],
        sentence: Text::from(found.sentence.as_str()),
        n_pairs: found.n_pairs,
        n_sampled: found.n_sampled,
        statistics: statistics(found),
        columns: found.columns.iter().map(|column| Text::from(bin_label(column))).collect(),
        rows: rows.collect(),
        categories: categories.collect(),
        cell: found.cell.as_ref().map(|cell| cell_view(params, found, (cell, whole.clone()))),
    }
}

/// Names, values with intervals, and reasons of undefined values.
fn statistics(found: &ScoreComparison) -> Vec<(&'static str, String, Option<Text>)> {
    let line = |name, statistic: &ScoreStatistic, unit: Unit| {
        let estimate = statistic.value.map(|mean| Estimate {
            mean,
            interval: statistic.lower.zip(statistic.upper).map(|(lower, upper)| [lower, upper]),
            n: found.n_pairs,
            unit,
        });
        let text = estimate.map(|estimate| estimate.text()).unwrap_or_default();
        (name, text, statistic.undefined.as_deref().map(Text::from))
    };
    let mut lines = Vec::new();
    if let Some(agreement) = &found.agreement {
        lines.push(line("Agreement", &agreement.agreement, Unit::Share));
        lines.push(line("Cohen's kappa", &agreement.kappa, Unit::Number));
        lines.push(line("Gwet's AC1", &agreement.gwet_ac1, Unit::Number));
    }
    if let Some(correlation) = &found.correlation {
        lines.push(line("Pearson's r", &correlation.pearson, Unit::Number));
        lines.push(line("Spearman's rho", &correlation.spearman, Unit::Number));
        lines.push(line("Mean difference", &correlation.bias, Unit::Number));
        lines.push(("Mean absolute difference", number(correlation.mae), None));
        if let Some(limits) = correlation.limits_of_agreement {
            let text = format!("{} to {}", number(limits.lower), number(limits.upper));
            lines.push(("Limits of agreement", text, None));
        }
    }
    lines
}

fn cell_view(
    params: &AnalyticsParams,
    found: &ScoreComparison,
    (cell, close_href): (&ScoreCell, String),
) -> PairCellView {
    let label = |all: &[BinValues], key: &str| {
        let values = all.iter().find(|values| values.key == key);
        Text::from(values.map_or_else(|| key.to_owned(), bin_label))
    };
    let pairs = cell.pairs.iter().filter_map(|pair| {
        let subject = subject_of(pair)?;
        Some(PairLine::new(&subject, [pair.a.as_str(), pair.b.as_str()], &params.base))
    });
    PairCellView {
        row: label(&found.rows, &cell.row),
        column: label(&found.columns, &cell.column),
        n: cell.n,
        pairs: pairs.collect(),
        close_href,
    }
}

fn subject_of(pair: &ScorePair) -> Option<Subject> {
    let trace = pair.trace_id.as_deref().and_then(|id| TraceId::new(id).ok());
    let observation = pair.observation_id.as_deref().and_then(|id| ObservationId::new(id).ok());
    match (trace, observation) {
        (Some(trace), None) => Some(Subject::Trace(trace)),
        (Some(trace), Some(observation)) => Some(Subject::Observation(trace, observation)),
        (None, _) => {
            let session = pair.session_id.clone().map(Subject::Session);
            session.or_else(|| pair.experiment_id.clone().map(Subject::Experiment))
        }
    }
}
