//! Skills: folders of files in versions.

use axum::http::Method;
use perpend_it::{TestApp, count};
use serde_json::{Value, json};

const SKILLS: &str = "/api/public/unstable/skills";

async fn call(
    app: &TestApp,
    method: Method,
    path: &str,
    body: Value,
) -> anyhow::Result<(u16, Value)> {
    let answer = app.client.json(method, path, &body).await?;
    Ok((answer.status.as_u16(), answer.json()))
}

fn main_file(name: &str, text: &str) -> Value {
    let content =
        format!("---\nname: {name}\ndescription: Does {text}.\nlicense: MIT\n---\n# {text}\n");
    json!({ "path": "SKILL.md", "content": content })
}

async fn make(app: &TestApp, files: Value) -> anyhow::Result<Value> {
    let body = json!({ "files": files, "commitMessage": null });
    let (status, made) = call(app, Method::POST, SKILLS, body).await?;
    anyhow::ensure!(status == 200, "{status} {made}");
    Ok(made)
}

/// The value of a query parameter as clients send it.
fn encoded(raw: &str) -> String {
    form_urlencoded::byte_serialize(raw.as_bytes()).collect()
}

#[tokio::test]
async fn a_skill_has_versions_whose_files_are_read_by_their_hashes() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let script = json!({ "path": "scripts/fill.py", "content": "print('ü')\n" });
    let first = make(&app, json!([script, main_file("pdf-forms", "forms")])).await?;
    assert_eq!((&first["name"], &first["version"]), (&json!("pdf-forms"), &json!(1)));
    assert_eq!(first["description"], "Does forms.");
    assert_eq!(first["frontmatter"]["license"], "MIT");
    assert_eq!((&first["labels"], &first["tags"]), (&json!(["latest"]), &json!([])));
    let file = &first["files"][1];
    assert_eq!(
        (&file["path"], &file["contentType"]),
        (&json!("scripts/fill.py"), &json!("text/x-python"))
    );
    assert_eq!(file["contentLength"], 12, "bytes, not characters");

    // The next version refers to unchanged files by hash alone.
    let hash = file["sha256Hash"].as_str().unwrap_or_default();
    let shared = json!({ "path": "fill.py", "sha256Hash": hash });
    let second = make(&app, json!([main_file("pdf-forms", "tables"), shared])).await?;
    assert_eq!((&second["version"], &second["description"]), (&json!(2), &json!("Does tables.")));
    let both = format!("{hash},{}", second["files"][0]["sha256Hash"].as_str().unwrap_or_default());
    let path = format!("{SKILLS}/files/content?sha256Hashes={}", encoded(&both));
    let texts = app.client.get(&path).await?.json();
    assert_eq!(texts["data"][0], json!({ "sha256Hash": hash, "content": "print('ü')\n" }));
    assert_eq!(count(&texts), 2);

    let one = format!("{SKILLS}/pdf-forms");
    assert_eq!(app.client.get(&one).await?.status, 404, "nothing is in production");
    assert_eq!(app.client.get(&format!("{one}?version=1")).await?.json()["files"], first["files"]);
    assert_eq!(app.client.get(&format!("{one}?label=latest")).await?.json(), second);
    for (query, status) in [("version=3", 404), ("version=0", 400), ("version=1&label=latest", 400)]
    {
        assert_eq!(app.client.get(&format!("{one}?{query}")).await?.status, status, "{query}");
    }
    let other = app.other_project().await?;
    for foreign in [format!("{one}?version=1"), path] {
        assert_eq!(other.get(&foreign).await?.status, 404, "{foreign}");
    }
    app.stop().await
}

#[tokio::test]
async fn labels_move_between_versions_and_tags_belong_to_the_skill() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    for text in ["one", "two"] {
        make(&app, json!([main_file("web", text)])).await?;
    }
    let one = format!("{SKILLS}/web");
    let set = async |version: u32, labels: Value| {
        let path = format!("{one}/versions/{version}");
        call(&app, Method::PATCH, &path, json!({ "labels": labels })).await
    };
    let (status, first) = set(1, json!(["production", "eu"])).await?;
    assert_eq!((status, &first["labels"]), (200, &json!(["eu", "production"])));
    assert_eq!(app.client.get(&one).await?.json()["version"], 1);
    let (_, second) = set(2, json!(["latest", "production"])).await?;
    assert_eq!(second["labels"], json!(["latest", "production"]));
    assert_eq!(app.client.get(&one).await?.json()["version"], 2);
    for (version, labels, status) in [
        (1, json!(["latest"]), 400),
        (1, json!(["Not A Label"]), 400),
        (1, json!("eu"), 400),
        (3, json!(["eu"]), 404),
    ] {
        let (found, body) = set(version, labels.clone()).await?;
        assert_eq!(found, status, "{labels}: {body}");
    }
    let (status, tagged) =
        call(&app, Method::PATCH, &one, json!({ "tags": ["b", "a", "b"] })).await?;
    assert_eq!((status, &tagged["version"], &tagged["tags"]), (200, &json!(2), &json!(["b", "a"])));
    let first = app.client.get(&format!("{one}?version=1")).await?.json();
    assert_eq!(first["tags"], json!(["b", "a"]));

    let list = app.client.get(&format!("{SKILLS}?tag=a&search=TWO&limit=1")).await?.json();
    let meta =
        json!({ "page": 1, "limit": 1, "totalItems": 1, "totalPages": 1, "hasNextPage": false });
    assert_eq!(list["meta"], meta);
    assert_eq!(
        (&list["data"][0]["latestVersion"], &list["data"][0]["productionVersion"]),
        (&json!(2), &json!(2))
    );
    for query in ["search=one", "tag=c", "name=we", "fromUpdatedAt=2100-01-01T00:00:00Z"] {
        let list = app.client.get(&format!("{SKILLS}?{query}")).await?.json();
        assert_eq!(count(&list), 0, "{query}");
    }
    for (version, status) in [(2, 200), (2, 404), (1, 200)] {
        let path = format!("{one}/versions/{version}");
        let (found, body) = call(&app, Method::DELETE, &path, json!({})).await?;
        assert_eq!(found, status, "{body}");
        if status == 200 {
            assert_eq!(body, json!({ "deleted": true }));
        }
    }
    assert_eq!(count(&app.client.get(SKILLS).await?.json()), 0);
    app.stop().await
}

#[tokio::test]
async fn invalid_skills_are_refused_with_the_field() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let file = |path: &str| json!({ "path": path, "content": "x" });
    let good = || main_file("web", "pages");
    let unknown = "A".repeat(43) + "=";
    for (files, named) in [
        (json!([]), "files"),
        (json!([file("README.md")]), "SKILL.md"),
        (json!([file("SKILL.md")]), "files[0].content"),
        (json!([main_file("../web", "x")]), "files[0].content"),
        (json!([good(), file("/etc/passwd")]), "files[1].path"),
        (json!([good(), file("a/../../b")]), "files[1].path"),
        (json!([good(), file("C:\\a")]), "files[1].path"),
        (json!([good(), good()]), "files[1].path"),
        (json!([good(), { "path": "a" }]), "files[1].content"),
        (
            json!([good(), { "path": "a", "content": "x", "sha256Hash": unknown }]),
            "files[1].content",
        ),
        (json!([good(), { "path": "a", "sha256Hash": "abc" }]), "files[1].sha256Hash"),
        (json!([good(), { "path": "a", "sha256Hash": unknown }]), "files[1].sha256Hash"),
    ] {
        let body = json!({ "files": files });
        let (status, answer) = call(&app, Method::POST, SKILLS, body).await?;
        assert_eq!(status, 400, "{files}: {answer}");
        assert!(
            answer["message"].as_str().unwrap_or_default().contains(named),
            "{named}: {answer}"
        );
    }
    let long = json!({ "files": [good()], "commitMessage": "x".repeat(501) });
    let (status, answer) = call(&app, Method::POST, SKILLS, long).await?;
    assert_eq!(
        (status, answer["message"].as_str().unwrap_or_default().starts_with("commitMessage")),
        (400, true)
    );
    let content = |hashes: &str| format!("{SKILLS}/files/content?sha256Hashes={}", encoded(hashes));
    let many = vec![unknown.as_str(); 51].join(",");
    for (path, status) in
        [(content(""), 400), (content("abc"), 400), (content(&many), 400), (content(&unknown), 404)]
    {
        assert_eq!(app.client.get(&path).await?.status, status, "{path}");
    }
    assert_eq!(count(&app.client.get(SKILLS).await?.json()), 0);
    app.stop().await
}

#[tokio::test]
async fn long_texts_are_read_some_at_a_time() -> anyhow::Result<()> {
    const LONG: usize = 3 << 20;
    let app = TestApp::new().await?;
    let mut named = vec![main_file("long", "x")];
    let mut hashes = Vec::new();
    for text in ["a", "b", "c"] {
        let file = json!({ "path": text, "content": text.repeat(LONG) });
        let made = make(&app, json!([main_file("long", "x"), file])).await?;
        let files = made["files"].as_array().into_iter().flatten();
        let hash = files.filter(|file| file["path"] == text);
        let hash = hash.map(|file| file["sha256Hash"].clone()).next();
        named.push(json!({ "path": text, "sha256Hash": hash }));
        hashes.extend(hash.as_ref().and_then(Value::as_str).map(str::to_owned));
    }
    let made = make(&app, Value::Array(named)).await?;
    assert_eq!(made["files"][3]["contentLength"], LONG, "{made}");
    for (n, status) in [(2, 200), (3, 400)] {
        let hashes = encoded(&hashes[..n].join(","));
        let path = format!("{SKILLS}/files/content?sha256Hashes={hashes}");
        let answer = app.client.get(&path).await?;
        assert_eq!(answer.status, status);
        if status == 200 {
            assert_eq!(count(&answer.json()), n);
        } else {
            assert!(answer.text().contains("sha256Hashes: "), "{}", answer.text());
        }
    }
    let hashes = encoded(&[hashes[0].as_str(); 50].join(","));
    let path = format!("{SKILLS}/files/content?sha256Hashes={hashes}");
    let answer = app.client.get(&path).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(count(&answer.json()), 1, "a text is answered once");
    app.stop().await
}
