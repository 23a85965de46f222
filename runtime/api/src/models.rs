//! Models and prices: those of the project, which take precedence, and the built-in table.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use perpend_api_types::any_json::AnyJson;
use perpend_api_types::list::{NumberedList, PageMeta};
use perpend_domain::access::Permission::{ModelRead, ModelWrite};
use perpend_domain::ids::ProjectId;
use perpend_domain::model::{ModelDefinition, PricingTier, TierCondition};
use perpend_domain::pricing::{PriceEntry, PriceTable, STANDARD, fits_any_table};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, Params};
use perpend_http_kit::page;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    pricing_tiers: Option<Vec<TierInput>>,
    /// `openai` or `claude`.
    tokenizer_id: Option<String>,
    /// Any JSON value.
    tokenizer_config: Option<Value>,
}

/// Prices with conditions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PricingTierInput)]
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

/// The price of a unit.
#[derive(Debug, Serialize, ToSchema)]
struct UnitPrice {
    /// US dollars.
    price: f64,
}

/// Prices with conditions. The tier with priority 0 applies when no other does.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PricingTier)]
struct TierView {
    name: String,
    is_default: bool,
    priority: i64,
    /// All must hold.
    conditions: Vec<TierCondition>,
    /// US dollars per unit, by kind of usage.
    prices: BTreeMap<String, f64>,
    id: String,
}

/// A model with its prices in US dollars per unit.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Model)]
struct ModelView {
    id: String,
    model_name: String,
    /// Regular expression that matches the names of the model in telemetry.
    match_pattern: String,
    start_date: Option<Timestamp>,
    /// `TOKENS`, `CHARACTERS`, `MILLISECONDS`, `SECONDS`, `IMAGES` or `REQUESTS`.
    unit: Option<String>,
    input_price: Option<f64>,
    output_price: Option<f64>,
    total_price: Option<f64>,
    tokenizer_id: Option<String>,
    #[schema(nullable = false)]
    tokenizer_config: Option<AnyJson>,
    /// Whether the model is built in.
    is_langfuse_managed: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ListingView)]
    listing: Option<ListingView>,
    /// The start of the Unix epoch for built-in models.
    created_at: Timestamp,
    /// By kind of usage.
    prices: BTreeMap<String, UnitPrice>,
    pricing_tiers: Vec<TierView>,
}

/// The origin of built-in prices.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PriceListing)]
struct ListingView {
    /// The seller of the model.
    seller: Option<String>,
    /// Whether the vendor of the model is the seller.
    is_vendor_price: Option<bool>,
    source: Option<String>,
}

fn prices_view(prices: &BTreeMap<String, f64>) -> BTreeMap<String, UnitPrice> {
    prices.iter().map(|(bucket, price)| (bucket.clone(), UnitPrice { price: *price })).collect()
}

fn own_view(model: &ModelDefinition) -> ModelView {
    let none = BTreeMap::new();
    let prices = model.default_tier().map_or(&none, |tier| &tier.prices);
    let tier = |tier: &PricingTier| TierView {
        name: tier.name.clone(),
        is_default: tier.is_default,
        priority: tier.priority,
        conditions: tier.conditions.clone(),
        prices: tier.prices.clone(),
        id: format!("{}:{}", model.id, tier.priority),
    };
    ModelView {
        id: model.id.clone(),
        model_name: model.name.clone(),
        match_pattern: model.pattern.clone(),
        start_date: model.start_date,
        unit: model.unit.clone(),
        input_price: prices.get("input").copied(),
        output_price: prices.get("output").copied(),
        total_price: prices.get("total").copied(),
        tokenizer_id: model.tokenizer_id.clone(),
        tokenizer_config: model.tokenizer_config.as_ref().map(AnyJson::from),
        is_langfuse_managed: false,
        listing: None,
        created_at: model.created_at,
        prices: prices_view(prices),
        pricing_tiers: model.tiers.iter().map(tier).collect(),
    }
}

/// An entry of the built-in table, without its conditional tiers.
fn built_in_view(entry: &PriceEntry) -> ModelView {
    let listing = entry.listing.as_ref();
    let entry = entry.view();
    let prices: BTreeMap<String, f64> =
        entry.prices.iter().map(|(bucket, price)| ((*bucket).to_owned(), *price)).collect();
    let name = escape_pattern(entry.model);
    ModelView {
        id: entry.id.to_owned(),
        model_name: entry.model.to_owned(),
        match_pattern: entry.pattern.map_or_else(|| format!("(?i)^{name}$"), str::to_owned),
        start_date: entry.start,
        unit: Some("TOKENS".to_owned()),
        input_price: prices.get("input").copied(),
        output_price: prices.get("output").copied(),
        total_price: prices.get("total").copied(),
        tokenizer_id: None,
        tokenizer_config: None,
        is_langfuse_managed: true,
        listing: Some(ListingView {
            seller: listing.map(|listing| listing.seller.clone()),
            is_vendor_price: listing.map(|listing| listing.is_own),
            source: listing.map(|listing| listing.source.to_string()),
        }),
        // The table has no times.
        created_at: Timestamp::from_millis(0),
        prices: prices_view(&prices),
        pricing_tiers: vec![TierView {
            name: STANDARD.to_owned(),
            is_default: true,
            priority: 0,
            conditions: Vec::new(),
            prices,
            id: format!("{}:0", entry.id),
        }],
    }
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
) -> Result<Answer<NumberedList<ModelView>>, Problem> {
    let paging = page::paging(&params)?;
    let own = app.store.catalog.models(&caller.project).await?;
    let built_in = PriceTable::built_in();
    let n_total = (own.len() + built_in.len()) as u64;
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let limit = paging.limit;
    // Responses are built for the page only: the table is long.
    let data: Vec<ModelView> = match skip.checked_sub(own.len()) {
        Some(skip) => {
            let entries = built_in.entries().iter().skip(skip);
            entries.take(limit as usize).map(built_in_view).collect()
        }
        None => {
            let entries = built_in.entries().iter().take(limit as usize);
            let own = own.iter().skip(skip).map(own_view);
            own.chain(entries.map(built_in_view)).take(limit as usize).collect()
        }
    };
    let meta = PageMeta::new(paging, n_total);
    Ok(Answer(NumberedList { data, meta }))
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
) -> Result<Answer<ModelView>, Problem> {
    if let Some(model) = find_model(&app, &caller.project, &id).await? {
        return Ok(Answer(own_view(&model)));
    }
    let built_in = PriceTable::built_in();
    let entry = built_in.entries().iter().find(|entry| entry.id == id);
    let entry = entry.ok_or_else(|| Problem::not_found("model"))?;
    Ok(Answer(built_in_view(entry)))
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
) -> Result<Answer<ModelView>, Problem> {
    let model = input.check(app.web.ids.uuid().to_string(), app.web.clock.now())?;
    check_patterns(&app, &caller.project, &model).await?;
    let made = app.store.catalog.create_model(&caller.project, &model).await;
    made.map_err(name_conflict)?;
    app.prices.forget(&caller.project);
    Ok(Answer(own_view(&model)))
}

async fn put_model(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<ModelInput>,
) -> Result<Answer<ModelView>, Problem> {
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
    Ok(Answer(own_view(&model)))
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
