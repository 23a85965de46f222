//! Who may do what: each operation of the OpenAPI document with each kind of credentials, and each
//! resource with the key of another project.

use anyhow::Context as _;
use assay_domain::ids::PublicKey;
use assay_it::{KEYS, TestApp, Trace, trace_id};
use assay_server::client::{Answer, Client};
use assay_store::catalog::{NewApiKey, Rights, SecretHash};
use axum::http::Method;
use serde_json::{Value, json};

/// One operation as the document describes it.
struct Operation {
    method: Method,
    path: String,
    /// How many ways there are to authenticate; none: anyone may.
    n_schemes: usize,
    takes_ingest_keys: bool,
}

impl Operation {
    /// With something in place of its parameters.
    fn path_with(&self, value: &str) -> String {
        let mut path = String::new();
        for part in self.path.split_inclusive('}') {
            match part.split_once('{') {
                Some((before, _)) => path.push_str(&format!("{before}{value}")),
                None => path.push_str(part),
            }
        }
        path
    }

    async fn call(&self, client: &Client, value: &str) -> anyhow::Result<Answer> {
        let path = self.path_with(value);
        if self.method == Method::GET {
            client.get(&path).await
        } else {
            client.json(self.method.clone(), &path, &json!({})).await
        }
    }
}

async fn operations(client: &Client) -> anyhow::Result<Vec<Operation>> {
    let document = client.get("/api/openapi.json").await?.json();
    let paths = document["paths"].as_object().context("no paths")?;
    let mut operations = Vec::new();
    for (path, item) in paths {
        for (method, described) in item.as_object().context("not an item")? {
            let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else {
                continue;
            };
            operations.push(Operation {
                method,
                path: path.clone(),
                n_schemes: described["security"].as_array().map_or(0, Vec::len),
                takes_ingest_keys: described["x-assay-ingest-keys"] == true,
            });
        }
    }
    Ok(operations)
}

/// A pair that may send telemetry and scores, and read nothing.
async fn ingest_key(app: &TestApp) -> anyhow::Result<Client> {
    let project = app.app.home_project.clone();
    let key = NewApiKey {
        id: "ingest-key".to_owned(),
        public_key: PublicKey::new("pk-ingest")?,
        secret_hash: SecretHash::new("sk-ingest", [7; 16]),
        secret_hint: "…".to_owned(),
        rights: Rights::Ingest,
        note: None,
    };
    let now = assay_domain::time::Clock::now(&*app.clock);
    app.app.store.create_api_key(&project, &key, now).await?;
    Ok(Client::new(&app.origin).with_keys("pk-ingest", "sk-ingest"))
}

#[tokio::test]
async fn every_operation_takes_the_credentials_it_names_and_no_others() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let ingest = ingest_key(&app).await?;
    let client = |public: &str, secret: &str| Client::new(&app.origin).with_keys(public, secret);
    let bearer = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    // Who calls, and what an operation that is not for everybody must answer; 0: nothing of that kind.
    let callers = [
        ("nobody", app.anonymous(), 401),
        ("an unknown key", client("pk-unknown", KEYS.1), 401),
        ("a wrong secret", client(KEYS.0, "sk-wrong"), 401),
        ("another key's secret", client(KEYS.0, "sk-ingest"), 401),
        (
            "no pair at all",
            app.anonymous().with_authorization("Basic !"),
            401,
        ),
        ("a public key alone", bearer, 403),
        ("a pair for ingest", ingest, 403),
        ("a key pair", app.client.clone(), 0),
    ];
    let mut wrong = Vec::new();
    for operation in operations(&app.client).await? {
        for (who, client, otherwise) in &callers {
            let is_for_them = match *who {
                "a public key alone" => operation.n_schemes == 2,
                "a pair for ingest" => operation.takes_ingest_keys,
                _ => false,
            };
            let is_open = operation.n_schemes == 0 || is_for_them;
            let expected = if is_open { 0 } else { *otherwise };
            let answer = operation.call(client, "none").await?;
            let refused = matches!(answer.status.as_u16(), 401 | 403);
            let is_right = match expected {
                0 => !refused && answer.status.as_u16() < 500,
                status => answer.status == status,
            };
            if !is_right {
                wrong.push(format!(
                    "{} {} by {who}: {} {}",
                    operation.method,
                    operation.path,
                    answer.status,
                    answer.text()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    app.stop().await
}

/// Something of every kind, and where it is.
async fn populate(app: &TestApp) -> anyhow::Result<Vec<(&'static str, String)>> {
    let trace = Trace::new(1, "secret trace").generation("answer", "42");
    app.ingest(&trace).await?;
    let evaluator = app
        .evaluator("assay/text", "exact-match", json!({}))
        .await?;
    let rule = app.rule(&evaluator, json!({})).await?;
    let mut known = vec![
        ("/api/public/traces/{traceId}", trace_id(1)),
        (
            "/api/public/observations/{observationId}",
            Trace::span_id(2),
        ),
        ("/api/public/v2/evaluators/{evaluatorId}", evaluator),
        ("/api/public/v2/evaluation-rules/{ruleId}", rule.clone()),
        ("/api/v1/evaluation-rules/{ruleId}", rule),
    ];
    let made = [
        (
            "/api/public/scores",
            json!({ "id": "secret-score", "traceId": trace_id(1), "name": "s", "value": 1 }),
        ),
        (
            "/api/public/score-configs",
            json!({ "name": "secret config", "dataType": "NUMERIC" }),
        ),
        (
            "/api/public/v2/prompts",
            json!({ "name": "secret-prompt", "type": "text", "prompt": "hi", "labels": ["production"] }),
        ),
    ];
    for (path, body) in made {
        let answer = app.client.json(Method::POST, path, &body).await?;
        anyhow::ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        let answer = answer.json();
        let id = answer["id"].as_str().unwrap_or_default().to_owned();
        match path {
            "/api/public/scores" => {
                known.push(("/api/public/scores/{scoreId}", id.clone()));
                known.push(("/api/public/v2/scores/{scoreId}", id));
            }
            "/api/public/score-configs" => {
                known.push(("/api/public/score-configs/{configId}", id));
            }
            _ => known.push((
                "/api/public/v2/prompts/{promptName}",
                "secret-prompt".to_owned(),
            )),
        }
    }
    Ok(known)
}

/// What an answer says, whatever the id that was asked for.
fn said(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status.as_u16(), answer.text().replace(id, "ID"))
}

#[tokio::test]
async fn what_belongs_to_another_project_answers_exactly_like_what_does_not_exist()
-> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let other = app.other_project().await?;
    let known = populate(&app).await?;
    let operations = operations(&app.client).await?;
    let mut n_compared = 0;
    for (place, id) in &known {
        // The same length and form, and nobody's.
        let missing: String = id.chars().rev().collect();
        let below = operations
            .iter()
            .filter(|operation| operation.path.starts_with(place));
        for operation in below {
            let path = |id: &str| {
                let item = operation
                    .path
                    .replacen(place, &place.replace(braced(place), id), 1);
                item.replace("{version}", "1")
            };
            let mut answers = Vec::new();
            for id in [id, &missing] {
                let answer = match operation.method {
                    Method::GET => other.get(&path(id)).await?,
                    _ => {
                        let (method, body) = (operation.method.clone(), json!({}));
                        other.json(method, &path(id), &body).await?
                    }
                };
                answers.push(said(&answer, id));
            }
            let at = format!("{} {}", operation.method, operation.path);
            assert_eq!(answers[0], answers[1], "{at}");
            if operation.method == Method::GET {
                assert_ne!(answers[0].0, 200, "{at}");
            }
            n_compared += 1;
        }
        // Whatever the other project tried, it is still there.
        if operations
            .iter()
            .any(|operation| operation.path == *place && operation.method == Method::GET)
        {
            let answer = app.client.get(&place.replace(braced(place), id)).await?;
            assert_eq!(answer.status, 200, "{place}: {}", answer.text());
        }
    }
    assert!(15 <= n_compared, "{n_compared} operations were compared");
    app.stop().await
}

/// Lists with rows that come with the server.
const SHARED: [&str; 2] = ["/api/v1/plugins", "/api/public/models"];

/// `{name}` in a path that ends with it.
fn braced(place: &str) -> &str {
    place.rfind('{').map_or("", |at| &place[at..])
}

#[tokio::test]
async fn lists_of_another_project_show_nothing_of_this_one() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let other = app.other_project().await?;
    populate(&app).await?;
    for operation in operations(&app.client).await? {
        if operation.method != Method::GET || operation.path.contains('{') {
            continue;
        }
        let answer = other.get(&operation.path).await?;
        let text = answer.text();
        assert!(
            !text.contains("secret") && !text.contains(&trace_id(1)),
            "{}: {text}",
            operation.path
        );
        let own: Value = app.client.get(&operation.path).await?.json();
        if let (Some(theirs), Some(ours)) =
            (answer.json()["data"].as_array(), own["data"].as_array())
            && !SHARED.contains(&operation.path.as_str())
        {
            let shared = ours.iter().filter(|each| theirs.contains(each)).count();
            assert_eq!(shared, 0, "{}", operation.path);
        }
    }
    app.stop().await
}
