//! The file of `perpend experiment run`: TOML with a dataset and prompts and models, or an endpoint.

use std::path::Path;

use anyhow::Context as _;
use perpend_api_types::filter::Conditions;
use perpend_api_types::server_run::{NewExperiment, NewRunEndpoint, PromptSelection};
use perpend_domain::server_run::RunTool;
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Variables of CI systems, by member of the metadata of a run.
const CI_VARIABLES: [(&str, &[&str]); 3] = [
    ("commit", &["GITHUB_SHA", "CI_COMMIT_SHA"]),
    ("branch", &["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"]),
    ("ciJob", &["GITHUB_RUN_ID", "CI_JOB_ID"]),
];

/// The file. Unknown keys are errors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    /// Name of the run.
    name: Option<String>,
    description: Option<String>,
    /// Name of the dataset.
    dataset: String,
    /// The time as of which the dataset is read.
    as_of: Option<toml::Value>,
    /// Ids of items.
    items: Option<Vec<String>>,
    /// Conditions on `id` and `metadata` of items.
    #[serde(default)]
    item_filter: Conditions,
    #[serde(default)]
    prompts: Vec<PromptEntry>,
    #[serde(default)]
    models: Vec<ModelEntry>,
    /// `http:URL` or `https:URL`: an endpoint of an application.
    task: Option<String>,
    /// Name of the environment variable with the secret that signs requests to the endpoint.
    secret_variable: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
    #[serde(default)]
    tools: Vec<RunTool>,
    output_schema: Option<Value>,
    repetitions: Option<u32>,
    concurrency: Option<u32>,
    max_usd: Option<f64>,
    timeout_ms: Option<u32>,
    /// Ids or names of evaluators, which score the results.
    #[serde(default)]
    evaluators: Vec<String>,
    /// Id or name of the run that comparisons start with.
    baseline: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// `"name"`, or a table with `version` or `label`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PromptEntry {
    Name(String),
    Selection(PromptSelection),
}

/// `"provider/model"`, or a table with `params`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ModelEntry {
    Name(String),
    Choice(ModelChoice),
}

/// Reads a file. `variable` returns environment variables.
///
/// # Errors
/// With the file and the key that is wrong.
pub(super) fn read(
    path: &Path,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<NewExperiment> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text, variable).with_context(|| path.display().to_string())
}

fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<NewExperiment> {
    let file: ExperimentFile = toml::from_str(text)?;
    let endpoint = endpoint(&file, &variable)?;
    let prompts = file.prompts.into_iter().map(|entry| match entry {
        PromptEntry::Name(name) => PromptSelection { name, ..PromptSelection::default() },
        PromptEntry::Selection(selection) => selection,
    });
    let models = file.models.into_iter().map(model);
    let mut metadata = file.metadata;
    for (name, variables) in CI_VARIABLES {
        let value = variables.iter().copied().filter_map(&variable).find(|it| !it.is_empty());
        if let (Some(value), false) = (value, metadata.contains_key(name)) {
            metadata.insert(name.to_owned(), value.into());
        }
    }
    Ok(NewExperiment {
        dataset: file.dataset,
        dataset_version: file.as_of.map(|value| time(&value)).transpose()?,
        item_ids: file.items,
        item_filter: file.item_filter,
        prompts: prompts.collect(),
        models: models.collect::<anyhow::Result<_>>()?,
        endpoint,
        params: file.params,
        tools: file.tools,
        output_schema: file.output_schema,
        repetitions: file.repetitions,
        concurrency: file.concurrency,
        max_usd: file.max_usd,
        timeout_ms: file.timeout_ms,
        evaluators: file.evaluators,
        baseline: file.baseline,
        run_name: file.name,
        description: file.description,
        metadata,
        dry_run: false,
    })
}

fn endpoint(
    file: &ExperimentFile,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Option<NewRunEndpoint>> {
    let Some(task) = &file.task else {
        anyhow::ensure!(file.secret_variable.is_none(), "`secret_variable` requires `task`");
        return Ok(None);
    };
    anyhow::ensure!(
        task.starts_with("http:") || task.starts_with("https:"),
        "`task` must start with `http:` or `https:`, got {task:?}; tasks in Python or JavaScript are run by the client libraries"
    );
    // `http:URL` is the form of other tasks; a URL alone is the same.
    let url = match task.strip_prefix("http:") {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => url,
        _ => task.as_str(),
    };
    let secret = file.secret_variable.as_ref().map(|name| {
        variable(name)
            .with_context(|| format!("the variable {name} (`secret_variable`) is not set"))
    });
    Ok(Some(NewRunEndpoint { url: url.to_owned(), secret: secret.transpose()? }))
}

fn model(entry: ModelEntry) -> anyhow::Result<ModelChoice> {
    match entry {
        ModelEntry::Choice(choice) => Ok(choice),
        ModelEntry::Name(name) => {
            let parts =
                name.split_once('/').filter(|(one, two)| !one.is_empty() && !two.is_empty());
            let (provider, model) = parts.with_context(|| {
                format!("`models` must be of the form \"connection/model\", got {name:?}")
            })?;
            Ok(ModelChoice {
                provider: provider.to_owned(),
                model: model.to_owned(),
                params: Map::new(),
            })
        }
    }
}

fn time(value: &toml::Value) -> anyhow::Result<Timestamp> {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Datetime(time) => time.to_string(),
        other => anyhow::bail!("`as_of` must be a time such as 2026-11-01T00:00:00Z, got {other}"),
    };
    Timestamp::parse(&text).map_err(|error| anyhow::anyhow!("`as_of`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> anyhow::Result<NewExperiment> {
        parse(text, |name| (name == "APP_SECRET").then(|| "a secret of the application".to_owned()))
    }

    #[test]
    fn prompts_and_models_are_names_or_tables() {
        let file = parsed(
            r#"
            name = "support answers"
            dataset = "support/golden"
            as_of = 2026-11-01T00:00:00Z
            prompts = ["answer", { name = "answer", version = 3 }]
            models = ["main/gpt-4o-mini", { provider = "main", model = "a/b", params = { temperature = 0.5 } }]
            repetitions = 3
            max_usd = 5.0
            evaluators = ["exact match"]
            baseline = "main"
            "#,
        );
        let file = file.unwrap();
        assert_eq!(file.run_name.as_deref(), Some("support answers"));
        assert_eq!(file.dataset_version, Timestamp::parse("2026-11-01T00:00:00Z").ok());
        assert_eq!((file.prompts[0].version, file.prompts[1].version), (None, Some(3)));
        assert_eq!(
            (file.models[0].model.as_str(), file.models[1].model.as_str()),
            ("gpt-4o-mini", "a/b")
        );
        assert_eq!(file.models[1].params["temperature"], 0.5);
        assert_eq!((file.repetitions, file.max_usd), (Some(3), Some(5.0)));
        assert_eq!(
            (file.evaluators, file.baseline),
            (vec!["exact match".to_owned()], Some("main".to_owned()))
        );
    }

    #[test]
    fn a_task_is_an_endpoint_and_its_secret_comes_from_the_environment() {
        for task in ["http://localhost:3000/answer", "http:http://localhost:3000/answer"] {
            let file =
                format!("dataset = \"d\"\ntask = {task:?}\nsecret_variable = \"APP_SECRET\"");
            let endpoint = parsed(&file).unwrap().endpoint.unwrap();
            assert_eq!(endpoint.url, "http://localhost:3000/answer");
            assert_eq!(endpoint.secret.as_deref(), Some("a secret of the application"));
        }
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        for (text, part) in [
            ("dataset = \"d\"\ncolor = 1", "color"),
            ("prompts = []", "dataset"),
            ("dataset = \"d\"\nmodels = [\"m\"]", "connection/model"),
            ("dataset = \"d\"\nas_of = 1", "as_of"),
            ("dataset = \"d\"\ntask = \"python:a:b\"", "client libraries"),
            ("dataset = \"d\"\ntask = \"http://a\"\nsecret_variable = \"NO\"", "NO"),
        ] {
            let error = format!("{:#}", parsed(text).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
