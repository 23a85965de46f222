//! A database that takes no writes, or cannot be reached: what requests and probes are answered, and the recovery.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{OTLP, TestApp, Trace, until};
use perpend_server::client::Answer;
use perpend_storage::testing::{TempDatabase, fill_disk};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const READY: &str = "/api/public/ready";

/// Writes what fits into no page that the database has already. The probe after a failed write needs more pages.
async fn write(app: &TestApp, number: u64) -> Answer {
    let mixed = (0..60_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let text: String = mixed.collect();
    let trace = Trace::new(number, "root").generation("answer", &text);
    let trace = trace.to_json();
    app.client.json(Method::POST, OTLP, &trace).await.unwrap()
}

fn assert_unavailable(answer: &Answer) {
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn after_a_refused_write_the_readiness_probe_is_503_until_a_write_succeeds() {
    let app = TestApp::new().await.unwrap();
    assert_eq!(write(&app, 1).await.status, 200);
    assert_eq!(app.client.get(READY).await.unwrap().status, 200);
    fill_disk(&app.app.store, true).await;
    assert_unavailable(&write(&app, 2).await);
    for _ in 0..3 {
        assert_unavailable(&app.anonymous().get(READY).await.unwrap());
    }
    assert_unavailable(&write(&app, 2).await);
    fill_disk(&app.app.store, false).await;
    assert_eq!(app.anonymous().get(READY).await.unwrap().status, 200);
    assert_eq!(write(&app, 2).await.status, 200);
    app.stop().await.unwrap();
}

/// Forwards connections to PostgreSQL until it is cancelled, and then refuses them.
async fn forward(listener: TcpListener, to: String, end: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end.cancelled() => return,
        };
        let (mut client, to) = (accepted.unwrap().0, to.clone());
        connections.spawn(async move {
            if let Ok(mut server) = TcpStream::connect(to).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

#[tokio::test]
async fn without_postgresql_requests_and_pages_are_503_at_once_and_come_back_with_it() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url().clone() else {
        unreachable!("{database:?}");
    };
    let (before, rest) = url.split_once("127.0.0.1:").unwrap();
    let (port, after) = rest.split_once('/').unwrap();
    let server = format!("127.0.0.1:{port}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let end = CancellationToken::new();
    let forwarding = tokio::spawn(forward(listener, server.clone(), end.clone()));
    let url = format!("{before}{address}/{after}");
    // A pool alone would let requests wait for longer than the client does.
    let settings = [("database.url", url.as_str()), ("database.wait_seconds", "600")];
    let app = Arc::new(TestApp::with(&settings).await.unwrap());
    let visitor = crate::pages::Visitor::of(&app).await;
    assert_eq!(write(&app, 1).await.status, 200);
    assert_eq!(app.anonymous().get(READY).await.unwrap().status, 200);

    end.cancel();
    forwarding.await.unwrap();
    assert_unavailable(&write(&app, 2).await);
    assert_unavailable(&app.anonymous().get(READY).await.unwrap());
    assert_unavailable(&app.client.get("/api/public/traces").await.unwrap());
    let page = format!("{}/traces", visitor.base);
    assert_unavailable(&visitor.client.get(&page).await.unwrap());

    let listener = TcpListener::bind(address).await.unwrap();
    let end = CancellationToken::new();
    let forwarding = tokio::spawn(forward(listener, server, end.clone()));
    let ready = async || app.anonymous().get(READY).await;
    until(READY, ready, |answer| answer.status == 200).await.unwrap();
    assert_eq!(write(&app, 2).await.status, 200);
    assert_eq!(visitor.client.get(&page).await.unwrap().status, 200);
    Arc::into_inner(app).unwrap().stop().await.unwrap();
    end.cancel();
    forwarding.await.unwrap();
}
