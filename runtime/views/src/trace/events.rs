//! Events and links of an observation, read from its metadata.

use crate::markup::{encode, segment};
use perpend_domain::mapping::PathSegment;
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::Text;
use crate::format::{count, duration, plural};
use crate::values::content::{Addresses, Media, inline_medium, separate_media, without_media};
use perpend_domain::content::exceptions;

/// Maximum number of events or links, and of attributes of each.
const SHOWN: usize = 100;
const ATTRIBUTES: usize = 50;
/// Maximum characters of an attribute.
const CHARACTERS: usize = 500;
/// Maximum number of media of all events or of all links.
const MEDIA: usize = 20;
/// Maximum number of exceptions at the top, and characters of each text.
const FAILURES: usize = 3;
const FAILURE_CHARACTERS: usize = 8_000;
/// Larger metadata is shown in windows.
const SMALL_BYTES: usize = 16 * 1024;
const SMALL_NODES: usize = 150;

/// A recorded exception; absent fields are empty.
#[derive(Debug)]
pub(crate) struct RecordedException {
    pub(crate) kind: Text,
    pub(crate) message: Text,
    pub(crate) stack: Text,
    /// URL of the event.
    pub(crate) whole: String,
}

/// The first exceptions of an observation.
pub(crate) fn failures(observation: &Observation, at: &Addresses) -> Vec<RecordedException> {
    let shortened = |text: &str| cut(without_media(text), FAILURE_CHARACTERS);
    let found = exceptions(&observation.content.metadata).into_iter();
    let shown = found.take(FAILURES).map(|one| RecordedException {
        kind: shortened(one.kind),
        message: shortened(one.message),
        stack: shortened(one.stack),
        whole: at.at(&format!("$['events'][{}]", one.place)).page(""),
    });
    shown.collect()
}

/// Events or links.
#[derive(Debug)]
pub(crate) struct EventList {
    key: &'static str,
    pub(crate) title: &'static str,
    pub(crate) items: Vec<EventItem>,
    /// `100 of 1,000 shown` and the URL of the whole list, if it is cut.
    pub(crate) more: Option<(String, String)>,
}

/// An event, or a link to a trace.
#[derive(Debug)]
pub(crate) struct EventItem {
    time: Option<Timestamp>,
    /// Offset from the start of the observation.
    pub(crate) at: String,
    pub(crate) name: Text,
    pub(crate) href: Option<String>,
    /// Number of attributes, in words.
    pub(crate) summary: String,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) whole: String,
}

/// An attribute. Its value has a label in place of each medium.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) key: Text,
    pub(crate) value: Text,
    pub(crate) media: Vec<Media>,
    pub(crate) n_more_media: usize,
}

impl Attribute {
    fn new(key: &str, value: &Value, at: Option<&Addresses>) -> Self {
        let nowhere = Addresses::default();
        let at = at.and_then(|at| at.below(&PathSegment::Name(key.to_owned())));
        let n_media = if at.is_some() { MEDIA } else { 0 };
        let (value, media, n_more_media) =
            separate_media(value, at.as_ref().unwrap_or(&nowhere), n_media);
        Self { key: Text::from(key), value: cut(value, CHARACTERS), media, n_more_media }
    }
}

/// Events and links of an observation, and its metadata without them; `None` to show the whole metadata.
pub(crate) fn event_lists(
    observation: &Observation,
    base: &str,
    at: &Addresses,
) -> (Vec<EventList>, Option<Map<String, Value>>) {
    let metadata = &observation.content.metadata;
    let event = |item: &Map<String, Value>, at: &Addresses| {
        let name = Text::from(item.get("name")?.as_str()?);
        let time = item.get("time").and_then(Value::as_str);
        let time = time.and_then(|time| Timestamp::parse(time).ok());
        let after = time.map(|time| offset(time.micros_since(observation.start)));
        Some(EventItem { time, at: after.unwrap_or_default(), ..EventItem::of(name, item, at) })
    };
    let link = |item: &Map<String, Value>, at: &Addresses| {
        let trace = item.get("traceId")?.as_str()?;
        let span = item.get("spanId").and_then(Value::as_str);
        let span = span.map(|span| format!("?observation={}", encode(span)));
        let href = format!("{base}/traces/{}{}", segment(trace), span.unwrap_or_default());
        Some(EventItem { href: Some(href), ..EventItem::of(Text::from(trace), item, at) })
    };
    let lists = [
        list("Events", (metadata, "events"), at, event),
        list("Links", (metadata, "links"), at, link),
    ];
    let lists: Vec<EventList> = lists.into_iter().flatten().collect();
    let rest = rest(metadata, &lists);
    (lists, rest)
}

impl EventItem {
    fn of(name: Text, item: &Map<String, Value>, at: &Addresses) -> Self {
        let attributes = item.get("attributes").and_then(Value::as_object);
        let n = attributes.map_or(0, Map::len);
        let shown = attributes.into_iter().flatten().take(ATTRIBUTES);
        let of_all = at.below(&PathSegment::Name("attributes".to_owned()));
        let shown: Vec<Attribute> =
            shown.map(|(key, value)| Attribute::new(key, value, of_all.as_ref())).collect();
        let all = plural(n as u64, "attribute");
        Self {
            time: None,
            at: String::new(),
            name,
            href: None,
            summary: match shown.len() < n {
                true => format!("{} of {all}", shown.len()),
                false => all,
            },
            attributes: shown,
            whole: at.page(""),
        }
    }
}

/// Items of a metadata member by time; `None` if an item has another shape.
fn list(
    title: &'static str,
    (metadata, key): (&Map<String, Value>, &'static str),
    at: &Addresses,
    item: impl Fn(&Map<String, Value>, &Addresses) -> Option<EventItem>,
) -> Option<EventList> {
    let all = metadata.get(key)?.as_array()?;
    let items = all.iter().enumerate().map(|(nth, one)| {
        let at = at.at(&format!("$['{key}'][{nth}]"));
        item(one.as_object()?, &at)
    });
    let mut items: Vec<EventItem> = items.collect::<Option<_>>()?;
    items.sort_by_key(|item| (item.time.is_none(), item.time));
    let more = (SHOWN < items.len()).then(|| {
        let shown = format!("{SHOWN} of {} shown", count(items.len() as u64));
        (shown, at.at(&format!("$['{key}']")).page(""))
    });
    items.truncate(SHOWN);
    let mut n_left = MEDIA;
    for attribute in items.iter_mut().flat_map(|item| &mut item.attributes) {
        let n = attribute.media.len();
        attribute.media.truncate(n_left);
        attribute.n_more_media += n - attribute.media.len();
        n_left -= attribute.media.len();
    }
    (!items.is_empty()).then_some(EventList { key, title, items, more })
}

/// `+12 ms`, or `−5.0 ms` for a time before the start.
fn offset(us: i64) -> String {
    let sign = if us < 0 { "−" } else { "+" };
    format!("{sign}{}", duration(us.saturating_abs()))
}

/// The text, cut after `n_shown` characters.
fn cut(whole: String, n_shown: usize) -> Text {
    match whole.char_indices().nth(n_shown) {
        Some((end, _)) => {
            let n = count(whole.chars().count() as u64);
            let begins = whole.get(..end).unwrap_or_default();
            let shown = count(n_shown as u64);
            Text::lines(format!("{begins}… ({shown} of {n} characters)"))
        }
        None => Text::lines(whole),
    }
}

/// The metadata without these members. Windows of large metadata and media are addressed by their index among all members,
/// so that such metadata keeps all of them (`None`).
fn rest(metadata: &Map<String, Value>, lists: &[EventList]) -> Option<Map<String, Value>> {
    if lists.is_empty() {
        return None;
    }
    let others = metadata.iter();
    let others = others.filter(|(key, _)| lists.iter().all(|list| list.key != key.as_str()));
    let others: Map<String, Value> =
        others.map(|(key, value)| (key.clone(), value.clone())).collect();
    let json = Payload::Json(serde_json::to_string(&others).ok()?);
    let begins = |byte: &u8| matches!(byte, b',' | b'[' | b'{');
    let n_nodes = json.as_str().bytes().filter(begins).count();
    let is_small = json.as_str().len() <= SMALL_BYTES && n_nodes <= SMALL_NODES;
    (is_small && inline_medium(&json, 0).is_none()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages_tests::HOSTILE;
    use crate::trace::sample_observations::observation;
    use crate::values::content::MediaLocation;
    use serde_json::json;

    fn read(metadata: &Value) -> (Vec<EventList>, Option<Map<String, Value>>) {
        let mut observation = observation("a", None, 0, 10);
        observation.content.metadata = metadata.as_object().unwrap().clone();
        let at = Addresses::new("/project/p", "t", Some("a"), "metadata");
        event_lists(&observation, "/project/p", &at)
    }

    #[test]
    fn events_are_sorted_by_time_and_links_lead_to_their_traces() {
        let start = observation("a", None, 0, 10).start;
        let at = |ms: i64| start.plus_millis(ms).to_iso_micros();
        let (lists, rest) = read(&json!({
            "tier": "gold",
            "events": [
                { "name": "second", "time": at(20), "attributes": { "n": 1, "why": HOSTILE } },
                { "name": "first", "time": at(-5) },
                { "name": "timeless" },
            ],
            "links": [{ "traceId": "..", "spanId": "a b" }],
            "droppedEventsCount": 3,
        }));
        let [events, links] = lists.as_slice() else {
            panic!("{lists:?}");
        };
        let names: Vec<(&str, &str)> =
            events.items.iter().map(|item| (item.name.raw(), item.at.as_str())).collect();
        let all = [("first", "−5.0 ms"), ("second", "+20 ms"), ("timeless", "")];
        assert_eq!(names, all);
        assert_eq!(events.items[1].summary, "2 attributes");
        let whole = "path=%24%5B%27events%27%5D%5B0%5D";
        assert!(events.items[1].whole.ends_with(whole), "{events:?}");
        let href = links.items[0].href.as_deref();
        assert_eq!(href, Some("/project/p/traces/~..?observation=a%20b"));
        let rest: Vec<String> = rest.unwrap().into_iter().map(|(key, _)| key).collect();
        assert_eq!(rest.len(), 2, "{rest:?}");
    }

    #[test]
    fn members_of_another_shape_and_large_ones_stay_in_the_metadata() {
        for other in [
            json!({}),
            json!({ "events": [] }),
            json!({ "events": "none", "links": [1] }),
            json!({ "events": [{ "name": "one" }, { "title": "a concert" }] }),
        ] {
            let (lists, rest) = read(&other);
            assert!(lists.is_empty() && rest.is_none(), "{other}");
        }
        let many: Vec<Value> = (0..1_000).map(|n| json!({ "name": n.to_string() })).collect();
        let long = "x".repeat(20_000);
        let (large, rest) = read(&json!({ "events": many, "long": long }));
        assert_eq!(large[0].items.len(), SHOWN);
        let more = large[0].more.as_ref().map(|(text, _)| text.as_str());
        assert_eq!(more, Some("100 of 1,000 shown"));
        assert!(rest.is_none());
        // A long attribute ends with the number of characters.
        let value = Attribute::new("a", &json!("é".repeat(501)), None).value;
        assert!(value.raw().ends_with("é… (500 of 501 characters)"));
    }

    #[test]
    fn media_in_attributes_have_addresses_up_to_the_limit_of_all_events() {
        let image = format!("data:image/png;base64,iVBORw0KGgo{}", "A".repeat(101));
        let nested = json!({ "shots": [image, image] }).to_string();
        let attributes = json!({ "it's": format!("see {image}"), "nested": nested });
        let event = json!({ "name": "seen", "attributes": attributes });
        let (lists, _) = read(&json!({ "events": vec![event; 10] }));
        let items = &lists[0].items;
        let [plain, in_json] = items[1].attributes.as_slice() else {
            panic!("{items:?}");
        };
        assert!(plain.value.raw().starts_with("see [image/png"), "{plain:?}");
        let address = |medium: &Media| match &medium.location {
            MediaLocation::Image(address) => address.clone(),
            other => panic!("{other:?}"),
        };
        let addresses: Vec<String> = plain.media.iter().map(address).collect();
        let raw = "/project/p/traces/t/observations/a/raw/metadata/media/0?path=";
        let path = encode("$['events'][1]['attributes']['it\\'s']");
        assert_eq!(addresses, [format!("{raw}{path}")]);
        // The route counts media within the attribute.
        let of_nested = Payload::Text(nested);
        assert!(inline_medium(&of_nested, 1).is_some());
        let numbers: Vec<String> = in_json.media.iter().map(address).collect();
        assert!(numbers[1].contains("/media/1?path="), "{numbers:?}");
        let n_of = |item: &EventItem| -> usize {
            let all = item.attributes.iter();
            all.map(|attribute| attribute.media.len()).sum()
        };
        let n: Vec<usize> = items.iter().map(n_of).collect();
        assert_eq!(n, [3, 3, 3, 3, 3, 3, 2, 0, 0, 0]);
        assert_eq!(items[6].attributes[1].n_more_media, 1);
        // If the path is too long for a URL, type and size replace the medium.
        let long = json!({ "x".repeat(2_000): image });
        let (lists, _) = read(&json!({ "events": [{ "name": "seen", "attributes": long }] }));
        let only = &lists[0].items[0].attributes[0];
        assert!(only.media.is_empty() && only.value.raw().starts_with("[image/png"));
    }
}
