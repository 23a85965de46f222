//! Finds a text inside a longer one.

/// Where `text` first stands in `whole`, in any case: a character may have another length in the other case. Takes time in
/// step with both, whatever they repeat (Knuth, Morris and Pratt).
#[must_use]
pub fn first(whole: &str, text: &str) -> Option<(usize, usize)> {
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    if wanted.is_empty() {
        return None;
    }
    let borders = borders(&wanted);
    // Where the last characters in lower case began, as many as are wanted.
    let mut begins = vec![0; wanted.len()];
    let (mut n_read, mut n_same) = (0_usize, 0);
    for (at, c) in whole.char_indices() {
        for (nth, lower) in c.to_lowercase().enumerate() {
            // What begins in the middle of a character is found at none.
            begins[n_read % wanted.len()] = if nth == 0 { at } else { usize::MAX };
            n_read += 1;
            while 0 < n_same && (n_same == wanted.len() || wanted[n_same] != lower) {
                n_same = borders[n_same - 1];
            }
            n_same += usize::from(wanted[n_same] == lower);
            if n_same == wanted.len() {
                let from = begins[(n_read - n_same) % wanted.len()];
                if from != usize::MAX {
                    return Some((from, at + c.len_utf8()));
                }
            }
        }
    }
    None
}

/// For each beginning of a text how much of its start its end repeats.
fn borders(text: &[char]) -> Vec<usize> {
    let mut borders = vec![0; text.len()];
    let mut n_same = 0;
    for at in 1..text.len() {
        while 0 < n_same && text[n_same] != text[at] {
            n_same = borders[n_same - 1];
        }
        n_same += usize::from(text[n_same] == text[at]);
        borders[at] = n_same;
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_text_is_found_where_it_was_put(before in ".{0,100}", text in ".{1,9}", behind in ".{0,100}") {
            let whole = format!("{before}{text}{behind}");
            let (from, to) = first(&whole, &text).unwrap();
            // Of a whole text the lower case depends on what is around a letter.
            let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
            proptest::prop_assert_eq!(lower(&whole[from..to]), lower(&text));
        }
    }

    #[test]
    fn a_text_that_repeats_itself_is_found_in_time() {
        assert_eq!(first("aabaabaac", "AABAAC"), Some((3, 9)));
        assert_eq!(first("aaa", "aa"), Some((0, 2)));
        assert_eq!(first("İx", "x"), Some((2, 3)));
        assert_eq!(first("abc", ""), None);
        let whole = "a".repeat(1_000_000);
        assert_eq!(first(&whole, &format!("{}b", "a".repeat(199))), None);
    }
}
