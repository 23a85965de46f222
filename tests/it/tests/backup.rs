//! `perpend backup` and `perpend restore`, as processes while a server runs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use axum::http::Method;
use perpend_it::{Child, OTLP, PATIENCE, Trace, command, trace_id};
use perpend_server::client::Client;
use serde_json::Value;

/// Writes traces one after the other; how many are acknowledged can be read at any time.
struct Load {
    is_over: Arc<AtomicBool>,
    n_acknowledged: Arc<AtomicU64>,
    writing: tokio::task::JoinHandle<()>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (is_over, n_acknowledged) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (client, over, n) = (client.clone(), Arc::clone(&is_over), Arc::clone(&n_acknowledged));
        let writing = tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let trace = Trace::new(n.load(Ordering::SeqCst), "load")
                    .generation("answer", &"some text ".repeat(400));
                let sent = client.json(Method::POST, OTLP, &trace.to_json()).await;
                assert_eq!(sent.unwrap().status, 200);
                n.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { is_over, n_acknowledged, writing }
    }

    fn n(&self) -> u64 {
        self.n_acknowledged.load(Ordering::SeqCst)
    }

    async fn reach(&self, n: u64) {
        let reached = async {
            while self.n() < n {
                assert!(!self.writing.is_finished(), "the load broke off");
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.unwrap();
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.writing.await.unwrap();
    }
}

async fn run(args: &[&str]) -> Output {
    command(args).unwrap().output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn succeed(args: &[&str]) -> Value {
    let output = run(&[args, &["--json"]].concat()).await;
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The standard error of the command, which must fail.
async fn refused(args: &[&str]) -> String {
    let output = run(args).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with a small installation in `data`, its server stopped, and a backup of it in `backup`.
async fn small() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let mut child = Child::start(&data).await.unwrap();
    let trace = Trace::new(1, "root").generation("answer", "text");
    let sent = child.client.json(Method::POST, OTLP, &trace.to_json()).await;
    assert_eq!(sent.unwrap().status, 200);
    child.terminate().await.unwrap();
    succeed(&["backup", utf8(&backup), "--data-dir", utf8(&data), "--with-keys"]).await;
    (folder, data, backup)
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_backup_under_load_holds_all_that_was_acknowledged_before_it_and_starts() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut child = Child::start(&data).await.unwrap();
    let load = Load::start(&child.client);
    load.reach(200).await;
    let n_before = load.n();
    let backup = folder.path().join("backup");
    let made = succeed(&["backup", utf8(&backup), "--data-dir", utf8(&data)]).await;
    let n_during = load.n();
    load.reach(n_during + 1).await;
    load.end().await;
    assert_eq!(made["secretsKey"], "leftOut");
    assert!(!backup.join("secrets.key").exists());
    let n_traces = made["rows"]["traces"].as_u64().unwrap();
    // One trace may be committed and not yet acknowledged.
    assert!((n_before..=n_during + 1).contains(&n_traces), "{n_before} {n_traces} {n_during}");
    let verified = succeed(&["backup", "verify", utf8(&backup)]).await;
    assert_eq!(verified, made);
    child.terminate().await.unwrap();

    let again = folder.path().join("again");
    let restored = run(&["restore", utf8(&backup), "--data-dir", utf8(&again)]).await;
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(text(&restored.stdout).contains("does not include secrets.key"));
    assert!(text(&restored.stdout).contains(" MiB in 1 file\n"));
    std::fs::copy(data.join("secrets.key"), again.join("secrets.key")).unwrap();
    let child = Child::start(&again).await.unwrap();
    for number in 0..n_before {
        let path = format!("/api/public/traces/{}", trace_id(number));
        let found = child.client.get(&path).await.unwrap();
        assert_eq!(found.status, 200, "trace {number} of {n_before}");
        assert_eq!(found.json()["observations"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_bit_flipped_at_the_start_middle_or_end_of_any_file_is_found_by_verify_and_by_restore() {
    let (folder, _, backup) = small().await;
    let target = folder.path().join("again");
    let names = names_in(&backup);
    let files = ["manifest.json", "manifest.sha256", "perpend.db", "secrets.key"];
    assert_eq!(names, files);
    for name in files {
        let path = backup.join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            let stderr = refused(&["backup", "verify", utf8(&backup)]).await;
            assert!(
                stderr.contains("damaged") || stderr.contains("complete backup"),
                "{name}: {stderr}"
            );
            let stderr = refused(&["restore", utf8(&backup), "--data-dir", utf8(&target)]).await;
            assert!(stderr.contains(utf8(&backup)), "{name}: {stderr}");
            assert!(!target.exists());
        }
        std::fs::write(&path, &whole).unwrap();
    }
    std::fs::write(backup.join("more"), b"").unwrap();
    let stderr = refused(&["backup", "verify", utf8(&backup)]).await;
    assert!(stderr.contains("not in the manifest: more"), "{stderr}");
    std::fs::remove_file(backup.join("more")).unwrap();
    std::fs::remove_file(backup.join("secrets.key")).unwrap();
    let stderr = refused(&["backup", "verify", utf8(&backup)]).await;
    assert!(stderr.contains("does not contain secrets.key"), "{stderr}");
    assert_eq!(names_in(folder.path()), ["backup", "data", "data.log"]);
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_behind_a_backup_and_a_restore() {
    let (folder, data, backup) = small().await;
    let (to, again) = (folder.path().join("more"), folder.path().join("again"));
    let before = names_in(folder.path());
    let program = command(&[]).unwrap().as_std().get_program().to_owned();
    let limited = async |args: &[&str]| {
        // A limit on the size of files ends writes as a full disk does.
        let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
        let mut shell = tokio::process::Command::new("sh");
        let output = shell.args(["-c", script]).arg(&program).args(args).env_clear().output();
        let output = output.await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let stderr = limited(&["backup", utf8(&to), "--data-dir", utf8(&data)]).await;
    assert!(stderr.contains("cannot copy"), "{stderr}");
    let stderr = limited(&["restore", utf8(&backup), "--data-dir", utf8(&again)]).await;
    assert!(stderr.contains("cannot write"), "{stderr}");
    assert_eq!(names_in(folder.path()), before);
}

#[tokio::test]
async fn a_backup_that_was_killed_does_not_pass_for_one() {
    let (folder, data, backup) = small().await;
    // The result of a kill right before the last file, independent of the kill below.
    let unfinished = folder.path().join("unfinished");
    std::fs::create_dir(&unfinished).unwrap();
    for name in ["perpend.db", "secrets.key", "manifest.json"] {
        std::fs::copy(backup.join(name), unfinished.join(name)).unwrap();
    }
    let again = folder.path().join("again");
    for args in [
        &["backup", "verify", utf8(&unfinished)][..],
        &["restore", utf8(&unfinished), "--data-dir", utf8(&again)],
    ] {
        let stderr = refused(args).await;
        assert!(stderr.contains("not a complete backup"), "{stderr}");
    }
    let to = folder.path().join("killed");
    let args = ["backup", utf8(&to), "--data-dir", utf8(&data)];
    let mut process = command(&args).unwrap().spawn().unwrap();
    let partial = async {
        loop {
            let names = names_in(folder.path());
            if let Some(name) = names.iter().find(|name| name.starts_with(".killed.partial-")) {
                return folder.path().join(name);
            }
            assert!(!to.exists(), "it is seen before it is whole");
            tokio::task::yield_now().await;
        }
    };
    let partial = tokio::time::timeout(PATIENCE, partial).await.unwrap();
    process.kill().await.unwrap();
    if to.exists() {
        // It was killed after the rename.
        succeed(&["backup", "verify", utf8(&to)]).await;
        return;
    }
    if !partial.join("manifest.sha256").exists() {
        let stderr = refused(&["backup", "verify", utf8(&partial)]).await;
        assert!(stderr.contains("not a complete backup"), "{stderr}");
    }
    // The name is free for the next one.
    succeed(&args).await;
}

#[tokio::test]
async fn nothing_is_written_over() {
    let (folder, data, backup) = small().await;
    let stderr = refused(&["backup", utf8(&backup), "--data-dir", utf8(&data)]).await;
    assert!(stderr.contains("already exists"), "{stderr}");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("note"), b"mine").unwrap();
    for occupied in [&data, &other] {
        let stderr = refused(&["restore", utf8(&backup), "--data-dir", utf8(occupied)]).await;
        assert!(stderr.contains("is not empty"), "{stderr}");
    }
    assert_eq!(names_in(&other), ["note"]);
    std::fs::remove_file(other.join("note")).unwrap();
    succeed(&["restore", utf8(&backup), "--data-dir", utf8(&other)]).await;
    assert!(other.join("secrets.key").exists());
    let mut child = Child::start(&other).await.unwrap();
    let path = format!("/api/public/traces/{}", trace_id(1));
    assert_eq!(child.client.get(&path).await.unwrap().status, 200);
    child.terminate().await.unwrap();
}

#[tokio::test]
async fn a_restore_to_a_link_or_a_mount_point_is_refused_with_a_way_out() {
    let (folder, _, backup) = small().await;
    let (empty, link) = (folder.path().join("empty"), folder.path().join("link"));
    std::fs::create_dir(&empty).unwrap();
    std::os::unix::fs::symlink(&empty, &link).unwrap();
    let before = names_in(folder.path());
    let with_slash = format!("{}/", link.display());
    for target in [utf8(&link), with_slash.as_str()] {
        let stderr = refused(&["restore", utf8(&backup), "--data-dir", target]).await;
        assert!(stderr.contains("that it points to"), "{stderr}");
        // The error is reported before the backup is read.
        assert!(!stderr.contains("reading perpend.db"), "{stderr}");
    }
    assert_eq!(names_in(folder.path()), before);
    if cfg!(target_os = "linux") {
        let stderr = refused(&["restore", utf8(&backup), "--data-dir", "/proc"]).await;
        assert!(stderr.contains("mount point"), "{stderr}");
        assert!(stderr.contains("such as /proc/data"), "{stderr}");
    }
}

#[tokio::test]
async fn a_missing_key_is_reported_and_not_listed_as_included() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let key = ["--secrets-key", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="];
    let mut child = Child::with(&data, &key).await.unwrap();
    child.terminate().await.unwrap();
    let args = ["backup", utf8(&to), "--data-dir", utf8(&data)];
    let with_keys = [&args[..], &["--with-keys"]].concat();
    let stderr = refused(&with_keys).await;
    assert!(stderr.contains("--with-keys requires the file"), "{stderr}");
    let stderr = refused(&[&with_keys[..], &key].concat()).await;
    assert!(stderr.contains("omit --with-keys"), "{stderr}");
    assert_eq!(names_in(folder.path()), ["data", "data.log"]);

    let made = run(&args).await;
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stderr).contains("no key of the stored secrets was found"));
    let verified = succeed(&["backup", "verify", utf8(&to)]).await;
    assert_eq!(verified["secretsKey"], "notFound");
    let again = folder.path().join("again");
    let restored = run(&["restore", utf8(&to), "--data-dir", utf8(&again)]).await;
    assert!(text(&restored.stdout).contains("does not include secrets.key"));
    // The proof of the key was restored: a backup of the restored directory reports the missing key as well.
    let (next, known) = (folder.path().join("next"), folder.path().join("known"));
    let args = ["backup", utf8(&next), "--data-dir", utf8(&again)];
    assert_eq!(succeed(&args).await["secretsKey"], "notFound");
    let args = ["backup", utf8(&known), "--data-dir", utf8(&again)];
    let made = succeed(&[&args[..], &key].concat()).await;
    assert_eq!(made["secretsKey"], "inSettings");
}

#[tokio::test]
async fn postgresql_is_left_to_its_own_tools_and_a_wrong_directory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("to");
    let url = "postgres://user:hidden@db.example:5432/perpend";
    for args in [
        ["backup", utf8(&to), "--database-url", url],
        ["restore", utf8(&to), "--database-url", url],
    ] {
        let stderr = refused(&args).await;
        assert!(stderr.contains("pg_dump") && !stderr.contains("hidden"), "{stderr}");
    }
    let stderr = refused(&["backup", utf8(&to), "--data-dir", utf8(folder.path())]).await;
    assert!(stderr.contains("does not exist") && stderr.contains("--data-dir"), "{stderr}");
    let stderr = refused(&["backup", "verify", utf8(folder.path())]).await;
    assert!(stderr.contains("not a complete backup"), "{stderr}");
}

/// Forms in which a secret may be stored.
fn spellings(secret: &str) -> [Vec<u8>; 4] {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    [
        secret.as_bytes().to_vec(),
        STANDARD_NO_PAD.encode(secret).into_bytes(),
        URL_SAFE_NO_PAD.encode(secret).into_bytes(),
        hex.into_bytes(),
    ]
}

/// Secrets that give access to a server, each created there.
async fn secrets_of(child: &Child) -> Vec<(&'static str, String)> {
    let organizer = Client::new(child.client.origin()).with_keys("pk-org", "sk-secret-of-the-org");
    let projects = child.client.get("/api/public/projects").await.unwrap().json();
    let project = projects["data"][0]["id"].as_str().unwrap().to_owned();
    let keys = format!("/api/public/projects/{project}/apiKeys");
    let body = serde_json::json!({});
    let made = organizer.json(Method::POST, &keys, &body).await;
    let made = made.unwrap().json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let (public_key, secret_key) = (text("publicKey"), text("secretKey"));

    let connection = serde_json::json!({
        "provider": "main", "adapter": "openai", "secretKey": "sk-secret-of-the-provider",
        "extraHeaders": { "X-Team": "secret-in-a-header" }, "customModels": ["m"],
    });
    let path = "/api/public/llm-connections";
    let put = child.client.json(Method::PUT, path, &connection).await;
    assert_eq!(put.unwrap().status, 201);
    let export = serde_json::json!({
        "projectId": project, "type": "S3", "bucketName": "bucket", "region": "eu-central-1",
        "accessKeyId": "AKIA", "secretAccessKey": "secret of the bucket", "exportFrequency": "daily",
        "enabled": false, "forcePathStyle": false, "fileType": "JSONL", "exportMode": "FULL_HISTORY",
    });
    let path = "/api/public/integrations/blob-storage";
    let put = organizer.json(Method::PUT, path, &export).await.unwrap();
    assert_eq!(put.status, 200, "{}", put.text());

    let form = format!("public_key={public_key}&secret_key={secret_key}");
    let headers = [crate::pages::FORM, crate::pages::OURS];
    let anonymous = Client::new(child.client.origin());
    let entered = anonymous.send(Method::POST, "/login", &headers, form).await;
    let entered = entered.unwrap();
    let cookie = entered.headers["set-cookie"].to_str().unwrap();
    let (_, cookie) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    let (_, reference) = cookie.split_once('.').unwrap();

    let medium = serde_json::json!({
        "contentType": "image/png", "contentLength": 1, "field": "input", "traceId": "trace",
        "sha256Hash": "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=",
    });
    let announced = child.client.json(Method::POST, "/api/public/media", &medium);
    let announced = announced.await.unwrap().json();
    let (_, signature) = announced["uploadUrl"].as_str().unwrap().split_once("signature=").unwrap();
    vec![
        ("the key pair of the first start", perpend_it::KEYS.1.to_owned()),
        ("the key pair of the organization", "sk-secret-of-the-org".to_owned()),
        ("a key pair that was made", secret_key),
        ("the key of a provider", "sk-secret-of-the-provider".to_owned()),
        ("a header for a provider", "secret-in-a-header".to_owned()),
        ("the key of a bucket", "secret of the bucket".to_owned()),
        ("a session", reference.to_owned()),
        ("a link to a medium", signature.to_owned()),
    ]
}

#[tokio::test]
async fn a_backup_without_keys_holds_nothing_that_opens_anything() {
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let keys = ["--init-org-public-key", "pk-org", "--init-org-secret-key", "sk-secret-of-the-org"];
    let child = Child::with(&data, &keys).await.unwrap();
    let mut secrets = secrets_of(&child).await;
    let key = std::fs::read_to_string(data.join("secrets.key")).unwrap();
    secrets.push(("secrets.key", key.trim_end_matches('=').to_owned()));
    succeed(&["backup", utf8(&backup), "--data-dir", utf8(&data)]).await;
    for name in names_in(&backup) {
        let bytes = std::fs::read(backup.join(&name)).unwrap();
        for (what, secret) in &secrets {
            for spelling in spellings(secret) {
                let is_there = bytes.windows(spelling.len()).any(|part| part == spelling);
                assert!(!is_there, "{what} is in {name}");
            }
        }
    }
    // Nor a key that creates or signs such secrets: only the sealed proof of secrets.key is stored.
    let url = perpend_db::DatabaseUrl::Sqlite(backup.join("perpend.db"));
    let options = perpend_db::Options::default();
    let store = perpend_storage::Store::open(&url, &options).await.unwrap();
    assert_eq!(store.catalog.secret_names().await.unwrap(), ["vault-canary"]);
    store.close().await;
}
