//! The table of list prices: `data/prices.tsv`, which `data/convert_prices.py` makes.

use std::collections::HashMap;
use std::sync::Arc;

use rust_decimal::Decimal;

use super::entry::{Condition, InvalidPrices, Listing, PriceEntry, Prices, STANDARD, Tier};

/// The buckets of prices that are written without a name, in this order.
const COLUMNS: [&str; 5] =
    ["input", "output", "input_cached_tokens", "input_cache_creation", "input_cache_creation_1h"];
/// Written in millionths.
const PER_MILLION: u32 = 6;

/// Reads the table: comments, among them the sources by number, then one entry a line.
pub(super) fn parse(text: &str) -> Result<Vec<PriceEntry>, InvalidPrices> {
    let mut sources: HashMap<&str, Arc<str>> = HashMap::new();
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(comment) = line.strip_prefix('#') {
            let source = comment.trim_start().strip_prefix("source ");
            if let Some((number, source)) = source.and_then(|text| text.split_once(": ")) {
                sources.insert(number, source.into());
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let entry = entry(line, &sources);
        entries.push(entry.map_err(|fault| InvalidPrices(format!("line {}: {fault}", at + 1)))?);
    }
    Ok(entries)
}

fn entry(line: &str, sources: &HashMap<&str, Arc<str>>) -> Result<PriceEntry, String> {
    let mut columns = line.split('\t');
    let mut column = |name: &str| columns.next().ok_or_else(|| format!("no {name}"));
    let (model, seller) = (column("model")?, column("seller")?);
    let is_own = match column("mark of the vendor's own entry")? {
        "own" => true,
        "-" => false,
        other => return Err(format!("`{other}` is neither `own` nor `-`")),
    };
    let source = column("source")?;
    let source = sources.get(source).ok_or_else(|| format!("source `{source}` is not declared"))?;
    let prices = prices(column("prices")?)?;
    let tiers: Result<Vec<Tier>, String> = columns.map(|text| tier(text, &prices)).collect();
    Ok(PriceEntry {
        id: format!("built-in:{model}"),
        model: model.to_owned(),
        listing: Some(Listing { seller: seller.to_owned(), is_own, source: Arc::clone(source) }),
        pattern: None,
        start: None,
        tiers: tiers?,
        tier: STANDARD.into(),
        prices,
    })
}

/// `3,15,0.3,,,bucket=2`: dollars per million tokens.
fn prices(text: &str) -> Result<Prices, String> {
    let mut prices = Prices::new();
    for (at, price) in text.split(',').enumerate() {
        let (bucket, price) = match (price.split_once('='), COLUMNS.get(at)) {
            (Some((bucket, price)), _) => (bucket, price),
            (None, Some(bucket)) => (*bucket, price),
            (None, None) => return Err(format!("price `{price}` is of no bucket")),
        };
        if !price.is_empty() {
            prices.insert(bucket.to_owned(), per_token(bucket, price)?);
        }
    }
    Ok(prices)
}

fn per_token(bucket: &str, text: &str) -> Result<Decimal, String> {
    let invalid = || format!("price of `{bucket}` is not a number");
    let mut price: Decimal = text.parse().map_err(|_| invalid())?;
    if price.is_sign_negative() && !price.is_zero() {
        return Err(format!("price of `{bucket}` is negative"));
    }
    let scale = price.scale() + PER_MILLION;
    price.set_scale(scale).map_err(|_| invalid())?;
    Ok(price)
}

/// `batch>200000:PRICES`: a service tier, or a number of input tokens, or both. Prices that it leaves out are as usual.
fn tier(text: &str, usual: &Prices) -> Result<Tier, String> {
    let (when, own) = text.split_once(':').ok_or_else(|| format!("tier `{text}` has no prices"))?;
    let (service, above) = match when.split_once('>') {
        Some((service, above)) => (service, Some(above)),
        None => (when, None),
    };
    let mut conditions = Vec::new();
    if !service.is_empty() {
        conditions.push(Condition::Service(service.to_owned()));
    }
    if let Some(above) = above {
        let above = above.parse();
        conditions.push(Condition::InputAbove(
            above.map_err(|_| format!("tier `{when}` is not a number of tokens"))?,
        ));
    }
    if conditions.is_empty() {
        return Err(format!("tier `{text}` has no condition"));
    }
    let mut complete = usual.clone();
    complete.extend(prices(own)?);
    let names: Vec<String> = conditions.iter().map(Condition::name).collect();
    Ok(Tier { name: names.join(", ").into(), conditions, prices: complete })
}
