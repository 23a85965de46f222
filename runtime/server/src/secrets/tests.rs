//! Behavior at start with each state of the key, on each database.

use perpend_catalog::connections::Connection;
use perpend_config::Sources;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_storage::testing::{OpenStore as _, TempDatabase, on_each_database};
use tempfile::TempDir;

use super::*;
use crate::RandomIds;

/// A data directory, and the settings of a server on it.
fn node() -> (TempDir, Config) {
    let dir = tempfile::tempdir().unwrap();
    let config = with_key(&dir, "");
    (dir, config)
}

fn with_key(dir: &TempDir, key: &str) -> Config {
    let dir = dir.path().to_str().unwrap().to_owned();
    let flags = vec![("data.dir", dir), ("secrets.key", key.to_owned())];
    Config::load(&Sources { flags, ..Sources::default() }).unwrap()
}

fn key_file(dir: &TempDir) -> PathBuf {
    dir.path().join(FILE)
}

/// The text of a key made of one byte.
fn key_of(byte: u8) -> String {
    STANDARD.encode([byte; 32])
}

fn vault_of(byte: u8) -> Vault {
    Vault::new(&[byte; 32])
}

/// Stores a connection whose secret is sealed with this key.
async fn seal(store: &Store, vault: &Vault, provider: &str) {
    let project = ProjectId::new("p").unwrap();
    let owner = SealedAt::Connection(provider.to_owned()).owner(&project);
    let connection = Connection {
        id: provider.to_owned(),
        provider: provider.to_owned(),
        adapter: "openai".to_owned(),
        secret: vault.seal(&owner, "sk", &RandomIds).unwrap(),
        display_secret: String::new(),
        base_url: None,
        custom_models: Vec::new(),
        with_default_models: true,
        extra_header_keys: Vec::new(),
        config: None,
        max_in_flight: 8,
        use_responses_api: false,
        created_at: Timestamp::from_millis(1),
        updated_at: Timestamp::from_millis(1),
    };
    let project = ProjectId::new("p").unwrap();
    assert!(store.catalog.put_connection(&project, &connection).await.unwrap());
}

/// The error of a start, which names the remedies.
async fn start_error(store: &Store, config: &Config) -> String {
    let text = open(store, config, &RandomIds).await.unwrap_err().to_string();
    for remedy in ["backup", "PERPEND_SECRETS_KEY", "perpend secrets reset"] {
        assert!(text.contains(remedy), "{text} should name {remedy}");
    }
    text
}

#[tokio::test]
async fn the_first_start_creates_a_private_key_file_and_later_starts_use_it() {
    use std::os::unix::fs::PermissionsExt as _;
    on_each_database(|store| async move {
        let (dir, config) = node();
        let first = open(&store, &config, &RandomIds).await.unwrap();
        let sealed = first.seal("o", "s", &RandomIds).unwrap();
        let again = open(&store, &config, &RandomIds).await.unwrap();
        assert_eq!(again.unseal("o", &sealed).unwrap(), "s");
        let mode = std::fs::metadata(key_file(&dir)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        // The same key in the settings, without the file.
        let key = std::fs::read_to_string(key_file(&dir)).unwrap();
        let (other, _) = node();
        let other = with_key(&other, &key);
        assert!(open(&store, &other, &RandomIds).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_key_created_by_root_belongs_to_the_owner_of_the_data_directory() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    // Only root can change the owner of a file.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    on_each_database(|store| async move {
        let (dir, config) = node();
        chown(dir.path(), Some(65_534), Some(65_533)).unwrap();
        reset(&store, &config, &RandomIds).await.unwrap();
        let key = std::fs::metadata(key_file(&dir)).unwrap();
        assert_eq!((key.uid(), key.gid()), (65_534, 65_533));
        assert_eq!(key.mode() & 0o777, 0o600);
    })
    .await;
}

#[tokio::test]
async fn a_new_key_is_kept_when_the_database_fails_before_the_canary_is_stored() {
    let database = TempDatabase::sqlite();
    let (dir, config) = node();
    let source = KeySource::of(&config);
    let broken = database.open().await;
    broken.close().await;
    let failed = create_key(&broken, &source, &RandomIds).await.unwrap_err();
    assert!(!failed.is::<KeyMismatch>(), "{failed}");
    let key = std::fs::read_to_string(key_file(&dir)).unwrap();
    let store = database.open().await;
    open(&store, &config, &RandomIds).await.unwrap();
    assert_eq!(std::fs::read_to_string(key_file(&dir)).unwrap(), key);

    // With another key in the database, a new one is removed.
    let (later, config) = node();
    let source = KeySource::of(&config);
    let refused = create_key(&store, &source, &RandomIds).await.unwrap_err();
    assert!(refused.is::<KeyMismatch>(), "{refused}");
    assert!(!key_file(&later).exists());
    store.close().await;
}

#[tokio::test]
async fn a_lost_or_different_key_prevents_the_start_and_no_new_one_is_created() {
    on_each_database(|store| async move {
        let (dir, config) = node();
        open(&store, &config, &RandomIds).await.unwrap();
        let key = std::fs::read_to_string(key_file(&dir)).unwrap();

        std::fs::remove_file(key_file(&dir)).unwrap();
        let error = start_error(&store, &config).await;
        assert!(error.contains("secrets.key is missing"), "{error}");
        assert!(!error.contains("encrypted"), "nothing was: {error}");
        assert!(!key_file(&dir).exists());

        std::fs::write(key_file(&dir), key_of(7)).unwrap();
        let error = start_error(&store, &config).await;
        assert!(error.contains("is not the key of this database"), "{error}");
        start_error(&store, &with_key(&dir, &key_of(7))).await;

        std::fs::write(key_file(&dir), "").unwrap();
        let damaged = open(&store, &config, &RandomIds).await.unwrap_err();
        assert!(damaged.to_string().contains("does not contain a valid key"), "{damaged}");

        std::fs::write(key_file(&dir), key).unwrap();
        open(&store, &config, &RandomIds).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn without_a_canary_the_key_is_verified_with_encrypted_values() {
    on_each_database(|store| async move {
        let (dir, config) = node();
        seal(&store, &vault_of(1), "first").await;
        seal(&store, &vault_of(1), "second").await;
        // The key is lost or different.
        start_error(&store, &config).await;
        assert!(!key_file(&dir).exists());
        start_error(&store, &with_key(&dir, &key_of(2))).await;
        assert_eq!(store.catalog.existing_secret(CANARY).await.unwrap(), None);
        // A key that was lost and replaced earlier: lost values do not prevent the start.
        seal(&store, &vault_of(2), "third").await;
        open(&store, &with_key(&dir, &key_of(2)), &RandomIds).await.unwrap();
        start_error(&store, &with_key(&dir, &key_of(1))).await;
    })
    .await;
}

#[tokio::test]
async fn servers_that_start_concurrently_on_one_database_agree_on_one_key() {
    on_each_database(|store| async move {
        let nodes: Vec<_> = (0..6).map(|_| node()).collect();
        let starts = nodes.iter().map(|(_, config)| open(&store, config, &RandomIds));
        let started = futures_util::future::join_all(starts).await;
        let with_key = |(dir, _): &&(TempDir, Config)| key_file(dir).exists();
        let n_started = started.iter().filter(|vault| vault.is_ok()).count();
        assert_eq!((n_started, nodes.iter().filter(with_key).count()), (1, 1));
        for (_, config) in nodes.iter().filter(|node| !with_key(node)) {
            start_error(&store, config).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_lists_lost_values_and_can_be_reverted() {
    on_each_database(|store| async move {
        let (dir, config) = node();
        let old = with_key(&dir, &key_of(1));
        assert!(matches!(preview(&store, &old).await.unwrap(), ResetEffect::KeyMatches));
        open(&store, &old, &RandomIds).await.unwrap();
        seal(&store, &vault_of(1), "main").await;
        assert!(matches!(preview(&store, &old).await.unwrap(), ResetEffect::KeyMatches));

        let lost = async |config: &Config| match preview(&store, config).await.unwrap() {
            ResetEffect::Lost(lost) => lost,
            ResetEffect::KeyMatches => Vec::new(),
        };
        assert_eq!(lost(&config).await, ["the LLM connection \"main\" of project p"]);
        start_error(&store, &config).await;
        reset(&store, &config, &RandomIds).await.unwrap();
        open(&store, &config, &RandomIds).await.unwrap();
        start_error(&store, &old).await;

        // The previous key is found.
        assert_eq!(lost(&old).await, Vec::<String>::new());
        reset(&store, &old, &RandomIds).await.unwrap();
        let vault = open(&store, &old, &RandomIds).await.unwrap();
        let sealed = store.catalog.sealed_values().await.unwrap();
        assert_eq!(unreadable(&vault, &sealed), Vec::<String>::new());
    })
    .await;
}

#[test]
fn an_empty_or_missing_database_file_is_an_error_only_with_a_key_file() {
    let (dir, config) = node();
    let url = config.database();
    let database = dir.path().join("perpend.db");
    ensure_database_not_lost(&url, &config).unwrap();
    // A first start that was killed before it created the tables and the key.
    std::fs::write(&database, "").unwrap();
    ensure_database_not_lost(&url, &config).unwrap();
    std::fs::write(key_file(&dir), key_of(1)).unwrap();
    let error = ensure_database_not_lost(&url, &config).unwrap_err().to_string();
    assert!(error.contains("0 bytes") && error.contains("backup"), "{error}");
    std::fs::write(&database, "SQLite format 3").unwrap();
    ensure_database_not_lost(&url, &config).unwrap();
    std::fs::remove_file(&database).unwrap();
    let error = ensure_database_not_lost(&url, &config).unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
    std::fs::remove_file(key_file(&dir)).unwrap();
    ensure_database_not_lost(&url, &config).unwrap();
}

#[test]
fn a_key_file_that_others_may_read_or_replace_gives_a_warning() {
    let warning = |mode| mode_warning(Path::new("secrets.key"), mode);
    assert_eq!(warning(0o100_600), None);
    assert!(warning(0o640).is_some_and(|text| text.contains("may read the key")));
    for mode in [0o666, 0o620, 0o602] {
        let text = warning(mode).unwrap_or_default();
        assert!(text.contains("replace") && text.contains(&format!("{mode:04o}")), "{text}");
    }
}
