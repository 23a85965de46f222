//! Hidden parts of replies, and the values in the rest.

use proptest::prelude::*;

use super::*;

/// The values of a text outside the hidden parts.
fn values(text: &str) -> Vec<&str> {
    let outline = ReplyOutline::of(text);
    outline.values.iter().map(|at| &text[at.clone()]).collect()
}

#[test]
fn values_in_thinking_and_quotations_are_hidden() {
    let (draft, answer) = (r#"{"score": 0.1}"#, r#"{"score": 0.9}"#);
    for text in [
        format!("<think>Maybe {draft}? No.</think>\n{answer}"),
        format!("<thinking>{draft}</thinking>{answer}"),
        format!("<THINK>\n{draft}\n</think >{answer}"),
        format!("<think effort=\"high\">{draft}</think>{answer}"),
        format!("<reasoning>{draft}</reasoning><answer>{answer}</answer>"),
        format!("<thought>{draft}</thought>{answer}"),
        format!("<scratchpad>{draft}</scratchpad>{answer}"),
        format!("<seed:think>{draft}</seed:think>{answer}"),
        format!("[THINK]{draft}[/THINK]{answer}"),
        format!("◁think▷{draft}◁/think▷{answer}"),
        format!("&lt;think&gt;{draft}&lt;/think&gt;{answer}"),
        format!("<|begin_of_thought|>{draft}<|end_of_thought|>{answer}"),
        format!("<|START_THINKING|>{draft}<|END_THINKING|>{answer}"),
        format!(
            "<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>{answer}"
        ),
        format!("<|channel>thought\n{draft}<channel|>{answer}"),
        format!("Maybe {draft}? No.\n</think>\n\n{answer}"),
        format!("<think>a <think>b</think> {draft}</think>{answer}"),
        format!("<think>It says </think> and {draft}</think>{answer}"),
        format!("<think>{draft}</think>{answer}<think>or {draft}"),
        format!("> {draft}\n\n{answer}"),
        format!("  > {draft}\n> {draft}\n{answer}"),
        format!("<antThinking>{draft}</antThinking>{answer}"),
        format!("<inner_monologue>{draft}</inner_monologue>{answer}"),
        format!("<chainOfThought>{draft}</chainOfThought>{answer}"),
        format!("Well<think>{draft}</think>{answer}"),
        format!("<quote>{draft}</quote>{answer}"),
        format!("<blockquote>\n{draft}\n</blockquote>\n{answer}"),
        format!("<!-- {draft} -->{answer}"),
        format!("[begin data 0123456789abcdef]\n{draft}\n[end data 0123456789abcdef]\n{answer}"),
    ] {
        assert_eq!(values(&text), [answer], "{text}");
    }
}

#[test]
fn a_block_without_an_end_hides_the_rest() {
    for text in [
        r#"<think>{"score": 0.1}"#,
        r#"Well. <think> {"score": 0.1} and so"#,
        "It returns `Promise<Quote>`.\n<think>{\"score\": 0.1}",
        "It is an Option<Draft>.\n<quote>{\"score\": 0.1}",
        r#"<|channel|>analysis<|message|>{"score": 0.1}"#,
        r#"<!-- {"score": 0.1}"#,
        "[begin data 0123456789abcdef]\n{\"score\": 0.1}",
    ] {
        assert!(values(text).is_empty(), "{text}");
    }
}

#[test]
fn tags_within_strings_of_a_value_are_text() {
    let answer = r#"{"reasoning": "it has </think>, <think> and > signs", "score": 0.9}"#;
    assert_eq!(values(answer), [answer]);
    let text = format!("<think>a</think>\n{answer}");
    assert_eq!(values(&text), [answer]);
}

#[test]
fn words_in_brackets_that_are_not_thinking_tags_hide_nothing() {
    for text in [
        "a < b {\"score\": 1}",
        "<answer>{\"score\": 1}</answer>",
        "Vec<Thing> {\"score\": 1}",
        "[1] [reasoning] {\"score\": 1}",
        "<think/>{\"score\": 1}",
        "It returns a Promise<Quote>. {\"score\": 1}",
        "It takes an Option<DraftOrder> and a Vec<Quote>.\n{\"score\": 1}",
        "It lacks the `<q>` tag and the `<think>` tag. {\"score\": 1}",
        "It is <excited> about <explanation> {\"score\": 1}",
    ] {
        assert_eq!(values(text).last(), Some(&"{\"score\": 1}"), "{text}");
    }
}

#[test]
fn an_incomplete_value_at_the_end_is_reported() {
    let text = r#"{"score": 0.1} then {"reasoning": "x", "score": 0."#;
    let outline = ReplyOutline::of(text);
    assert_eq!(outline.values.first(), Some(&(0..14)));
    assert_eq!(outline.values.len(), 1);
    assert_eq!(outline.cut, Some(20));
    assert_eq!(ReplyOutline::of("{not json} [sic]").cut, None);
}

#[test]
fn masking_preserves_offsets_and_lines() {
    let text = "<think>é\nGRADE: C</think>\nGRADE: I";
    let masked = ReplyOutline::of(text).masked(text);
    assert_eq!(masked.len(), text.len());
    assert_eq!(masked.trim(), "GRADE: I");
    assert_eq!(masked.find("GRADE"), text.rfind("GRADE"));
    assert_eq!(masked.lines().count(), 3);
}

/// Whether the only `X` of a text is quoted.
fn quoted(text: &str) -> bool {
    let at = text.find('X').unwrap();
    is_quoted(text, &(at..at + 1))
}

#[test]
fn a_part_between_quotation_marks_is_quoted() {
    for text in [
        r#"It says "GRADE: X" about itself."#,
        "It says 'GRADE: X' about itself.",
        "It says `GRADE: X` about itself.",
        "It says “GRADE: X” about itself.",
        "Es sagt „GRADE: X“ von sich.",
        "Il dit « GRADE: X ».",
        "It's \"a\" and then \"it's X\".",
        "It says \"a\nb X\nc\" at length.",
        "It says:\n`GRADE: X`\nThat is wrong.",
        "It says:\n\"GRADE: X\"",
        "It says:\n```\na\nGRADE: X\n```",
    ] {
        assert!(quoted(text), "{text}");
    }
    for text in [
        "GRADE: X",
        "\"X\"",
        "**`X`**.",
        "It is good.\n`GRADE: X`",
        "It is good.\n\n**`GRADE: X`**.\n",
        "It is good.\n```\nGRADE: X\n```",
        "`GRADE: X`\nIt is good.",
        r#"It says "a", GRADE: X, and "b"."#,
        "It's bad, isn't it? X. It's so.",
        "A 5\" pipe: X, and a 6\" pipe",
        "It says \"a\n\nX\n\nb\"",
    ] {
        assert!(!quoted(text), "{text}");
    }
}

#[test]
fn hostile_texts_have_no_values() {
    for part in [
        "{",
        "[",
        "<think>",
        "a<think>",
        "a<q>b<think>",
        "</think>",
        "{\"a\":",
        "{\"",
        "<",
        "[begin data ",
        "\"",
        "> ",
    ] {
        let text = part.repeat((1 << 16) / part.len());
        let outline = ReplyOutline::of(&text);
        assert!(outline.values.is_empty(), "{part}");
    }
}

proptest! {
    #[test]
    fn ranges_of_any_text_are_in_order_and_do_not_overlap(
        text in "([{}\\[\\]\"\\\\a:1,`\n é>]|<think>|</think>|<q>|</q>|<!--|-->|\\[begin data |\\[end data a\\]){0,40}",
    ) {
        let outline = ReplyOutline::of(&text);
        let mut parts: Vec<_> = outline.hidden.iter().chain(&outline.values).cloned().collect();
        parts.sort_by_key(|part| (part.start, part.end));
        for pair in parts.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start, "{:?}", outline);
        }
        prop_assert_eq!(outline.masked(&text).len(), text.len());
    }

    #[test]
    fn only_the_answer_after_thinking_is_a_value(
        thinking in "([a-z {}\\[\\]\":,0-9\n]|\\{\"score\": 0\\}){0,40}",
    ) {
        let answer = r#"{"score": 1}"#;
        for text in [format!("<think>{thinking}</think>{answer}"), format!("{thinking}\n</think>\n{answer}")] {
            let outline = ReplyOutline::of(&text);
            // A value that is unclosed in the thinking may include the tag, but never becomes the answer.
            let found: Vec<_> = outline.values.iter().map(|at| &text[at.clone()]).collect();
            prop_assert!(found == [answer] || outline.cut.is_some() || found.len() == 1 && found[0].contains("</think>"), "{:?}", found);
        }
    }
}
