//! Code that uses a dataset, for the tab *Use*.

use perpend_views::Text;

/// A string literal that Python and TypeScript read alike.
fn literal(raw: &str) -> String {
    serde_json::Value::from(raw).to_string()
}

/// Ids, labels and code of the examples for a dataset of this name.
pub(super) fn of(name: &str, origin: &str) -> Vec<(&'static str, &'static str, Text)> {
    let (name, origin) = (literal(name), literal(origin));
    let python = format!(
        "from langfuse import get_client  # LANGFUSE_HOST={origin}\n\n\
         langfuse = get_client()\n\
         dataset = langfuse.get_dataset({name})\n\n\n\
         def task(*, item, **kwargs):\n    return answer(item.input)  # your application\n\n\n\
         result = dataset.run_experiment(name=\"first run\", task=task)\n\
         print(result.format())"
    );
    let python_then = format!(
        "from datetime import datetime, timezone\n\n\
         from langfuse import get_client\n\n\
         then = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)\n\
         dataset = get_client().get_dataset({name}, version=then)\n\
         for item in dataset.items:\n    print(item.id, item.input)"
    );
    let typescript = format!(
        "import {{ LangfuseClient }} from \"@langfuse/client\"; // LANGFUSE_BASE_URL={origin}\n\n\
         const langfuse = new LangfuseClient();\n\
         const dataset = await langfuse.dataset.get({name});\n\
         const result = await dataset.runExperiment({{\n  \
         name: \"first run\",\n  \
         task: async (item) => answer(item.input), // your application\n\
         }});\n\
         console.log(await result.format());"
    );
    let typescript_then = format!(
        "const version = \"2026-01-31T12:00:00Z\";\n\
         const dataset = await langfuse.dataset.get({name}, {{ version }});\n\
         for (const item of dataset.items) console.log(item.id, item.input);"
    );
    vec![
        ("python", "Python: run an experiment", Text::lines(python)),
        ("python-then", "Python: items as of an instant", Text::lines(python_then)),
        ("typescript", "TypeScript: run an experiment", Text::lines(typescript)),
        ("typescript-then", "TypeScript: items as of an instant", Text::lines(typescript_then)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_string() {
        for (_, _, code) in of("a\"); x(\"", "http://localhost") {
            assert!(code.raw().contains("(\"a\\\"); x(\\\"\""), "{}", code.raw());
        }
    }
}
