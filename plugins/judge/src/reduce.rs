//! The reduction of votes to one value. Equal votes in equal order always have the same result.

use crate::answer::Value;
use crate::config::Reducer;

/// The value of a panel.
///
/// # Errors
/// When the votes do not agree as far as the reducer requires.
pub(crate) fn reduce(votes: &[Value], reducer: Reducer) -> Result<Value, String> {
    let first = votes.first().ok_or("there are no votes")?;
    if votes.len() == 1 {
        return Ok(first.clone());
    }
    match reducer {
        Reducer::Mean | Reducer::Median => reduce_numbers(votes, reducer),
        Reducer::Mode => {
            let (most, _) = most_frequent(votes);
            Ok(most.clone())
        }
        Reducer::Majority => agreed(votes, |n_votes| n_votes * 2 > votes.len())
            .ok_or_else(|| "no value has a majority of the votes".to_owned()),
        Reducer::All if matches!(first, Value::Boolean(_)) => {
            Ok(Value::Boolean(votes.iter().all(|vote| *vote == Value::Boolean(true))))
        }
        Reducer::All => agreed(votes, |n_votes| n_votes == votes.len())
            .ok_or_else(|| "the votes differ".to_owned()),
    }
}

fn reduce_numbers(votes: &[Value], reducer: Reducer) -> Result<Value, String> {
    let numbers = votes.iter().map(|vote| match vote {
        Value::Number(number) => Ok(*number),
        Value::Boolean(_) | Value::Categories(_) => {
            Err(format!("`{}` requires numbers", reducer.name()))
        }
    });
    let mut numbers = numbers.collect::<Result<Vec<f64>, String>>()?;
    let middle = numbers.len() / 2;
    Ok(Value::Number(match reducer {
        Reducer::Median => {
            numbers.sort_by(f64::total_cmp);
            match numbers.len() % 2 {
                0 => f64::midpoint(numbers[middle - 1], numbers[middle]),
                _ => numbers[middle],
            }
        }
        _ => numbers.iter().sum::<f64>() / numbers.len() as f64,
    }))
}

/// The value with the most votes, among equals the first, and the number of its votes.
fn most_frequent(votes: &[Value]) -> (&Value, usize) {
    let mut most = (&votes[0], 0);
    for vote in votes {
        let n_votes = votes.iter().filter(|other| same(other, vote)).count();
        if n_votes > most.1 {
            most = (vote, n_votes);
        }
    }
    most
}

/// The value with enough votes. For lists of categories: each category in enough of them.
fn agreed(votes: &[Value], is_enough: impl Fn(usize) -> bool) -> Option<Value> {
    let Value::Categories(_) = votes[0] else {
        let (most, n_votes) = most_frequent(votes);
        return is_enough(n_votes).then(|| most.clone());
    };
    let mut named: Vec<String> = Vec::new();
    for category in votes.iter().flat_map(categories) {
        let n_votes = votes.iter().filter(|vote| categories(vote).contains(category)).count();
        if is_enough(n_votes) && !named.contains(category) {
            named.push(category.clone());
        }
    }
    (!named.is_empty()).then_some(Value::Categories(named))
}

fn categories(vote: &Value) -> &[String] {
    match vote {
        Value::Categories(named) => named,
        Value::Number(_) | Value::Boolean(_) => &[],
    }
}

/// Whether two votes are equal, regardless of the order of categories.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Categories(one), Value::Categories(other)) => {
            one.len() == other.len() && one.iter().all(|category| other.contains(category))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Reducer; 5] =
        [Reducer::Mode, Reducer::Mean, Reducer::Median, Reducer::Majority, Reducer::All];

    fn of(reducer: Reducer, numbers: &[f64]) -> Result<Value, String> {
        let votes: Vec<Value> = numbers.iter().copied().map(Value::Number).collect();
        reduce(&votes, reducer)
    }

    fn named(names: &[&str]) -> Value {
        Value::Categories(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn numbers_are_reduced() {
        assert_eq!(of(Reducer::Mean, &[1.0, 0.0, 0.5]), Ok(Value::Number(0.5)));
        assert_eq!(of(Reducer::Median, &[1.0, 0.0, 0.5, 0.5]), Ok(Value::Number(0.5)));
        assert_eq!(of(Reducer::Median, &[9.0, 1.0, 2.0]), Ok(Value::Number(2.0)));
        assert_eq!(of(Reducer::Mode, &[0.0, 1.0, 1.0]), Ok(Value::Number(1.0)));
        assert_eq!(of(Reducer::Majority, &[0.0, 1.0, 1.0]), Ok(Value::Number(1.0)));
        assert!(of(Reducer::Majority, &[0.0, 1.0]).is_err());
        assert!(of(Reducer::All, &[0.0, 1.0, 1.0]).is_err());
        assert_eq!(of(Reducer::All, &[1.0, 1.0]), Ok(Value::Number(1.0)));
    }

    #[test]
    fn the_mode_of_equally_frequent_votes_is_the_first() {
        assert_eq!(of(Reducer::Mode, &[0.0, 1.0, 1.0, 0.0]), Ok(Value::Number(0.0)));
        assert_eq!(of(Reducer::Mode, &[0.3, 0.2, 0.1]), Ok(Value::Number(0.3)));
    }

    #[test]
    fn the_reducer_all_of_booleans_is_true_when_all_are_true() {
        let votes = [true, false, true].map(Value::Boolean);
        assert_eq!(reduce(&votes, Reducer::All), Ok(Value::Boolean(false)));
        assert_eq!(reduce(&votes, Reducer::Majority), Ok(Value::Boolean(true)));
        assert!(reduce(&votes, Reducer::Mean).is_err());
    }

    #[test]
    fn categories_are_counted_one_by_one_and_their_order_does_not_matter() {
        let votes = [named(&["a", "b"]), named(&["b", "c"]), named(&["b", "a"])];
        assert_eq!(reduce(&votes, Reducer::Majority), Ok(named(&["a", "b"])));
        assert_eq!(reduce(&votes, Reducer::All), Ok(named(&["b"])));
        assert_eq!(reduce(&votes, Reducer::Mode), Ok(named(&["a", "b"])));
        assert!(reduce(&[named(&["a"]), named(&["b"])], Reducer::All).is_err());
    }

    proptest! {
        #[test]
        fn each_reducer_of_equal_votes_returns_their_value(number in -1e6..1e6_f64, n_votes in 1..9_usize) {
            for reducer in ALL {
                let Ok(Value::Number(found)) = of(reducer, &vec![number; n_votes]) else {
                    return Err(TestCaseError::fail("no number"));
                };
                prop_assert!((found - number).abs() <= number.abs() * 1e-12);
            }
        }

        #[test]
        fn a_reduced_number_lies_within_the_votes(numbers in proptest::collection::vec(-10.0..10.0_f64, 1..9)) {
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            for reducer in ALL {
                if let Ok(Value::Number(found)) = of(reducer, &numbers) {
                    prop_assert!(low - 1e-9 <= found && found <= high + 1e-9);
                }
            }
        }
    }
}
