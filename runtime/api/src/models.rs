//! Models and prices: those of the project, which take precedence, and the built-in table.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use perpend_api_types::list::PageMeta;
use perpend_domain::access::Permission::{ModelRead, ModelWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::model::{ModelDefinition, PricingTier, TierCondition};
use perpend_domain::pricing::{PriceEntry, PriceTable, STANDARD, fits_any_table};
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::state::{App, Routes};

const LIST: &str = "/api/public/models";
const ONE: &str = "/api/public/models/{modelId}";

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listModels",
        LIST,
        "List models: those of the project, then the built-in ones",
        ModelRead,
    );
    routes.add(list.query(page::PAGED), list_models);
    let create = Operation::post("createModel", LIST, "Create a model with prices", ModelWrite);
    routes.add(create.body::<ModelInput>(), create_model);
    routes.add(Operation::get("getModel", ONE, "Get a model", ModelRead), get_model);
    let put = Operation::put("putModel", ONE, "Create or replace a model by id", ModelWrite);
    routes.add(put.body::<ModelInput>(), put_model);
    let delete = Operation::delete("deleteModel", ONE, "Delete a model of the project", ModelWrite);
    routes.add(delete.status(204), delete_model);
}

/// A model with flat prices or tiers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct ModelInput {
    model_name: String,
    /// Regular expression that matches the names of the model in telemetry.
    match_pattern: String,
    start_date: Option<String>,
    /// `TOKENS`, `CHARACTERS`, `MILLISECONDS`, `SECONDS`, `IMAGES` or `REQUESTS`.
    unit: Option<String>,
    input_price: Option<f64>,
    output_price: Option<f64>,
    total_price: Option<f64>,
    #[schema(value_type = Option<Vec<Object>>)]
    pricing_tiers: Option<Vec<TierInput>>,
    /// `openai` or `claude`.
    tokenizer_id: Option<String>,
    /// Any JSON value.
    tokenizer_config: Option<Value>,
}

/// Prices with conditions.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TierInput {
    name: String,
    is_default: bool,
    priority: i64,
    conditions: Vec<TierCondition>,
    prices: BTreeMap<String, f64>,
}

impl ModelInput {
    fn flat_prices(&self) -> BTreeMap<String, f64> {
        let flat = [
            ("input", self.input_price),
            ("output", self.output_price),
            ("total", self.total_price),
        ];
        let present = flat.into_iter().filter_map(|(bucket, price)| Some((bucket, price?)));
        present.map(|(bucket, price)| (bucket.to_owned(), price)).collect()
    }

    fn tiers(&mut self) -> Result<Vec<PricingTier>, Problem> {
        let flat = self.flat_prices();
        let Some(tiers) = self.pricing_tiers.take() else {
            if flat.contains_key("total") && flat.len() > 1 {
                let message = "must be absent with inputPrice or outputPrice";
                return Err(Problem::body("totalPrice", message));
            }
            return Ok(vec![PricingTier {
                name: STANDARD.to_owned(),
                is_default: true,
                priority: 0,
                conditions: Vec::new(),
                prices: flat,
            }]);
        };
        if !flat.is_empty() {
            let message = "must be absent with flat prices";
            return Err(Problem::body("pricingTiers", message));
        }
        let tier = |tier: TierInput| PricingTier {
            name: tier.name,
            is_default: tier.is_default,
            priority: tier.priority,
            conditions: tier.conditions,
            prices: tier.prices,
        };
        Ok(tiers.into_iter().map(tier).collect())
    }

    fn check(mut self, id: String, now: Timestamp) -> Result<ModelDefinition, Problem> {
        let tiers = self.tiers()?;
        let start = self.start_date.as_deref().map(Timestamp::parse).transpose();
        let model = ModelDefinition {
            id,
            name: self.model_name,
            pattern: self.match_pattern,
            start_date: start.map_err(|error| Problem::body("startDate", error.to_string()))?,
            unit: self.unit,
            tokenizer_id: self.tokenizer_id,
            tokenizer_config: self.tokenizer_config.filter(|config| !config.is_null()),
            tiers,
            created_at: now,
            updated_at: now,
        };
        let faults = model.faults();
        if faults.is_empty() {
            return Ok(model);
        }
        Err(Problem::issues(Code::InvalidBody, faults))
    }
}

fn prices_view(prices: &BTreeMap<String, f64>) -> Value {
    let price = |(bucket, price): (&String, &f64)| (bucket.clone(), json!({ "price": price }));
    Value::Object(prices.iter().map(price).collect())
}

fn own_view(model: &ModelDefinition) -> Value {
    let none = BTreeMap::new();
    let prices = model.default_tier().map_or(&none, |tier| &tier.prices);
    let tiers = model.tiers.iter().map(|tier| {
        let mut view = json!(tier);
        view["id"] = format!("{}:{}", model.id, tier.priority).into();
        view
    });
    json!({
        "id": model.id,
        "modelName": model.name,
        "matchPattern": model.pattern,
        "startDate": model.start_date,
        "unit": model.unit,
        "inputPrice": prices.get("input"),
        "outputPrice": prices.get("output"),
        "totalPrice": prices.get("total"),
        "tokenizerId": model.tokenizer_id,
        "tokenizerConfig": model.tokenizer_config,
        "isLangfuseManaged": false,
        "createdAt": model.created_at,
        "prices": prices_view(prices),
        "pricingTiers": tiers.collect::<Vec<Value>>(),
    })
}

/// An entry of the built-in table, without its conditional tiers.
fn built_in_view(entry: &PriceEntry) -> Value {
    let listing = entry.listing.as_ref();
    let entry = entry.view();
    let prices: BTreeMap<String, f64> =
        entry.prices.iter().map(|(bucket, price)| ((*bucket).to_owned(), *price)).collect();
    let name = escape_pattern(entry.model);
    let pattern = entry.pattern.map_or_else(|| format!("(?i)^{name}$"), str::to_owned);
    json!({
        "id": entry.id,
        "modelName": entry.model,
        "matchPattern": pattern,
        "startDate": entry.start,
        "unit": "TOKENS",
        "inputPrice": prices.get("input"),
        "outputPrice": prices.get("output"),
        "totalPrice": prices.get("total"),
        "tokenizerId": null,
        "tokenizerConfig": null,
        "isLangfuseManaged": true,
        "seller": listing.map(|listing| &listing.seller),
        "isVendorPrice": listing.map(|listing| listing.is_own),
        "source": listing.map(|listing| &*listing.source),
        // The table has no times.
        "createdAt": Timestamp::from_millis(0),
        "prices": prices_view(&prices),
        "pricingTiers": [{
            "id": format!("{}:0", entry.id),
            "name": STANDARD,
            "isDefault": true,
            "priority": 0,
            "conditions": [],
            "prices": prices,
        }],
    })
}

/// Escapes a name for a regular expression.
fn escape_pattern(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

async fn list_models(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let own = app.store.catalog.models(&caller.project).await?;
    let built_in = PriceTable::built_in();
    let n_total = (own.len() + built_in.len()) as u64;
    let all = own.iter().map(own_view);
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let limit = paging.limit;
    // Responses are built for the page only: the table is long.
    let data: Vec<Value> = match skip.checked_sub(own.len()) {
        Some(skip) => {
            let entries = built_in.entries().iter().skip(skip);
            entries.take(limit as usize).map(built_in_view).collect()
        }
        None => {
            let entries = built_in.entries().iter().take(limit as usize);
            let all = all.skip(skip).chain(entries.map(built_in_view));
            all.take(limit as usize).collect()
        }
    };
    let meta = PageMeta::new(paging, n_total);
    Ok(Json(json!({ "data": data, "meta": meta })))
}

async fn find_model(
    app: &App,
    project: &ProjectId,
    id: &str,
) -> Result<Option<ModelDefinition>, Problem> {
    let own = app.store.catalog.models(project).await?;
    Ok(own.into_iter().find(|model| model.id == id))
}

async fn get_model(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    if let Some(model) = find_model(&app, &caller.project, &id).await? {
        return Ok(Json(own_view(&model)));
    }
    let built_in = PriceTable::built_in();
    let entry = built_in.entries().iter().find(|entry| entry.id == id);
    let entry = entry.ok_or_else(|| Problem::not_found("model"))?;
    Ok(Json(built_in_view(entry)))
}

fn name_conflict(error: perpend_db::Error) -> Problem {
    match error {
        // Clients of this endpoint expect 400 for a name in use.
        perpend_db::Error::Conflict(_) => {
            let message = "a model of this name and start date exists in the project";
            Problem::body("modelName", message)
        }
        error => error.into(),
    }
}

/// Refuses a pattern with which the patterns of the project exceed the size limit.
async fn check_patterns(
    app: &App,
    project: &ProjectId,
    model: &ModelDefinition,
) -> Result<(), Problem> {
    let mut models = app.store.catalog.models(project).await?;
    models.retain(|other| other.id != model.id);
    if fits_any_table(&model.pattern, models.len()) {
        return Ok(());
    }
    models.push(model.clone());
    let fits = tokio::task::spawn_blocking(move || {
        PriceTable::of_models(&models, PriceTable::built_in()).is_complete()
    });
    match fits.await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Problem::body(
            "matchPattern",
            "the compiled patterns of all models of the project must have at most 8 MiB; \
             use smaller patterns or delete models",
        )),
        Err(_) => Err(Problem::internal()),
    }
}

async fn create_model(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<ModelInput>,
) -> Result<Json<Value>, Problem> {
    let model = input.check(app.web.ids.uuid().to_string(), app.web.clock.now())?;
    check_patterns(&app, &caller.project, &model).await?;
    let made = app.store.catalog.create_model(&caller.project, &model).await;
    made.map_err(name_conflict)?;
    app.prices.forget(&caller.project);
    Ok(Json(own_view(&model)))
}

async fn put_model(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<ModelInput>,
) -> Result<Json<Value>, Problem> {
    let built_in = PriceTable::built_in();
    if built_in.entries().iter().any(|entry| entry.id == id) {
        return Err(Problem::not_found("model"));
    }
    let mut model = input.check(id, app.web.clock.now())?;
    if let Some(current) = find_model(&app, &caller.project, &model.id).await? {
        model.created_at = current.created_at;
    }
    check_patterns(&app, &caller.project, &model).await?;
    let made = app.store.catalog.replace_model(&caller.project, &model).await;
    made.map_err(name_conflict)?;
    app.prices.forget(&caller.project);
    Ok(Json(own_view(&model)))
}

async fn delete_model(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let deleted = app.store.catalog.delete_model(&caller.project, &id).await;
    deleted.map_err(|error| match error {
        perpend_db::Error::NotFound => Problem::not_found("model"),
        error => error.into(),
    })?;
    app.prices.forget(&caller.project);
    Ok(StatusCode::NO_CONTENT)
}
