//! Selects the seller whose price applies to a model name, by the rule of `docs/prices.md`.
//!
//! 1. A reseller that the span names sells at its own price: the reseller before the model's name (`azure/gpt-4o`,
//!    `openrouter/…`), the span's provider (`aws.bedrock`), or Bedrock's way to write names (`us.anthropic.…`), in
//!    this order.
//! 2. Otherwise, and where that reseller has no entry for the model, the entry of the model's own vendor holds.
//! 3. Otherwise the price is unknown. The price of another reseller is never used.
//!
//! Within one seller a name is tried as it is, then without version and date, then without path, region and maker,
//! or without the owner of a fine-tuned model.

use std::collections::HashMap;

use super::entry::PriceEntry;
use super::names::{strip_shape, strip_version};

/// Further names of sellers, reduced to letters and digits.
const ALIASES: &[(&str, &str)] = &[
    ("alibabacloud", "alibaba"),
    ("amazonbedrock", "bedrock"),
    ("amazonnova", "amazon"),
    ("aws", "bedrock"),
    ("awsbedrock", "bedrock"),
    ("azaiinference", "azure"),
    ("azaiopenai", "azure"),
    ("azureai", "azure"),
    ("azureaiinference", "azure"),
    ("azureaiopenai", "azure"),
    ("azureopenai", "azure"),
    ("bedrockconverse", "bedrock"),
    ("bedrockmantle", "bedrock"),
    ("cf", "cloudflare"),
    ("copilot", "github_copilot"),
    ("dashscope", "alibaba"),
    ("deepseekai", "deepseek"),
    ("fireworks", "fireworks_ai"),
    ("gateway", "vercel_ai_gateway"),
    ("gcpgemini", "google"),
    ("gcpvertexai", "vertex_ai"),
    ("gemini", "google"),
    ("googleaistudio", "google"),
    ("googlegenai", "google"),
    ("googlegenerativeai", "google"),
    ("googlegla", "google"),
    ("googlevertex", "vertex_ai"),
    ("googlevertexai", "vertex_ai"),
    ("ibmwatsonxai", "watsonx"),
    ("metallama", "meta"),
    ("mistralai", "mistral"),
    ("moonshotai", "moonshot"),
    ("perplexityai", "perplexity"),
    ("publishers", "vertex_ai"),
    ("qwen", "alibaba"),
    ("together", "together_ai"),
    ("vercel", "vercel_ai_gateway"),
    ("vertex", "vertex_ai"),
    ("workersai", "cloudflare"),
    ("zaiorg", "zai"),
];

/// Before the maker in Bedrock's names of models: which regions a call may go to.
const REGIONS: &[&str] =
    &["us", "eu", "apac", "au", "ca", "jp", "global", "us-gov", "sa", "me", "af", "mx"];

/// Makers as Bedrock writes them before a model's name.
const MAKERS: &[&str] = &[
    "ai21",
    "amazon",
    "anthropic",
    "cohere",
    "deepseek",
    "google",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "moonshotai",
    "nvidia",
    "openai",
    "qwen",
    "stability",
    "twelvelabs",
    "writer",
    "xai",
    "zai",
];

const BEDROCK: &str = "bedrock";

/// Entries of sellers by every form of their names.
#[derive(Debug, Default)]
pub(super) struct Sellers {
    /// Sellers by their names in letters and digits alone.
    names: HashMap<String, String>,
    by_seller: HashMap<String, HashMap<String, SellerEntry>>,
    /// The vendors' own entries.
    own: HashMap<String, SellerEntry>,
}

#[derive(Clone, Copy, Debug)]
struct SellerEntry {
    rank: Rank,
    at: usize,
    is_own: bool,
}

/// Priority of entries that share a form of their names: the lowest rank is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_plain: bool,
    is_regional: bool,
    cuts: usize,
    order: usize,
}

/// One way to write a name, and how it was made.
struct Form {
    name: String,
    is_plain: bool,
    cuts: usize,
    is_undated: bool,
}

impl Sellers {
    pub(super) fn new(entries: &[PriceEntry]) -> Self {
        let mut sellers = Self::default();
        let listed = entries.iter().filter_map(|entry| entry.listing.as_ref());
        for listing in listed {
            let name = letters(&listing.seller);
            sellers.names.insert(name, listing.seller.clone());
        }
        for (alias, seller) in ALIASES {
            let name = (*alias).to_owned();
            sellers.names.entry(name).or_insert_with(|| (*seller).to_owned());
        }
        for (at, entry) in entries.iter().enumerate() {
            sellers.add(at, entry);
        }
        sellers
    }

    fn add(&mut self, at: usize, entry: &PriceEntry) {
        let Some(listing) = &entry.listing else {
            return;
        };
        let model = entry.model.to_lowercase();
        let name = match model.split_once('/') {
            Some((first, rest)) if self.named(first) == Some(&listing.seller) => rest,
            _ => &model,
        };
        let is_regional = name.contains('/') || without_maker(name).is_some_and(|(r, _)| r);
        for form in forms(name) {
            let order = if form.is_undated { usize::MAX - at } else { at };
            let rank = Rank { is_plain: form.is_plain, is_regional, cuts: form.cuts, order };
            let found = SellerEntry { rank, at, is_own: listing.is_own };
            if listing.is_own {
                keep(&mut self.own, form.name.clone(), found);
            }
            let names = self.by_seller.entry(listing.seller.clone()).or_default();
            keep(names, form.name, found);
        }
    }

    /// The entry whose price holds.
    pub(super) fn find(&self, model: &str, provider: Option<&str>) -> Option<usize> {
        let model = model.to_lowercase();
        let model = without_variant(&model);
        let resold = self.named_by(model, provider).into_iter();
        let mut resold = resold.filter_map(|(seller, name)| {
            let names = self.by_seller.get(seller)?;
            // The part after the last slash keeps the region, which the plain form does not have.
            let last = name.rsplit('/').next().unwrap_or(name);
            let whole = forms(name).into_iter().filter(|form| !form.is_plain);
            let mut forms = whole.chain(forms(last));
            forms.find_map(|form| names.get(&form.name))
        });
        if let Some(found) = resold.find(|found| !found.is_own) {
            return Some(found.at);
        }
        let mut own = tails(model).flat_map(forms);
        let found = own.find_map(|form| self.own.get(&form.name))?;
        Some(found.at)
    }

    /// The sellers that a span names, each with the model's name as this seller would write it.
    fn named_by<'n>(&self, model: &'n str, provider: Option<&str>) -> Vec<(&str, &'n str)> {
        let mut named = Vec::new();
        let mut rest = model;
        while let Some((first, tail)) = rest.split_once('/') {
            named.extend(self.named(first).map(|seller| (seller, tail)));
            rest = tail;
        }
        let mut provider = provider.unwrap_or_default();
        while !provider.is_empty() {
            if let Some(seller) = self.named(provider) {
                named.push((seller, model));
                break;
            }
            // The part after the last point may be an API: `groq.chat`.
            provider = provider.rsplit_once('.').map_or("", |(first, _)| first);
        }
        if without_maker(rest).is_some() {
            named.push((BEDROCK, rest));
        }
        named
    }

    fn named(&self, seller: &str) -> Option<&str> {
        self.names.get(&letters(seller)).map(String::as_str)
    }
}

fn keep(names: &mut HashMap<String, SellerEntry>, name: String, found: SellerEntry) {
    let kept = names.entry(name).or_insert(found);
    if found.rank < kept.rank {
        *kept = found;
    }
}

/// A name without the mark of a variant that has the same prices: `claude-sonnet-4-5[1m]` of Claude Code.
fn without_variant(name: &str) -> &str {
    let marked = name.strip_suffix(']').and_then(|name| name.rsplit_once('['));
    marked.map_or(name, |(name, _)| name)
}

fn letters(text: &str) -> String {
    let letters = text.chars().filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().to_ascii_lowercase()
}

/// A name, and what is behind each of its slashes.
fn tails(name: &str) -> impl Iterator<Item = &str> {
    let behind = name.match_indices('/').map(|(at, _)| &name[at + 1..]);
    std::iter::once(name).chain(behind)
}

/// The ways to write a lower-case name, from the most exact to the barest.
fn forms(name: &str) -> Vec<Form> {
    let name = name.replace('@', "-");
    let last = name.rsplit('/').next().unwrap_or(&name);
    let made = without_maker(last);
    let is_bedrock = made.is_some();
    let plain = made.map_or(last, |(_, bare)| bare);
    let plain = plain.strip_suffix("-maas").unwrap_or(plain);
    let plain = without_owner(plain).unwrap_or(plain);
    let mut forms: Vec<Form> = Vec::new();
    for (start, is_plain) in [(name.as_str(), false), (plain, true)] {
        let mut next = Some((start, false));
        let (mut cuts, mut is_undated) = (0, false);
        while let Some((form, was_date)) = next {
            is_undated |= was_date;
            if forms.iter().all(|known| known.name != form) {
                forms.push(Form { name: form.to_owned(), is_plain, cuts, is_undated });
            }
            cuts += 1;
            next = shorter(form, is_bedrock);
        }
    }
    forms
}

/// A name without its last version, or date; the flag is true for a date.
fn shorter(name: &str, is_bedrock: bool) -> Option<(&str, bool)> {
    let version = match is_bedrock {
        // `-v1:0` and `-v1:0:28k`, step by step, as Bedrock has `-v1` too.
        true => name.rsplit_once(':').map(|(head, _)| head).or_else(|| strip_shape(name, "-v0")),
        false => strip_version(name),
    };
    let date = || {
        ["-0000-00-00", "-00000000", "-latest", "-default"]
            .into_iter()
            .find_map(|shape| strip_shape(name, shape))
            // `gemini-2.0-flash-001`. Numbers of three digits elsewhere name models: `davinci-002`.
            .or_else(|| strip_shape(name, "-000").filter(|head| head.contains("gemini-")))
    };
    let cut = match version {
        Some(head) => Some((head, false)),
        None => date().map(|head| (head, true)),
    };
    // The rest must still be a model name: `claude-v1` and `chat-latest` are complete.
    cut.filter(|(head, _)| head.contains('-'))
}

/// OpenAI's `ft:gpt-4o-2024-08-06:acme::AbC123` without whose it is: all models tuned from one base cost the same.
fn without_owner(name: &str) -> Option<&str> {
    let (second, _) = name.match_indices(':').nth(1)?;
    name.starts_with("ft:").then(|| &name[..second])
}

/// A name of Bedrock without maker and region: `us.anthropic.claude-…`. The flag is true if there was a region.
fn without_maker(name: &str) -> Option<(bool, &str)> {
    let (first, rest) = name.split_once('.')?;
    if MAKERS.contains(&first) {
        return Some((false, rest));
    }
    let (maker, bare) = rest.split_once('.')?;
    (REGIONS.contains(&first) && MAKERS.contains(&maker)).then_some((true, bare))
}
