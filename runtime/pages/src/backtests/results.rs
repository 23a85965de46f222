//! Results of backtests in words and tables.

use perpend_domain::backtest::{
    BacktestCounts, BacktestScore, BacktestSegment, CallTotals, IntervalEstimate, PairedValue,
    SegmentKind,
};
use perpend_executions::Flip;
use perpend_views::{
    BacktestScoreView, BacktestSegmentLine, FlipLine, Text, count, dollars, duration, encode,
    plural, segment,
};

use super::flips::choice;

/// A share in percent with its interval.
fn share(estimate: &IntervalEstimate) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    match estimate.lower.zip(estimate.upper) {
        Some((lower, upper)) => {
            format!("{} % ({} to {})", percent(estimate.value), percent(lower), percent(upper))
        }
        None => format!("{} %", percent(estimate.value)),
    }
}

/// A signed number with its interval.
fn difference(estimate: &IntervalEstimate) -> String {
    match estimate.lower.zip(estimate.upper) {
        Some((lower, upper)) => format!("{:+.4} ({lower:+.4} to {upper:+.4})", estimate.value),
        None => format!("{:+.4}", estimate.value),
    }
}

const fn kind_text(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Model => "Model",
        SegmentKind::Environment => "Environment",
        SegmentKind::PromptVersion => "Prompt version",
    }
}

fn segment_line(each: BacktestSegment) -> BacktestSegmentLine {
    BacktestSegmentLine {
        by: kind_text(each.by),
        value: Text::from(each.value.unwrap_or_else(|| "none".to_owned())),
        pairs: count(each.pair_count),
        flips: count(each.flip_count),
        agreement: share(&each.agreement),
    }
}

pub(super) fn score_view(score: BacktestScore) -> BacktestScoreView {
    let figures = [
        ("Compared pairs", Some(count(score.pair_count))),
        ("Flips", Some(count(score.flip_count))),
        ("Agreement, interval of 95 %", Some(share(&score.agreement))),
        ("Cohen's kappa", score.kappa.map(|kappa| format!("{kappa:.3}"))),
        ("Mean difference, interval of 95 %", score.mean_difference.as_ref().map(difference)),
        ("Mean absolute difference", score.mean_absolute_difference.map(|n| format!("{n:.4}"))),
        ("Pearson's correlation", score.pearson.map(|r| format!("{r:.3}"))),
        ("Spearman's correlation", score.spearman.map(|rho| format!("{rho:.3}"))),
    ];
    let figures = figures.into_iter().filter_map(|(label, figure)| Some((label, figure?)));
    let labels: Vec<Text> = score.labels.into_iter().map(Text::from).collect();
    let rows = score.confusion.into_iter().map(|row| row.into_iter().map(count).collect());
    let n_equal = score.pair_count - score.flip_count.min(score.pair_count);
    BacktestScoreView {
        name: Text::from(score.name),
        sentence: format!(
            "The tested version gives the same value as the live score on {} of {}.",
            count(n_equal),
            plural(score.pair_count, "target")
        ),
        figures: figures.collect(),
        matrix: labels.iter().cloned().zip(rows).collect(),
        labels,
        segments: score.segments.into_iter().map(segment_line).collect(),
    }
}

/// Cost and time of model calls, live and tested; empty without calls.
pub(super) fn calls(counts: &BacktestCounts) -> Vec<(&'static str, String, String)> {
    let (before, after) = (counts.before, counts.after);
    if before.n_calls + after.n_calls == 0 && before.cost_usd + after.cost_usd <= 0.0 {
        return Vec::new();
    }
    let none = || "–".to_owned();
    let for_each = |totals: CallTotals| match counts.n_completed {
        0 => none(),
        n => dollars(totals.cost_usd / n as f64),
    };
    let mean_time = |totals: CallTotals| match totals.n_calls {
        0 => none(),
        n => duration((totals.latency_ms as f64 * 1e3 / n as f64) as i64),
    };
    vec![
        ("Calls without cached replies", count(before.n_calls), count(after.n_calls)),
        ("Cost for each target", for_each(before), for_each(after)),
        ("Mean time of a call", mean_time(before), mean_time(after)),
        ("Calls without a price", count(before.n_unpriced), count(after.n_unpriced)),
    ]
}

pub(super) fn flip_line(base: &str, flip: Flip) -> FlipLine {
    let pair = flip.pair;
    let scored = pair.observation.as_ref().or(pair.target.observation());
    let (href, target) = match (pair.target.trace(), pair.target.session()) {
        (Some(trace), _) => {
            let href = format!("{base}/traces/{}", segment(trace.as_str()));
            match scored {
                Some(id) => (format!("{href}?observation={}", encode(id.as_str())), id.to_string()),
                None => (href, trace.to_string()),
            }
        }
        (None, session) => {
            let id = session.map(ToString::to_string).unwrap_or_default();
            (format!("{base}/sessions/{}", segment(&id)), id)
        }
    };
    let comment = |side: &PairedValue| side.comment.clone().map(Text::from);
    FlipLine {
        choice: choice(&pair.target),
        href,
        target: Text::from(target),
        name: Text::from(pair.name.as_str()),
        live: Text::from(pair.live.label()),
        live_comment: comment(&pair.live),
        tested: Text::from(pair.tested.label()),
        tested_comment: comment(&pair.tested),
    }
}
