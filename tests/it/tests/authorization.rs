//! Access: each operation of the OpenAPI document with each kind of credentials, and each resource with the key of
//! another project.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use axum::http::Method;
use perpend_catalog::{NewApiKey, Rights, SecretHash};
use perpend_domain::access::{Permission, PermissionLevel, Scope};
use perpend_domain::ids::PublicKey;
use perpend_it::{KEYS, ORGANIZATION_KEYS, TestApp, Trace, trace_id};
use perpend_server::client::{Answer, Client};
use serde_json::{Value, json};

/// One operation as the document describes it.
struct Operation {
    method: Method,
    path: String,
    /// Any of them does; none: anybody may.
    permissions: Vec<Permission>,
}

/// The kind of credentials of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Nothing that is valid.
    Nothing,
    /// The public key of a project.
    PublicKey,
    /// A pair for telemetry.
    IngestPair,
    /// A pair for reading.
    ReadPair,
    /// A pair of a project.
    Pair,
    /// A pair of an organization.
    OrganizationPair,
    /// The public key of an organization.
    OrganizationPublicKey,
    /// The administrator's key, and the id of a project.
    AdminKey,
}

impl Operation {
    fn is_of_organization(&self) -> bool {
        let mut all = self.permissions.iter();
        all.any(|one| one.level() == PermissionLevel::Organization)
    }

    /// The error bodies of SCIM and OTLP have no field for it.
    fn names_what_is_missing(&self) -> bool {
        self.path.starts_with("/api/")
            && !self.path.contains("/scim/")
            && !self.path.contains("/otel")
    }

    /// The expected refusal of a caller: 401, 403, or none.
    fn refuses(&self, shown: Shows) -> Option<u16> {
        let held_by = |scope: Scope| self.permissions.iter().any(|one| scope.holds(*one));
        let is_open = match shown {
            _ if self.permissions.is_empty() => true,
            Shows::Nothing => return Some(401),
            Shows::PublicKey => held_by(Scope::PublicHalf),
            Shows::IngestPair => held_by(Scope::Ingest),
            Shows::ReadPair => held_by(Scope::Read),
            Shows::Pair | Shows::AdminKey => held_by(Scope::Full),
            Shows::OrganizationPair => held_by(Scope::Organization),
            Shows::OrganizationPublicKey => false,
        };
        (!is_open).then_some(403)
    }

    /// The path with `value` for each of its parameters.
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

/// The permission of an operation, by the names in the document.
fn permissions(described: &Value) -> anyhow::Result<Vec<Permission>> {
    let needs = &described["x-perpend-permission"];
    let needs = needs.as_str().context("no permission is declared")?;
    if needs == "public" {
        return Ok(Vec::new());
    }
    let named = |name: &str| {
        let mut all = Permission::ALL.iter();
        let found = all.find(|one| one.name() == name).copied();
        found.with_context(|| format!("{name} is no permission"))
    };
    needs.split(" or ").map(named).collect()
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
                permissions: permissions(described).with_context(|| path.clone())?,
            });
        }
    }
    Ok(operations)
}

/// A pair of the home project with these rights: `pk-RIGHTS` and `sk-RIGHTS`.
async fn key_with(app: &TestApp, rights: Rights) -> anyhow::Result<Client> {
    let [public_key, secret_key] = ["pk", "sk"].map(|half| format!("{half}-{}", rights.as_str()));
    let project = app.app.home_project.clone();
    let key = NewApiKey {
        id: format!("{}-key", rights.as_str()),
        public_key: PublicKey::new(&public_key)?,
        secret_hash: SecretHash::new(&secret_key, [7; 16]),
        secret_hint: "…".to_owned(),
        rights,
        note: None,
        expires_at: None,
    };
    let now = perpend_domain::time::Clock::now(&*app.clock);
    app.app.store.catalog.create_api_key(&project, &key, now).await?;
    Ok(Client::new(&app.origin).with_keys(&public_key, &secret_key))
}

const ADMIN_KEY: &str = "the key of the administrator";

/// All callers: their names and kinds of credentials.
fn callers(app: &TestApp, ingest: Client, read: Client) -> Vec<(&'static str, Shows, Client)> {
    let client = |public: &str, secret: &str| Client::new(&app.origin).with_keys(public, secret);
    let bearer = |key: &str| app.anonymous().with_authorization(&format!("Bearer {key}"));
    vec![
        ("nobody", Shows::Nothing, app.anonymous()),
        ("an unknown key", Shows::Nothing, client("pk-unknown", KEYS.1)),
        ("a wrong secret", Shows::Nothing, client(KEYS.0, "sk-wrong")),
        ("another key's secret", Shows::Nothing, client(KEYS.0, "sk-ingest")),
        ("its organization's secret", Shows::Nothing, client(KEYS.0, ORGANIZATION_KEYS.1)),
        ("no pair at all", Shows::Nothing, app.anonymous().with_authorization("Basic !")),
        ("the administrator's key alone", Shows::Nothing, bearer(ADMIN_KEY)),
        ("a public key alone", Shows::PublicKey, bearer(KEYS.0)),
        ("a pair for ingest", Shows::IngestPair, ingest),
        ("a pair for reading", Shows::ReadPair, read),
        ("its public key alone", Shows::Nothing, bearer("pk-read")),
        ("a key pair", Shows::Pair, app.client.clone()),
        ("a pair of the organization", Shows::OrganizationPair, app.organizer()),
        (
            "a pair of another organization",
            Shows::OrganizationPair,
            client("pk-other-org", "sk-other-org"),
        ),
        (
            "an organization's public key alone",
            Shows::OrganizationPublicKey,
            bearer(ORGANIZATION_KEYS.0),
        ),
        (
            "the administrator",
            Shows::AdminKey,
            bearer(ADMIN_KEY)
                .with_header("x-langfuse-admin-api-key", ADMIN_KEY)
                .with_header("x-langfuse-project-id", app.app.home_project.as_str()),
        ),
    ]
}

#[tokio::test]
async fn every_operation_admits_only_holders_of_its_permission() -> anyhow::Result<()> {
    let settings = [("admin.api_key", ADMIN_KEY), ("server.trusted_proxies", "127.0.0.1")];
    let app = TestApp::with(&settings).await?;
    let ingest = key_with(&app, Rights::Ingest).await?;
    let read = key_with(&app, Rights::Read).await?;
    app.other_project().await?;
    let callers = callers(&app, ingest, read);
    let mut wrong = Vec::new();
    let operations = operations(&app.client).await?;
    let n_organization = operations.iter().filter(|each| each.is_of_organization()).count();
    assert!(20 <= n_organization, "{n_organization} operations of organizations");
    for (at, operation) in operations.into_iter().enumerate() {
        // Wrong credentials are limited per network: each operation is called from a network of its own.
        let network = format!("2001:db8:0:{at:x}::1");
        for (who, shown, client) in &callers {
            let client = client.clone().with_header("x-forwarded-for", &network);
            let answer = operation.call(&client, "none").await?;
            let refused = matches!(answer.status.as_u16(), 401 | 403);
            let is_right = match operation.refuses(*shown) {
                None => !refused && answer.status.as_u16() < 500,
                Some(403) if operation.names_what_is_missing() => {
                    answer.status == 403 && answer.text().contains(operation.permissions[0].name())
                }
                Some(status) => answer.status == status,
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

/// The public operations. A new entry is a decision.
const OF_NOBODY: [(&str, &str); 19] = [
    ("/", "GET"),
    ("/api/openapi.json", "GET"),
    ("/api/public/health", "GET"),
    ("/api/public/ready", "GET"),
    ("/api/reference", "GET"),
    ("/api/reference/{group}", "GET"),
    ("/assets/{file}", "GET"),
    ("/invite/{token}", "GET"),
    ("/invite/{token}", "POST"),
    ("/login", "GET"),
    ("/login", "POST"),
    ("/logout", "GET"),
    ("/logout", "POST"),
    ("/preferences", "GET"),
    ("/preferences", "POST"),
    ("/reset/{token}", "GET"),
    ("/reset/{token}", "POST"),
    ("/setup/{token}", "GET"),
    ("/setup/{token}", "POST"),
];

/// Operations with a body that change nothing: a calculation, and one that is always refused.
const READS_WITH_A_BODY: [(&str, &str); 2] =
    [("POST", "/api/public/feedback"), ("POST", "/api/v1/datasets/{datasetName}/schema-impact")];

/// Of the routes of pages too. The permissions decide in the guard of each route.
#[test]
fn a_pair_for_reading_is_admitted_to_nothing_that_changes_data() {
    let served = perpend_server::served();
    let changing = served.iter().filter(|route| route.method != "GET");
    let admitted = changing.filter(|route| {
        let needs = route.permission.split(" or ");
        let mut needs =
            needs.filter_map(|name| Permission::ALL.iter().find(|one| one.name() == name));
        needs.any(|one| Scope::Read.holds(*one))
    });
    let admitted: Vec<_> = admitted.map(|route| (route.method, route.path.as_str())).collect();
    assert_eq!(admitted, READS_WITH_A_BODY);
}

#[tokio::test]
async fn every_served_path_declares_a_permission() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let served = perpend_server::served();
    let open = served.iter().filter(|route| route.permission == "public");
    let open: Vec<_> = open.map(|route| (route.path.as_str(), route.method)).collect();
    assert_eq!(open, OF_NOBODY);
    let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for route in &served {
        methods.entry(&route.path).or_default().insert(route.method);
    }
    for (path, declared) in methods {
        let template =
            Operation { method: Method::GET, path: path.to_owned(), permissions: Vec::new() };
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let request = Method::from_bytes(method.as_bytes())?;
            let path = template.path_with("none");
            let answer = app.anonymous().json(request, &path, &json!({})).await?;
            let is_served = answer.status != 405;
            assert_eq!(is_served, declared.contains(method), "{method} {path}");
        }
    }
    app.stop().await
}

/// Something of every kind, and where it is.
async fn populate(app: &TestApp) -> anyhow::Result<Vec<(&'static str, String)>> {
    let trace = Trace::new(1, "secret trace").generation("answer", "42");
    app.ingest(&trace).await?;
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await?;
    let rule = app.rule(&evaluator, json!({})).await?;
    let user = json!({ "userName": "secret-user@example.com" });
    let user = app.organizer().json(Method::POST, "/api/public/scim/Users", &user).await?;
    let user = user.json()["id"].as_str().context("no user")?.to_owned();
    let mut known = vec![
        ("/api/public/scim/Users/{userId}", user),
        ("/api/public/projects/{projectId}", app.app.home_project.to_string()),
        ("/api/v1/projects/{projectId}", app.app.home_project.to_string()),
        ("/api/public/traces/{traceId}", trace_id(1)),
        ("/api/public/observations/{observationId}", Trace::span_id(2)),
        ("/api/public/v2/evaluators/{evaluatorId}", evaluator),
        ("/api/public/v2/evaluation-rules/{ruleId}", rule.clone()),
        ("/api/v1/evaluation-rules/{ruleId}", rule),
    ];
    let made = [
        (
            "/api/public/scores",
            json!({ "id": "secret-score", "traceId": trace_id(1), "name": "s", "value": 1 }),
        ),
        ("/api/public/score-configs", json!({ "name": "secret config", "dataType": "NUMERIC" })),
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
            _ => known.push(("/api/public/v2/prompts/{promptName}", "secret-prompt".to_owned())),
        }
    }
    Ok(known)
}

/// Status and body of a response, with the requested id masked.
fn masked(answer: &Answer, id: &str) -> (u16, String) {
    (answer.status.as_u16(), answer.text().replace(id, "ID"))
}

#[tokio::test]
async fn resources_of_another_project_respond_exactly_like_missing_ones() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let others = app.other_project().await?;
    let other_organization = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let known = populate(&app).await?;
    let operations = operations(&app.client).await?;
    let mut n_compared = 0;
    for (template, id) in &known {
        // An id of the same length and form that does not exist.
        let missing: String = id.chars().rev().collect();
        let below = operations.iter().filter(|operation| operation.path.starts_with(template));
        for operation in below {
            let other = match operation.is_of_organization() {
                true => &other_organization,
                false => &others,
            };
            let path = |id: &str| {
                let item =
                    operation.path.replacen(template, &template.replace(braced(template), id), 1);
                item.replace("{version}", "1").replace("{apiKeyId}", "none")
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
                answers.push(masked(&answer, id));
            }
            let at = format!("{} {}", operation.method, operation.path);
            assert_eq!(answers[0], answers[1], "{at}");
            if operation.method == Method::GET {
                assert_ne!(answers[0].0, 200, "{at}");
            }
            n_compared += 1;
        }
        // After the attempts of the other project, it still exists.
        let read = operations
            .iter()
            .find(|operation| operation.path == *template && operation.method == Method::GET);
        if let Some(read) = read {
            let owner = match read.is_of_organization() {
                true => app.organizer(),
                false => app.client.clone(),
            };
            let answer = owner.get(&template.replace(braced(template), id)).await?;
            assert_eq!(answer.status, 200, "{template}: {}", answer.text());
        }
    }
    let project = app.client.get("/api/public/projects").await?;
    assert_eq!(project.status, 200, "{}", project.text());
    assert!(25 <= n_compared, "{n_compared} operations were compared");
    app.stop().await
}

/// Lists with rows that belong to the server.
const SHARED: [&str; 4] =
    ["/api/v1/plugins", "/api/v1/judge-presets", "/api/public/models", "/api/v1/jobs"];

/// `{name}` in a path that ends with it.
fn braced(template: &str) -> &str {
    template.rfind('{').map_or("", |at| &template[at..])
}

#[tokio::test]
async fn lists_of_another_project_show_nothing_of_this_one() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let other = app.other_project().await?;
    let other_organization = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let organizer = app.organizer();
    populate(&app).await?;
    for operation in operations(&app.client).await? {
        if operation.method != Method::GET || operation.path.contains('{') {
            continue;
        }
        let (other, owner) = match operation.is_of_organization() {
            true => (&other_organization, &organizer),
            false => (&other, &app.client),
        };
        let answer = other.get(&operation.path).await?;
        let text = answer.text();
        assert!(
            !text.contains("secret") && !text.contains(&trace_id(1)),
            "{}: {text}",
            operation.path
        );
        let own: Value = owner.get(&operation.path).await?.json();
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
