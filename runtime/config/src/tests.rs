//! Configurations and their errors.

use std::collections::BTreeMap;

use super::*;
use crate::setting::Setting;
use crate::settings::SETTINGS;

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn from_file(text: &str) -> Result<Config, Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Config::load(&Sources { file: Some(file.path()), ..Sources::default() })
}

#[test]
fn built_in_values_are_valid_and_listen_on_loopback_only() {
    let config = Config::defaults().unwrap();
    assert!(config.listen.ip().is_loopback());
    assert_eq!(config.ingest.max_body_bytes, 64 << 20);
    assert_eq!(config.ingest.span, perpend_otlp::Limits::default());
    assert_eq!(config.database().to_string(), "sqlite:perpend-data/perpend.db");
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text =
        "[server]\nlisten = \"127.0.0.1:1\"\n[log]\nlevel = \"warn\"\n[database]\nreaders = 7";
    std::fs::write(file.path(), text).unwrap();
    let config = Config::load(&Sources {
        file: Some(file.path()),
        env: env(&[("PERPEND_LISTEN", "127.0.0.1:2"), ("PERPEND_LOG_LEVEL", "debug")]),
        flags: vec![("server.listen", "127.0.0.1:3".to_owned())],
    })
    .unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.log_level, "debug");
    assert_eq!(config.database_readers, 7);
}

#[test]
fn an_unknown_key_is_an_error_with_the_nearest_known_key() {
    let error = from_file("[server]\nlisten_on = \"127.0.0.1:1\"").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("server.listen_on"), "{text}");
    assert!(text.contains("did you mean server.listen?"), "{text}");

    let error = Config::load(&Sources {
        env: env(&[("PERPEND_LISTN", "127.0.0.1:1"), ("PATH", "/bin")]),
        ..Sources::default()
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("PERPEND_LISTN"), "{text}");
    assert!(text.contains("did you mean PERPEND_LISTEN?"), "{text}");
}

#[test]
fn an_invalid_value_is_an_error_with_key_location_and_expectation() {
    for (text, parts) in [
        ("[server]\nlisten = \"localhost\"", ["server.listen", "127.0.0.1:4717"]),
        ("[ingest]\nmax_body_mib = 0", ["ingest.max_body_mib", "1 to 1024"]),
        ("[log]\nformat = \"xml\"", ["log.format", "`auto`, `text`, `json`"]),
        ("[server]\nlisten = [1]", ["server.listen", "array"]),
        ("[database]\nurl = \"mysql://h/d\"", ["database.url", "postgres://"]),
        (
            "[server]\ntrusted_proxies = \"10.0.0.0/8, 0.0.0.0/0\"",
            ["server.trusted_proxies", "0.0.0.0/0"],
        ),
        ("server = ", ["not TOML", "line 1"]),
    ] {
        let message = from_file(text).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "{message} should name {part}");
        }
    }
}

#[test]
fn half_a_key_pair_is_an_error_and_a_whole_one_is_taken_as_it_is() {
    let load = |pairs| Config::load(&Sources { env: env(pairs), ..Sources::default() });
    let half = load(&[("PERPEND_INIT_PUBLIC_KEY", "pk")]).unwrap_err().to_string();
    assert!(half.contains("PERPEND_INIT_SECRET_KEY"), "{half}");
    let whole =
        load(&[("PERPEND_INIT_PUBLIC_KEY", "old key"), ("PERPEND_INIT_SECRET_KEY", "s:e c")]);
    let init = whole.unwrap().init;
    assert_eq!(init.public_key.as_deref(), Some("old key"));
    assert_eq!(init.secret_key.as_deref(), Some("s:e c"));
    assert!(!format!("{init:?}").contains("s:e c"), "no secret in logs");
}

#[test]
fn the_keys_of_organization_and_administrator_are_checked_and_not_logged() {
    let load = |pairs| Config::load(&Sources { env: env(pairs), ..Sources::default() });
    let half = load(&[("PERPEND_INIT_ORG_SECRET_KEY", "sk")]).unwrap_err();
    assert!(half.to_string().contains("PERPEND_INIT_ORG_PUBLIC_KEY"), "{half}");
    let short = load(&[("PERPEND_ADMIN_API_KEY", "guessable")]).unwrap_err();
    assert!(short.to_string().contains("24 characters"), "{short}");
    let config = load(&[
        ("PERPEND_INIT_ORG_PUBLIC_KEY", "pk-org"),
        ("PERPEND_INIT_ORG_SECRET_KEY", "secret-of-organization"),
        ("PERPEND_ADMIN_API_KEY", "secret-of-the-administrator"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.init.org_public_key.as_deref(), Some("pk-org"));
    assert!(!format!("{config:?}").contains("secret-of"), "no secret in logs");
}

#[test]
fn the_token_of_the_metrics_is_checked_and_not_logged() {
    let load = |token| {
        Config::load(&Sources {
            env: env(&[("PERPEND_METRICS_TOKEN", token)]),
            ..Sources::default()
        })
    };
    for token in ["guessable", "a token with spaces between words"] {
        let error = load(token).unwrap_err().to_string();
        assert!(error.contains("metrics.token") && error.contains("24 characters"), "{error}");
        assert!(!error.contains(token), "{error}");
    }
    let config = load("token-of-the-metrics-of-a-test").unwrap();
    assert!(config.metrics.token.is_some());
    assert!(!format!("{config:?}").contains("token-of"), "no secret in logs");
    assert!(load("").unwrap().metrics.token.is_none());
}

#[test]
fn each_setting_has_its_own_variable_and_flag() {
    let mut envs: Vec<_> = SETTINGS.iter().map(Setting::env).collect();
    let mut flags: Vec<_> = SETTINGS.iter().map(Setting::flag).collect();
    for names in [&mut envs, &mut flags] {
        let n = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}

#[test]
fn settings_of_the_export_of_spans_are_checked_and_no_output_has_a_header() {
    let config = from_file(
        "[tracing]\notlp_endpoint = \"http://127.0.0.1:4318/v1/traces\"\nsampling_ratio = 0.25\n\
         otlp_headers = \"Authorization=Bearer%20secret-text, x-team=b\"",
    );
    let tracing = config.unwrap().tracing;
    assert_eq!(tracing.otlp_endpoint.as_deref(), Some("http://127.0.0.1:4318/v1/traces"));
    assert_eq!(tracing.sampling_ratio.to_string(), "0.25");
    let headers = [("authorization", "Bearer%20secret-text"), ("x-team", "b")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(tracing.otlp_headers, headers);
    assert!(!format!("{tracing:?}").contains("secret-text"));
    for (line, part) in [
        ("sampling_ratio = 0", "greater than 0"),
        ("sampling_ratio = 1.5", "at most 1"),
        ("otlp_endpoint = \"localhost:4318\"", "http://"),
        ("otlp_headers = \"secret-text\"", "name=value"),
    ] {
        let text = from_file(&format!("[tracing]\n{line}")).unwrap_err().to_string();
        assert!(text.contains(part) && !text.contains("secret-text"), "{text}");
    }
}
