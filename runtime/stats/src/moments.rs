//! Mean and spread of values that were checked before.

/// The mean; 0 of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        // Rounding must not move the mean of equal values away from them.
        [first, ..] if is_constant(values) => *first,
        _ => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// Whether no value differs from another.
pub(crate) fn is_constant(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// The sum of the squared distances to the mean; exactly 0 for equal values.
pub(crate) fn squared_deviations(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// The variance with `n - 1`, which needs two values.
pub(crate) fn variance(values: &[f64]) -> Option<f64> {
    let n_free = values.len().checked_sub(1).filter(|free| 0 < *free)?;
    Some(squared_deviations(values) / n_free as f64)
}

/// The quantile `p` of sorted values, linear between neighbours (type 7). There is at least one value.
pub(crate) fn quantile(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let place = last as f64 * p;
    let below = (place as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// The values in ascending order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The rank of each value from 1; equal values share the mean of their ranks. Also the sum of `t³ - t`
/// over each group of `t` equal values, by which tests correct for ties.
pub(crate) fn ranks(values: &[f64]) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|left, right| values[*left].total_cmp(&values[*right]));
    let mut ranks = vec![0.0; values.len()];
    let mut ties = 0.0;
    let mut n_ranked = 0;
    for group in order.chunk_by(|left, right| values[*left] == values[*right]) {
        let size = group.len() as f64;
        for at in group {
            ranks[*at] = n_ranked as f64 + (size + 1.0) / 2.0;
        }
        ties += size.powi(3) - size;
        n_ranked += group.len();
    }
    (ranks, ties)
}
