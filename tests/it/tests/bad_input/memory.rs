//! Bodies of the smallest values there are, to every operation of the document that takes one: the memory of a
//! server process, as the system counts it.

use perpend_it::Child;
use perpend_server::client::{Answer, Client};
use serde_json::{Map, Value};

use super::document::{Known, Operation, operations, types};
use super::takes_body;

const MIB: usize = 1 << 20;
/// Bytes of a body of too many values.
const LARGE: usize = 8 * MIB;
/// Values that a body may hold, but for a few.
const N_VALUES: usize = 490_000;
/// The memory limit of the server.
const MAX_MEMORY: usize = 400 * MIB;
const MAX_ANSWER: usize = 1_000_000;

/// `n_values` of the smallest ones, as a value of JSON of this type.
fn filled(kind: &str, one: &str, n_values: usize) -> String {
    let one = format!("{one},");
    match kind {
        "object" => {
            let members = (0..n_values).map(|at| format!("\"{at:x}\":{one}"));
            format!("{{{}\"end\":1}}", members.collect::<String>())
        }
        _ => format!("[{}1]", one.repeat(n_values)),
    }
}

/// A body with values in each member that accepts a list, an object or any value.
fn in_each_position(to: &Operation, one: &str) -> Option<String> {
    let members = to.members().into_iter();
    let places: Vec<(&str, &str)> = members
        .filter_map(|(name, schema, _)| match types(schema).as_slice() {
            [] => Some((name, "array")),
            all if all.contains(&"array") => Some((name, "array")),
            all if all.contains(&"object") => Some((name, "object")),
            _ => None,
        })
        .collect();
    let n_each = N_VALUES / places.len().max(1);
    let mut rest: Map<String, Value> = to.sample(&Known::new());
    places.iter().for_each(|(name, _)| drop(rest.remove(*name)));
    let rest = Value::Object(rest).to_string();
    let members =
        places.iter().map(|(name, kind)| format!(",\"{name}\":{}", filled(kind, one, n_each)));
    let start = rest.strip_suffix('}')?;
    let body = format!("{start}{}}}", members.collect::<String>());
    (!places.is_empty()).then(|| body.replacen("{,", "{", 1))
}

/// Bodies that match no operation, each of 8 MB.
fn of_any_form() -> [String; 4] {
    let list = |one: &str| format!("[{}1]", one.repeat(LARGE / one.len() - 1));
    [
        list("1,"),
        list("{},"),
        format!("{{\"a\":{}", "[".repeat(LARGE - 5)),
        format!("{{{}\"a\":1}}", "\"a\":1,".repeat(LARGE / 6 - 2)),
    ]
}

fn is_well(server: &Child, to: &Operation, answer: &Answer) -> anyhow::Result<()> {
    let what = format!("{} {}", to.method, to.path);
    let peak = usize::try_from(server.peak_memory()?)?;
    anyhow::ensure!(answer.status.as_u16() < 500, "{what}: {}", answer.status);
    anyhow::ensure!(answer.body.len() < MAX_ANSWER, "{what}: a long answer");
    anyhow::ensure!(peak < MAX_MEMORY, "{what}: {} MiB", peak / MIB);
    Ok(())
}

#[tokio::test]
async fn bodies_of_the_smallest_values_take_little_memory_in_every_operation() -> anyhow::Result<()>
{
    let folder = tempfile::tempdir()?;
    let (public, secret) = perpend_it::ORGANIZATION_KEYS;
    let settings = [
        ("--api-max-body-kib", "8192"),
        ("--init-org-public-key", public),
        ("--init-org-secret-key", secret),
    ];
    let settings = settings.map(|(name, value)| [name, value]).concat();
    let server = Child::with(&folder.path().join("data"), &settings).await?;
    let organizer = Client::new(server.client.origin()).with_keys(public, secret);
    let headers = [("content-type", "application/json")];
    let large = of_any_form();
    let (mut n_sent, mut n_answered) = (0, 0);
    for to in operations(&server.client).await?.iter().filter(|to| takes_body(to)) {
        let client = match to.is_of_organization {
            true => &organizer,
            false => &server.client,
        };
        let address = to.address(&Known::new(), None);
        let in_places = ["1", "{}"].iter().filter_map(|one| in_each_position(to, one));
        for body in large.iter().cloned().chain(in_places) {
            let sent = client.send(to.method.clone(), &address, &headers, body);
            n_sent += 1;
            // A refusal before the body was read may close the connection while the body is sent.
            if let Ok(answer) = sent.await {
                is_well(&server, to, &answer)?;
                n_answered += 1;
            }
        }
    }
    anyhow::ensure!(
        300 < n_sent && n_sent / 2 < n_answered,
        "{n_answered} of {n_sent} requests were answered"
    );
    let health = server.client.get("/api/public/health").await?;
    anyhow::ensure!(health.status == 200, "{}", health.text());
    Ok(())
}
