//! Metrics of a comparison as rows of the verdict table.

use perpend_domain::score::ScoreDataType;
use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::comparison::{
    Comparison, Difference, InconclusiveCause, Method, MetricComparison, MetricKind, NoiseFloor,
    NoiseSource, RunMetric, SegmentComparison, Verdict,
};
use perpend_views::{
    MetricVerdicts, SegmentVerdicts, Text, Tone, Unit, VerdictInput, VerdictRow, plural,
};

use crate::experiments::report::estimate;

/// The unit of a metric.
pub(super) fn unit(metric: &MetricComparison) -> Unit {
    match (metric.kind, metric.data_type) {
        (MetricKind::Score, Some(ScoreDataType::Boolean)) | (MetricKind::Errors, _) => Unit::Share,
        (MetricKind::Score, _) => Unit::Number,
        (MetricKind::Latency, _) => Unit::Milliseconds,
        (MetricKind::Cost, _) => Unit::Dollars,
        (MetricKind::Tokens, _) => Unit::Count,
    }
}

/// The name of a metric for readers.
pub(super) fn label(metric: &MetricComparison) -> &str {
    match metric.kind {
        MetricKind::Score => &metric.name,
        MetricKind::Errors => "Errors",
        MetricKind::Latency => "Latency",
        MetricKind::Cost => "Cost",
        MetricKind::Tokens => "Tokens",
    }
}

/// The metrics with a value in any run.
pub(super) fn metrics(comparison: &Comparison) -> Vec<MetricVerdicts> {
    let rows = comparison.metrics.iter().filter(|metric| has_values(metric));
    rows.map(|metric| verdicts(metric, comparison)).collect()
}

/// The metrics of the groups of items.
pub(super) fn segments(comparison: &Comparison) -> Vec<SegmentVerdicts> {
    let segments = comparison.segments.iter().map(|segment: &SegmentComparison| SegmentVerdicts {
        value: segment.value.as_deref().map(Text::from),
        n_items: segment.n_items,
        metrics: segment
            .metrics
            .iter()
            .filter(|metric| has_values(metric))
            .map(|metric| verdicts(metric, comparison))
            .collect(),
    });
    segments.collect()
}

fn has_values(metric: &MetricComparison) -> bool {
    metric.runs.iter().any(|run| 0 < run.summary.n)
}

fn verdicts(metric: &MetricComparison, comparison: &Comparison) -> MetricVerdicts {
    let unit = unit(metric);
    let base = metric.runs.iter().find(|run| run.run == comparison.base);
    let ends = metric.runs.iter().filter_map(|run| run.difference.as_ref()?.interval);
    let reach = ends.map(|ends| ends.lower.abs().max(ends.upper.abs())).fold(0.0, f64::max);
    let rows = metric.runs.iter().filter_map(|run| {
        let difference = run.difference.as_ref()?;
        let found = comparison.runs.iter().find(|compared| compared.id == run.run);
        let name = found.map_or(run.run.as_str(), |compared| compared.name.as_str());
        Some(row(name, (run, difference), (unit, reach)))
    });
    MetricVerdicts {
        name: Text::from(label(metric)),
        direction: match metric.direction {
            Some(ScoreDirection::HigherIsBetter) => "higher is better",
            Some(ScoreDirection::LowerIsBetter) => "lower is better",
            None => "",
        },
        noise: metric.noise.as_ref().map(|noise| noise_text(noise, unit)),
        base: base.and_then(|base| estimate(&base.summary, unit)),
        rows: rows.collect(),
    }
}

fn row(
    name: &str,
    (run, difference): (&RunMetric, &Difference),
    (unit, reach): (Unit, f64),
) -> VerdictRow {
    let estimate = estimate(&run.summary, unit);
    VerdictRow::new(VerdictInput {
        run: Text::from(name),
        estimate,
        unit,
        difference: difference.mean,
        interval: difference.interval.map(|ends| [ends.lower, ends.upper]),
        reach,
        verdict: difference.verdict.as_str(),
        tone: match difference.verdict {
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            Verdict::Inconclusive => Tone::Waiting,
            Verdict::Equivalent | Verdict::NotComparable => Tone::Plain,
        },
        adjusted_p: difference.p_adjusted,
        method: Text::from(difference.method.map_or("", Method::as_str)),
        tally: (0 < difference.n).then_some([difference.wins, difference.ties, difference.losses]),
        effect_size: difference.effect_size,
        notes: notes(difference, unit),
    })
}

/// The reason of a verdict, and for `inconclusive` the smallest detectable difference.
fn notes(difference: &Difference, unit: Unit) -> Vec<Text> {
    // The numbers below are the reason if there are too few items.
    let reason = difference.reason.as_ref().filter(|_| {
        difference.cause != Some(InconclusiveCause::FewItems)
            || difference.smallest_effect.is_none()
    });
    let mut notes: Vec<String> = reason.into_iter().cloned().collect();
    // Noise does not decrease with the number of items.
    if difference.verdict == Verdict::Inconclusive
        && difference.cause != Some(InconclusiveCause::Noise)
    {
        if let Some(effect) = difference.smallest_effect {
            let effect = unit.amount(effect);
            notes.push(format!("Smallest detectable difference: {effect}."));
        }
        if let Some(n) = difference.n_items_needed {
            notes.push(format!("Needed for a verdict: about {}.", plural(n, "item")));
        }
    }
    notes.into_iter().map(Text::from).collect()
}

fn noise_text(noise: &NoiseFloor, unit: Unit) -> Text {
    let source = match noise.source {
        NoiseSource::Repetitions => "repetitions",
        NoiseSource::SecondRun => "two runs of the baseline",
    };
    let share = perpend_views::percent(noise.flip_share);
    Text::from(format!(
        "noise: {share} of {} differ between {source}; differences up to {} are neither better nor worse",
        plural(noise.n, "item"),
        unit.amount(noise.floor)
    ))
}
