//! Values of metrics by run and item.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use perpend_domain::experiment::{ItemResult, ItemScore};
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_domain::score_config::ScoreDirection;
use perpend_stats::reducers::{self, Reducer};

use crate::comparison::{DirectionSource, MetricKind};
use crate::grid::{Grid, GridRun};
use crate::names::{COST_USD, ERRORS, LATENCY_MS, TOKENS, metric, metric_of_score};
use crate::options::{CompareOptions, ScoreDefinition};

/// The largest usable number: sums of squares stay finite.
const LARGEST: f64 = 1e100;

/// A metric with its values.
pub(crate) struct Metric {
    /// The name, which no other metric has.
    pub(crate) name: String,
    /// The name of the score, or of the measure.
    pub(crate) subject: String,
    pub(crate) kind: MetricKind,
    pub(crate) data_type: Option<ScoreDataType>,
    pub(crate) direction: Option<(ScoreDirection, DirectionSource)>,
    /// The reason why its values cannot be compared.
    pub(crate) obstacle: Option<String>,
    /// Whether it is a score or a share with values within 0 and 1.
    pub(crate) is_unit: bool,
    /// By run of the grid.
    pub(crate) columns: Vec<Column>,
}

impl Metric {
    /// Whether an item with a result should have a value: the latency of failed results is left out.
    pub(crate) fn is_expected(&self, run: &GridRun<'_>, item: usize) -> bool {
        let mut results = run.by_item[item].iter();
        self.kind != MetricKind::Latency || results.any(|result| !result.is_error)
    }

    /// 1 if higher is better, -1 if lower is better; absent if unknown.
    pub(crate) fn sign(&self) -> Option<f64> {
        self.direction.map(|(direction, _)| match direction {
            ScoreDirection::HigherIsBetter => 1.0,
            ScoreDirection::LowerIsBetter => -1.0,
        })
    }
}

/// The values of a metric in one run.
#[derive(Clone, Default)]
pub(crate) struct Column {
    /// By item, in the order of the results.
    pub(crate) repetitions: Vec<Vec<f64>>,
    /// By item, repetitions reduced.
    pub(crate) values: Vec<Option<f64>>,
    /// By item, the mean probability with which its results were selected for the score.
    pub(crate) probabilities: Vec<f64>,
    /// By item, the category of the first result.
    pub(crate) labels: Vec<Option<String>>,
    /// Number of results with several scores of the name.
    pub(crate) n_several: u64,
    types: BTreeSet<ScoreDataType>,
    unmapped: Option<String>,
}

impl Column {
    fn new(n_items: usize) -> Self {
        Self {
            repetitions: vec![Vec::new(); n_items],
            labels: vec![None; n_items],
            probabilities: vec![1.0; n_items],
            ..Self::default()
        }
    }

    /// Reduces the repetitions. The first value that is not usable is returned with its item.
    fn reduce(&mut self, reducer: Reducer) -> Option<(usize, f64)> {
        let mut unusable = None;
        let reduced = self.repetitions.iter().enumerate().map(|(number, values)| {
            let is_unusable = |value: &&f64| !value.is_finite() || LARGEST < value.abs();
            if let Some(value) = values.iter().find(is_unusable) {
                unusable = unusable.or(Some((number, *value)));
                return None;
            }
            reducers::reduce(values, reducer).ok().flatten()
        });
        self.values = reduced.collect();
        unusable
    }
}

/// All metrics that the options select and a compared run has: scores by name, then the measures.
pub(crate) fn metrics(grid: &Grid<'_>, options: &CompareOptions) -> Vec<Metric> {
    let selected: BTreeSet<Cow<'_, str>> =
        options.metrics.iter().map(|name| metric(name)).collect();
    let is_selected = |name: &str| selected.is_empty() || selected.contains(name);
    let mut metrics = scores(grid, options, is_selected);
    for measure in &MEASURES {
        let columns: Vec<Column> =
            grid.runs.iter().map(|run| measured(run, grid.items.len(), measure)).collect();
        let compared = &columns[..grid.n_compared];
        let mut values = compared.iter().flat_map(|column| &column.repetitions);
        if is_selected(measure.name) && values.any(|values| !values.is_empty()) {
            let direction = (ScoreDirection::LowerIsBetter, DirectionSource::Metric);
            let mut metric = Metric {
                name: measure.name.to_owned(),
                subject: measure.name.to_owned(),
                kind: measure.kind,
                data_type: None,
                direction: Some(direction),
                obstacle: None,
                is_unit: false,
                columns,
            };
            reduce(&mut metric, grid, Reducer::Mean);
            metrics.push(metric);
        }
    }
    metrics
}

/// A metric that each result has by itself. Its repetitions are always averaged.
struct Measure {
    kind: MetricKind,
    name: &'static str,
    value: fn(&ItemResult) -> Option<f64>,
}

/// The latency of a result that did not fail: an early failure is not fast, and a timeout is not slow.
pub(crate) fn completed_latency(result: &ItemResult) -> Option<f64> {
    result.latency_ms.filter(|_| !result.is_error)
}

const MEASURES: [Measure; 4] = [
    Measure {
        kind: MetricKind::Errors,
        name: ERRORS,
        value: |result| {
            let is_known = result.has_arrived || result.is_error;
            is_known.then(|| f64::from(u8::from(result.is_error)))
        },
    },
    Measure { kind: MetricKind::Latency, name: LATENCY_MS, value: completed_latency },
    Measure { kind: MetricKind::Cost, name: COST_USD, value: |result| result.cost_usd },
    Measure {
        kind: MetricKind::Tokens,
        name: TOKENS,
        value: |result| result.n_tokens.map(|tokens| tokens as f64),
    },
];

fn measured(run: &GridRun<'_>, n_items: usize, measure: &Measure) -> Column {
    let mut column = Column::new(n_items);
    for (values, results) in column.repetitions.iter_mut().zip(&run.by_item) {
        values.extend(results.iter().filter_map(|result| (measure.value)(result)));
    }
    column
}

fn scores(
    grid: &Grid<'_>,
    options: &CompareOptions,
    is_selected: impl Fn(&str) -> bool,
) -> Vec<Metric> {
    let results = grid.compared().iter().flat_map(|run| run.by_item.iter().flatten());
    let names = results.flat_map(|result| &result.scores).filter(|score| !is_correction(score));
    let names: BTreeSet<&str> = names
        .map(|score| score.name.as_str())
        .filter(|name| is_selected(&metric_of_score(name)))
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let unknown = ScoreDefinition::default();
    let definitions: Vec<&ScoreDefinition> =
        names.iter().map(|name| options.scores.get(*name).unwrap_or(&unknown)).collect();
    let mut by_metric: Vec<Vec<Column>> = vec![Vec::new(); names.len()];
    for run in &grid.runs {
        let columns = scored(run, grid.items.len(), &names, &definitions);
        for (metric, column) in by_metric.iter_mut().zip(columns) {
            metric.push(column);
        }
    }
    let named = names.iter().zip(definitions).zip(by_metric);
    let metrics = named.map(|((name, definition), columns)| {
        // Further runs of the baseline measure noise only.
        let compared = &columns[..grid.n_compared];
        let types: BTreeSet<ScoreDataType> =
            compared.iter().flat_map(|column| &column.types).copied().collect();
        let mut metric = Metric {
            name: metric_of_score(name).into_owned(),
            subject: (*name).to_owned(),
            kind: MetricKind::Score,
            data_type: types.first().copied().filter(|_| types.len() == 1),
            direction: definition.direction,
            obstacle: None,
            is_unit: false,
            columns,
        };
        metric.obstacle = obstacle(&metric, grid);
        reduce(&mut metric, grid, options.reducer);
        metric
    });
    metrics.collect()
}

fn is_correction(score: &ItemScore) -> bool {
    score.value.data_type() == ScoreDataType::Correction
}

/// The values of all scores of a run, by name.
fn scored(
    run: &GridRun<'_>,
    n_items: usize,
    names: &[&str],
    definitions: &[&ScoreDefinition],
) -> Vec<Column> {
    let numbers: HashMap<&str, usize> = names.iter().copied().zip(0..).collect();
    let mut columns = vec![Column::new(n_items); names.len()];
    for (item, results) in run.by_item.iter().enumerate() {
        let mut sampled = vec![Mean::default(); names.len()];
        for result in results {
            // The values of each score of this result, and their probabilities.
            let mut sums: BTreeMap<usize, (Mean, Mean)> = BTreeMap::new();
            for score in &result.scores {
                let Some(at) = numbers.get(score.name.as_str()).filter(|_| !is_correction(score))
                else {
                    continue;
                };
                let column = &mut columns[*at];
                column.types.insert(score.value.data_type());
                if let ScoreValue::Categorical(label) = &score.value {
                    column.labels[item].get_or_insert_with(|| label.clone());
                }
                match number(&score.value, definitions[*at]) {
                    Ok(value) => {
                        let (values, probabilities) = sums.entry(*at).or_default();
                        values.add(value);
                        probabilities.add(probability(score));
                    }
                    Err(label) => column.unmapped = column.unmapped.take().or(label),
                }
            }
            for (at, (values, probabilities)) in sums {
                columns[at].repetitions[item].push(values.value());
                columns[at].n_several += u64::from(1 < values.n);
                sampled[at].add(probabilities.value());
            }
        }
        for (column, mean) in columns.iter_mut().zip(sampled) {
            if 0 < mean.n {
                column.probabilities[item] = mean.value();
            }
        }
    }
    columns
}

/// A mean that is being computed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mean {
    sum: f64,
    pub(crate) n: u32,
}

impl Mean {
    pub(crate) fn add(&mut self, value: f64) {
        self.sum += value;
        self.n += 1;
    }

    pub(crate) fn value(self) -> f64 {
        self.sum / f64::from(self.n)
    }
}

/// The probability with which the target of a score was selected; 1 for scores of clients and people.
pub(crate) fn probability(score: &ItemScore) -> f64 {
    let probability = score.origin.as_ref().map_or(1.0, |origin| origin.inclusion_probability);
    // Scores without a probability are stored with 0.
    if 0.0 < probability && probability <= 1.0 { probability } else { 1.0 }
}

/// The number of a value, or the category without one.
fn number(value: &ScoreValue, definition: &ScoreDefinition) -> Result<f64, Option<String>> {
    match value {
        ScoreValue::Numeric(value) => Ok(*value),
        ScoreValue::Boolean(value) => Ok(f64::from(u8::from(*value))),
        ScoreValue::Categorical(label) => {
            definition.categories.get(label).copied().ok_or_else(|| Some(label.clone()))
        }
        ScoreValue::Text(_) | ScoreValue::Correction(_) => Err(None),
    }
}

/// The reason why values of a score cannot be compared.
fn obstacle(metric: &Metric, grid: &Grid<'_>) -> Option<String> {
    let name = &metric.subject;
    let Some(data_type) = metric.data_type else {
        let runs = grid.compared().iter().zip(&metric.columns);
        let types = runs.filter(|(_, column)| !column.types.is_empty()).map(|(run, column)| {
            let types: Vec<&str> = column.types.iter().map(|each| each.as_str()).collect();
            format!("{} in run `{}`", types.join(" and "), run.id())
        });
        let types: Vec<String> = types.collect();
        return Some(format!("score `{name}` has values of several types: {}", types.join(", ")));
    };
    match data_type {
        ScoreDataType::Numeric | ScoreDataType::Boolean => None,
        ScoreDataType::Categorical => {
            let mut compared = metric.columns[..grid.n_compared].iter();
            let label = compared.find_map(|column| column.unmapped.as_deref())?;
            Some(format!(
                "category `{label}` of score `{name}` has no number: list it in the score config of `{name}`"
            ))
        }
        ScoreDataType::Text | ScoreDataType::Correction => {
            Some(format!("score `{name}` has texts, which have no order"))
        }
    }
}

/// Reduces repetitions and reads the range of the values.
fn reduce(metric: &mut Metric, grid: &Grid<'_>, reducer: Reducer) {
    let types: BTreeSet<ScoreDataType> = metric.data_type.into_iter().collect();
    for (number, (column, run)) in metric.columns.iter_mut().zip(&grid.runs).enumerate() {
        let unusable = column.reduce(reducer);
        if grid.n_compared <= number {
            // A further run of the baseline with other values measures no noise.
            if unusable.is_some() || column.types != types || column.unmapped.is_some() {
                column.values.fill(None);
            }
        } else if let Some((item, value)) = unusable
            && metric.obstacle.is_none()
        {
            metric.obstacle = Some(format!(
                "`{}` of item `{}` in run `{}` must be a finite number within ±1e100, got {value}",
                metric.subject,
                grid.items[item],
                run.id()
            ));
        }
    }
    let compared = metric.columns[..grid.n_compared].iter();
    let mut values = compared.flat_map(|column| column.values.iter().flatten());
    metric.is_unit = matches!(metric.kind, MetricKind::Score | MetricKind::Errors)
        && values.all(|value| (0.0..=1.0).contains(value));
}
