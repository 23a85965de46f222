//! CSV by RFC 4180: commas between cells, CRLF after each line, quotes around cells that need them.

use serde_json::Value;

/// Appends a line. Text is unchanged, `null` is an empty cell, everything else is JSON.
pub fn push_line<'v>(out: &mut String, cells: impl IntoIterator<Item = &'v Value>) {
    for (at, cell) in cells.into_iter().enumerate() {
        if 0 < at {
            out.push(',');
        }
        push_cell(out, cell);
    }
    out.push_str("\r\n");
}

/// Appends a line of texts with another delimiter than a comma.
pub fn push_texts<'t>(out: &mut String, delimiter: char, cells: impl IntoIterator<Item = &'t str>) {
    for (at, cell) in cells.into_iter().enumerate() {
        if 0 < at {
            out.push(delimiter);
        }
        push_text(out, delimiter, cell);
    }
    out.push_str("\r\n");
}

fn push_cell(out: &mut String, cell: &Value) {
    let json;
    let text = match cell {
        Value::Null => "",
        Value::String(text) => text,
        other => {
            json = other.to_string();
            &json
        }
    };
    push_text(out, ',', text);
}

fn push_text(out: &mut String, delimiter: char, text: &str) {
    if text.contains(['"', delimiter, '\n', '\r']) {
        out.push('"');
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_with_separators_are_quoted_and_values_are_json() {
        let mut line = String::new();
        push_line(&mut line, &[json!("a,\"b\"\nc"), json!(["x"]), json!(-0.5), Value::Null]);
        assert_eq!(line, "\"a,\"\"b\"\"\nc\",\"[\"\"x\"\"]\",-0.5,\r\n");
    }
}
