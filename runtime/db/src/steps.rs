//! The steps of the schema, one file per database.

use crate::Step;

macro_rules! step {
    ($name:literal, $file:literal) => {
        Step {
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../migrations/postgres/", $file)),
        }
    };
}

/// In order; the number of a file is its index from 1.
pub const STEPS: &[Step] = &[
    step!("telemetry", "0001_telemetry.sql"),
    step!("catalog", "0002_catalog.sql"),
    step!("scores", "0003_scores.sql"),
    step!("evaluation", "0004_evaluation.sql"),
    step!("grants", "0005_grants.sql"),
    step!("datasets", "0006_datasets.sql"),
    step!("prompts", "0007_prompts.sql"),
    step!("media", "0008_media.sql"),
    step!("score configs", "0009_score_configs.sql"),
    step!("events", "0010_events.sql"),
    step!("teamwork", "0011_teamwork.sql"),
    step!("models", "0012_models.sql"),
    step!("connections", "0013_connections.sql"),
    step!("rollups", "0014_rollups.sql"),
    step!("trace filters", "0015_trace_filters.sql"),
    step!("organizations", "0016_organizations.sql"),
    step!("dashboards", "0017_dashboards.sql"),
    step!("experiments", "0018_experiments.sql"),
    step!("narrow lists", "0019_narrow_lists.sql"),
    step!("blob exports", "0020_blob_exports.sql"),
    step!("watches began", "0021_watches_began.sql"),
    step!("superseded scores", "0022_superseded_scores.sql"),
    step!("used public keys", "0023_used_public_keys.sql"),
    step!("given names", "0024_given_names.sql"),
    step!("public halves", "0025_public_halves.sql"),
    step!("execution queues", "0026_execution_queues.sql"),
    step!("judges", "0027_judges.sql"),
    step!("kept answers", "0028_kept_answers.sql"),
    step!("budgets", "0029_budgets.sql"),
    step!("version policies", "0030_version_policies.sql"),
    step!("evaluator checks", "0031_evaluator_checks.sql"),
    step!("rules after rules", "0032_rules_after_rules.sql"),
    step!("stored replies", "0033_stored_replies.sql"),
    step!("sessions as targets", "0034_sessions_as_targets.sql"),
    step!("trace orders", "0035_trace_orders.sql"),
    step!("orders of figures", "0036_orders_of_figures.sql"),
    step!("scores by number", "0037_scores_by_number.sql"),
    step!("scores by fingerprint", "0038_scores_by_fingerprint.sql"),
    step!("failed and slow traces", "0039_failed_and_slow_traces.sql"),
    step!("environments of marks", "0040_environments_of_marks.sql"),
    step!("trace counts", "0041_trace_counts.sql"),
    step!("newest runs", "0042_newest_runs.sql"),
    step!("unpriced steps", "0043_unpriced_steps.sql"),
    step!("marks of steps", "0044_marks_of_steps.sql"),
    step!("sums of groups", "0045_sums_of_groups.sql"),
    step!("reservations of leases", "0046_reservations_of_leases.sql"),
    step!("browser sessions", "0047_browser_sessions.sql"),
    step!("models by start date", "0048_models_by_start_date.sql"),
    step!("execution logs", "0049_execution_logs.sql"),
    step!("latest label", "0050_latest_label.sql"),
    step!("lists of executions", "0051_lists_of_executions.sql"),
    step!("links by trace", "0052_links_by_trace.sql"),
    step!("dataset imports", "0053_dataset_imports.sql"),
    step!("server runs", "0054_server_runs.sql"),
    step!("score directions and gates", "0055_score_directions_and_gates.sql"),
    step!("dataset states", "0056_dataset_states.sql"),
    step!("rule changes", "0057_rule_changes.sql"),
    step!("rules of runs", "0058_rules_of_runs.sql"),
    step!("backfills", "0060_backfills.sql"),
    step!("cron rules", "0061_cron_rules.sql"),
    step!("backtests", "0062_backtests.sql"),
    step!("scores by version", "0063_scores_by_version.sql"),
    step!("runs by name", "0064_runs_by_name.sql"),
    step!("traces of comments", "0065_traces_of_comments.sql"),
    step!("rotated keys", "0066_rotated_keys.sql"),
    step!("audit trail", "0067_audit_trail.sql"),
    step!("accounts", "0068_accounts.sql"),
    step!("public scores", "0069_public_scores.sql"),
];

/// The version of a database with all steps.
pub const KNOWN: i64 = STEPS.len() as i64;
