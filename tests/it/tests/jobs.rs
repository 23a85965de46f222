//! Background jobs: their list, and health.

use perpend_it::TestApp;
use serde_json::Value;

#[tokio::test]
async fn each_job_reports_its_last_run_in_the_list_and_in_health() {
    let app = TestApp::new().await.unwrap();
    app.app.jobs.run_once().await;
    let list = app.client.get("/api/v1/jobs").await.unwrap();
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json();
    let health = app.anonymous().get("/api/public/health").await.unwrap().json();
    for jobs in [&list["data"], &health["jobs"]] {
        let jobs = jobs.as_array().unwrap();
        assert!(jobs.iter().any(|job| job["name"] == "retention"), "{list}");
        assert_eq!(jobs.len(), app.app.jobs.statuses().len(), "{list}");
        for job in jobs {
            assert!(job["runs"].as_u64().unwrap() > 0, "{job}");
            assert_eq!((&job["lastError"], &job["failures"]), (&Value::Null, &0.into()), "{job}");
            assert!(job["lastSucceededAt"].is_string(), "{job}");
        }
    }
    assert_eq!(app.anonymous().get("/api/v1/jobs").await.unwrap().status, 401);
    app.stop().await.unwrap();
}
