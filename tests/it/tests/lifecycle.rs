//! The program as a process: bad settings, signals, and being killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Method;
use perpend_it::raw::{PAIR, RawRequest};
use perpend_it::{Child, KEYS, OTLP, Trace, command, count, origin_in, trace_id, wait_for};
use perpend_server::client::Client;
use serde_json::{Value, json};

const ROUNDS: u64 = 20;

#[tokio::test]
async fn bad_settings_stop_the_start_and_name_the_key() {
    for (args, env, parts) in [
        (&["--listen", "nowhere"][..], None, ["server.listen", "127.0.0.1:4717"]),
        (&["--database-url", "mysql://x"], None, ["database.url", "postgres://"]),
        (&[], Some(("PERPEND_LISTN", "x")), ["PERPEND_LISTN", "PERPEND_LISTEN"]),
        (&[], Some(("PERPEND_INIT_PUBLIC_KEY", "x")), ["init.secret_key", "both"]),
        (&["--config", "/no/such/file.toml"], None, ["/no/such/file.toml", "cannot read"]),
        (&["--data-dir", "/proc/none"], None, ["/proc/none", "cannot create"]),
    ] {
        let mut serve = command(&["serve"]).unwrap();
        serve.args(args).envs(env);
        let output = serve.output().await.unwrap();
        assert!(!output.status.success(), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        for part in parts {
            assert!(text.contains(part), "{args:?}: {text}");
        }
    }
}

/// Starts a server on `dir`; returns its output up to the line that contains `until`.
async fn serve_until(dir: &Path, until: &str) -> (tokio::process::Child, Vec<String>) {
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]).unwrap();
    // Plug-ins are compiled again, which leaves time between the key pair and the end of the start.
    serve
        .arg(dir)
        .env_remove("PERPEND_DATA_PLUGIN_CACHE")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    let mut process = serve.spawn().unwrap();
    let stdout = tokio::io::BufReader::new(process.stdout.take().unwrap());
    let mut lines = tokio::io::AsyncBufReadExt::lines(stdout);
    let mut output: Vec<String> = Vec::new();
    while !output.last().is_some_and(|line| line.contains(until)) {
        let line = lines.next_line().await.unwrap();
        output.push(line.unwrap_or_else(|| unreachable!("no {until}: {output:?}")));
    }
    (process, output)
}

/// The printed key pair.
fn pair_in(output: &[String]) -> Option<(String, String)> {
    let key = |name: &str| {
        let start = format!("  export {name}=");
        let mut found = output.iter().filter_map(|line| line.strip_prefix(&start));
        found.next().map(str::to_owned)
    };
    key("PERPEND_PUBLIC_KEY").zip(key("PERPEND_SECRET_KEY"))
}

async fn opens((public, secret): &(String, String), output: &[String]) {
    let client = Client::new(origin_in(output.last().unwrap()).unwrap()).with_keys(public, secret);
    let answer = client.get("/api/public/projects").await.unwrap();
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn the_first_start_prints_a_key_pair_that_opens_the_project_and_later_ones_do_not() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    for is_first in [true, false] {
        let (mut process, output) = serve_until(&dir, "/?token=").await;
        let pair = pair_in(&output);
        assert_eq!(pair.is_some(), is_first, "{output:?}");
        if let Some(pair) = pair {
            opens(&pair, &output).await;
        }
        process.kill().await.unwrap();
    }
}

#[tokio::test]
async fn contradictory_settings_of_a_start_are_refused_with_a_remedy() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().to_str().unwrap();
    Child::start(data.path()).await.unwrap().kill().await.unwrap();
    let refused = async |args: &[&str]| {
        let ended = command(args).unwrap().output().await.unwrap();
        assert!(!ended.status.success(), "{args:?}");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let output = refused(&["demo", "--once", "--data-dir", dir]).await;
    assert!(output.contains("--data-dir"), "{output}");
    // The pair of a former start with another secret would open nothing.
    let keys = ["--init-public-key", KEYS.0, "--init-secret-key", "another"];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", dir];
    let output = refused(&[&serve[..], &keys[..]].concat()).await;
    assert!(output.contains("init.public_key"), "{output}");
}

/// The output of a start that fails.
async fn refused_start(args: &[&str]) -> String {
    let ended = command(args).unwrap().output().await.unwrap();
    assert!(!ended.status.success(), "{args:?}");
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[tokio::test]
async fn a_lost_or_different_secrets_key_stops_the_start_and_a_reset_is_the_last_way_out() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let key = dir.join("secrets.key");
    let start = async || {
        let mut child = Child::start(&dir).await.unwrap();
        assert!(child.terminate().await.unwrap().success());
    };
    start().await;
    let former = std::fs::read(&key).unwrap();
    let at = dir.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", at];
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let output = refused_start(&[&serve[..], &["--secrets-key", other]].concat()).await;
    assert!(output.contains("PERPEND_SECRETS_KEY"), "{output}");
    std::fs::remove_file(&key).unwrap();
    let output = refused_start(&serve).await;
    assert!(output.contains("perpend secrets reset"), "{output}");
    assert!(!key.exists(), "no key is made in silence");

    // Without the word nothing changes, and with the former key all is as it was.
    let reset = ["secrets", "reset", "--data-dir", at];
    refused_start(&reset).await;
    assert!(!key.exists());
    std::fs::write(&key, &former).unwrap();
    start().await;

    std::fs::remove_file(&key).unwrap();
    let confirmed = [&reset[..], &["--confirm"]].concat();
    let done = command(&confirmed).unwrap().output().await.unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_ne!(std::fs::read(&key).unwrap(), former);
    start().await;
}

#[tokio::test]
async fn an_emptied_database_stops_the_start() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let mut child = Child::start(&dir).await.unwrap();
    child.kill().await.unwrap();
    std::fs::write(dir.join("perpend.db"), "").unwrap();
    let at = dir.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", at];
    let output = refused_start(&serve).await;
    assert!(output.contains("0 bytes") && output.contains("backup"), "{output}");
    assert_eq!(std::fs::metadata(dir.join("perpend.db")).unwrap().len(), 0);
}

#[tokio::test]
async fn a_missing_database_with_an_existing_key_stops_the_start() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let mut child = Child::start(&dir).await.unwrap();
    assert!(child.terminate().await.unwrap().success());
    let database = dir.join("perpend.db");
    let at = dir.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", at];
    let aside = data.path().join("aside.db");
    std::fs::rename(&database, &aside).unwrap();
    let output = refused_start(&serve).await;
    assert!(output.contains("perpend.db is missing"), "{output}");
    assert!(!database.exists(), "nothing is made in its place");
    std::fs::rename(&aside, &database).unwrap();
    let mut child = Child::start(&dir).await.unwrap();
    assert!(child.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_start_with_too_few_descriptors_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let refused = Child::with_descriptors(40, &dir, &[]).await.unwrap_err();
    let refused = format!("{refused:#}");
    assert!(refused.contains("got 40"), "{refused}");
    assert!(refused.contains("ulimit -n"), "{refused}");
}

#[tokio::test]
async fn a_deleted_pair_stays_deleted_over_a_restart_with_the_same_settings_and_is_logged() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let organization = ("pk-of-org", "sk-of-org-long-enough");
    let settings =
        ["--init-org-public-key", organization.0, "--init-org-secret-key", organization.1];
    let mut child = Child::with(&dir, &settings).await.unwrap();
    let organizer = child.client.clone().with_keys(organization.0, organization.1);
    let project = child.client.get("/api/public/projects").await.unwrap().json();
    let project = project["data"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/public/projects/{project}/apiKeys");
    let keys = organizer.get(&path).await.unwrap().json();
    let path = format!("{path}/{}", keys["apiKeys"][0]["id"].as_str().unwrap());
    let deleted = organizer.send(Method::DELETE, &path, &[], "").await;
    assert_eq!(deleted.unwrap().status, 200);
    child.terminate().await.unwrap();

    let child = Child::with(&dir, &settings).await.unwrap();
    let refused = child.client.get("/api/public/projects").await.unwrap();
    assert_eq!(refused.status, 401);
    let log = std::fs::read_to_string(dir.with_extension("log")).unwrap();
    for part in ["WARN", "PERPEND_INIT_PUBLIC_KEY", KEYS.0, "was deleted"] {
        assert!(log.contains(part), "{part} in {log}");
    }
    assert!(!log.contains(KEYS.1), "no secret in the log");
    // Wrong credentials are in the log with where they came from.
    for part in ["credentials refused", "127.0.0.1", "unknown or expired public key"] {
        assert!(log.contains(part), "{part} in {log}");
    }
}

#[tokio::test]
async fn a_first_start_that_is_killed_loses_no_key_pair() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    // Killed as soon as the pair is shown, before it is stored or after; then left to come up.
    let (mut process, output) = serve_until(&dir, "export PERPEND_SECRET_KEY=").await;
    process.kill().await.unwrap();
    let first = pair_in(&output).unwrap();
    let (mut process, output) = serve_until(&dir, "/?token=").await;
    opens(&pair_in(&output).unwrap_or(first), &output).await;
    process.kill().await.unwrap();
}

#[tokio::test]
async fn sigterm_lets_requests_under_way_finish_and_ends_well() {
    let data = tempfile::tempdir().unwrap();
    let mut child = Child::start(&data.path().join("data")).await.unwrap();
    let client = child.client.clone();
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let started = Arc::new(tokio::sync::Notify::new());
    let text = Trace::new(1, "late").to_json().to_string();
    let (head, tail) = text.split_at(10);
    sender.send(Ok(head.as_bytes().to_vec())).await.unwrap();
    let signal = Arc::clone(&started);
    let body = axum::body::Body::from_stream(tokio_stream(receiver, signal));
    let request = tokio::spawn(async move {
        let headers = [("content-type", "application/json")];
        client.send(Method::POST, OTLP, &headers, body).await
    });
    // The first part is on its way; the signal comes in the middle of the request.
    started.notified().await;
    let ending = tokio::spawn(async move { child.terminate().await });
    sender.send(Ok(tail.as_bytes().to_vec())).await.unwrap();
    drop(sender);
    let answer = request.await.unwrap();
    let status = ending.await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    // The signal may arrive before the head of the request: then it was refused, and nothing is owed.
    if let Ok(answer) = answer {
        assert_eq!(answer.status, 200);
        let again = Child::start(&data.path().join("data")).await.unwrap();
        let found = again.client.get(&format!("/api/public/traces/{}", trace_id(1))).await.unwrap();
        assert_eq!(found.status, 200);
    }
}

/// The parts of a body as they are sent; tells when the first one was taken.
fn tokio_stream(
    receiver: tokio::sync::mpsc::Receiver<Result<Vec<u8>, std::io::Error>>,
    started: Arc<tokio::sync::Notify>,
) -> impl futures_util::Stream<Item = Result<Vec<u8>, std::io::Error>> {
    futures_util::stream::unfold((receiver, started), |(mut receiver, started)| async move {
        let part = receiver.recv().await?;
        started.notify_one();
        Some((part, (receiver, started)))
    })
}

/// Sends traces until stopped; returns the numbers of the acknowledged ones.
async fn load(client: Client, next: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        let trace = Trace::new(number, "root").generation("answer", "an order");
        match client.json(Method::POST, OTLP, &trace.to_json()).await {
            Ok(answer) if answer.status == 200 => acknowledged.push(number),
            _ => break,
        }
    }
    acknowledged
}

async fn make_rule(client: &Client) {
    let body = json!({
        "type": "plugin", "name": "e", "plugin": "perpend/text", "evaluator": "length", "config": { "max": 1000 },
    });
    let made = client.json(Method::POST, "/api/public/v2/evaluators", &body).await.unwrap().json();
    let filter = json!([{ "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"] }]);
    let body = json!({
        "name": "r", "enabled": true, "settleMs": 0, "filter": filter,
        "evaluatorAssignments": [{ "evaluatorId": made["id"] }],
    });
    let made = client.json(Method::POST, "/api/public/v2/evaluation-rules", &body).await.unwrap();
    assert_eq!(made.status, 200, "{}", made.text());
}

/// All pages of the scores: trace ids.
async fn scored(client: &Client) -> Vec<String> {
    let mut traces = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/public/v3/scores?fields=subject&limit=100&cursor={cursor}");
        let page = client.get(&path).await.unwrap().json();
        for score in page["data"].as_array().unwrap() {
            traces.push(score["subject"]["traceId"].as_str().unwrap().to_owned());
        }
        match page["meta"]["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return traces,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_twenty_times_under_load_no_acknowledged_span_is_lost_and_no_score_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let next = Arc::new(AtomicU64::new(0));
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        let mut child = Child::start(&data).await.unwrap();
        if round == 0 {
            make_rule(&child.client).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let senders: Vec<_> = (0..4)
            .map(|_| tokio::spawn(load(child.client.clone(), Arc::clone(&next), Arc::clone(&stop))))
            .collect();
        // Killed after a number of acknowledgements that differs from round to round.
        let goal = next.load(Ordering::SeqCst) + 5 + (round * 7) % 31;
        while next.load(Ordering::SeqCst) < goal
            && senders.iter().any(|sender| !sender.is_finished())
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        child.kill().await.unwrap();
        stop.store(true, Ordering::SeqCst);
        for sender in senders {
            acknowledged.extend(sender.await.unwrap());
        }
    }
    assert!(
        acknowledged.len() as u64 > 2 * ROUNDS,
        "only {} were acknowledged",
        acknowledged.len()
    );

    let child = Child::start(&data).await.unwrap();
    for number in &acknowledged {
        let path = format!("/api/public/traces/{}?fields=core,observations", trace_id(*number));
        let found = child.client.get(&path).await.unwrap();
        assert_eq!(found.status, 200, "trace {number} was acknowledged and is lost");
        assert_eq!(found.json()["observations"].as_array().unwrap().len(), 2, "trace {number}");
    }
    // Every generation that arrived is scored in the end, those of unanswered requests too.
    let arrived = child.client.get("/api/public/traces?limit=1&fields=core").await.unwrap().json();
    let n_traces = arrived["meta"]["totalItems"].as_u64().unwrap();
    let list = "/api/public/v2/scores?limit=1&fields=score";
    let all = |answer: &Value| answer["meta"]["totalItems"].as_u64() >= Some(n_traces);
    // Leases of the killed server were released at the start, so nothing waits for their expiry.
    wait_for(&child.client, list, all).await.unwrap();
    let traces = scored(&child.client).await;
    let unique: BTreeSet<&String> = traces.iter().collect();
    assert_eq!(unique.len(), traces.len(), "a score was written twice");
    assert_eq!(traces.len() as u64, n_traces);
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut child = Child::start(&data).await.unwrap();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]).unwrap();
    let second = serve.arg("--data-dir").arg(&data).output().await.unwrap();
    assert!(!second.status.success());
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(text.contains("another server"), "{text}");
    let health = child.client.get("/api/public/health").await.unwrap();
    assert_eq!(health.status, 200, "the first one goes on");
    assert!(child.terminate().await.unwrap().success());
}

#[tokio::test]
async fn a_damaged_cache_of_compiled_plug_ins_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let cache = folder.path().join("cache");
    let own = ["--data-plugin-cache", cache.to_str().unwrap()];
    let mut child = Child::with(&data, &own).await.unwrap();
    make_rule(&child.client).await;
    child.terminate().await.unwrap();
    let mut n_damaged = 0;
    let mut folders = vec![cache.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::metadata(&path).unwrap().len() > 10_000 {
                std::fs::write(&path, b"not what was compiled").unwrap();
                n_damaged += 1;
            }
        }
    }
    assert!(n_damaged > 0, "nothing was compiled ahead");
    let child = Child::with(&data, &own).await.unwrap();
    let trace = Trace::new(1, "root").generation("answer", "text");
    let sent = child.client.json(Method::POST, OTLP, &trace.to_json()).await.unwrap();
    assert_eq!(sent.status, 200);
    let scores =
        wait_for(&child.client, "/api/public/v3/scores", |answer| count(answer) == 1).await;
    assert_eq!(scores.unwrap()["data"][0]["source"], "EVAL");
}

#[tokio::test]
async fn a_database_locked_by_another_process_gives_503_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let child = Child::start(&data).await.unwrap();
    assert_eq!(KEYS.0, "pk-test");
    let script = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        c.execute('BEGIN IMMEDIATE')\n\
        print('locked', flush=True)\n\
        sys.stdin.read()\n";
    let locker = tokio::process::Command::new("python3")
        .args(["-c", script])
        .arg(data.join("perpend.db"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut locker) = locker else {
        perpend_it::left_out("locking the database needs python3");
        return;
    };
    let mut lines =
        tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(locker.stdout.take().unwrap()));
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("locked"));
    let trace = Trace::new(1, "root");
    let refused = child.client.json(Method::POST, OTLP, &trace.to_json()).await.unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.headers.contains_key("retry-after"));
    locker.kill().await.unwrap();
    let path = format!("/api/public/traces/{}", trace.id);
    assert_eq!(child.client.get(&path).await.unwrap().status, 404, "nothing of it was kept");
    let accepted = child.client.json(Method::POST, OTLP, &trace.to_json()).await.unwrap();
    assert_eq!(accepted.status, 200);
    assert_eq!(child.client.get(&path).await.unwrap().status, 200);
}

/// Opens so many connections and sends nothing on them.
async fn silent(origin: &str, n: usize) -> Vec<tokio::net::TcpStream> {
    let address = origin.trim_start_matches("http://");
    let mut open = Vec::new();
    for _ in 0..n {
        open.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    open
}

#[tokio::test]
async fn idle_connections_beyond_the_limit_of_descriptors_make_room_and_the_store_works() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let _server = Child::with_descriptors(64, &dir, &[]).await.unwrap();
    let output = || std::fs::read_to_string(dir.with_extension("log")).unwrap();
    let origin = origin_in(&output()).unwrap().to_owned();
    let mut idle = silent(&origin, 120).await;
    for number in 1..=40 {
        let body = Trace::new(number, "root").to_json();
        // On new connections: one of the previous round may have been closed to free a descriptor.
        let client = Client::new(&origin).with_keys(KEYS.0, KEYS.1);
        let sent = client.json(Method::POST, OTLP, &body).await.unwrap();
        assert_eq!(sent.status, 200, "{}", sent.text());
        let reads = (0..8).map(|_| client.get("/api/public/traces?limit=1"));
        for read in futures_util::future::join_all(reads).await {
            assert_eq!(read.unwrap().status, 200);
        }
        idle.extend(silent(&origin, 5).await);
    }
    let output = output();
    assert!(output.contains("connection limit reached"), "{output}");
    for fault in ["accepting a connection failed", "unable to open", "request failed"] {
        assert!(!output.contains(fault), "{output}");
    }
}

#[tokio::test]
async fn connections_that_are_all_busy_end_in_time_and_new_ones_are_served_then() {
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("data");
    let more = ["--ingest-read-timeout-seconds", "3"];
    let _server = Child::with_descriptors(64, &dir, &more).await.unwrap();
    let output = || std::fs::read_to_string(dir.with_extension("log")).unwrap();
    let origin = origin_in(&output()).unwrap().to_owned();
    let line = format!("POST {OTLP}");
    let headers = [
        ("authorization", PAIR),
        ("content-type", "application/json"),
        ("content-length", "1000000"),
    ];
    let mut slow = Vec::new();
    for _ in 0..120 {
        let mut request = RawRequest::open(&origin, &line, &headers).await.unwrap();
        request.send(b"{").await.unwrap();
        slow.push(request);
    }
    // On a new connection: an idle one may have been closed to free a descriptor.
    let client = Client::new(&origin).with_keys(KEYS.0, KEYS.1);
    let client = client.with_timeout(perpend_it::PATIENCE);
    let body = Trace::new(1, "root").to_json();
    let sent = client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    let output = output();
    assert!(output.contains("connection limit reached"), "{output}");
    for fault in ["accepting a connection failed", "unable to open"] {
        assert!(!output.contains(fault), "{output}");
    }
}
