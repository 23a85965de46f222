-- Backfills: a rule applied to stored targets, newest first. `resume_after` is the position after the last examined target,
-- `is_scanned` is 1 when no further target is examined, and `is_open` is 1 while it is running or paused or has executions that
-- have not ended. `revision` grows with each change: a step that was prepared for an older one is discarded.
-- States: 0 running, 1 paused, 2 completed, 3 cancelled, 4 failed.
CREATE TABLE backfills (
    project_id TEXT NOT NULL,
    id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    rule_name TEXT NOT NULL,
    target TEXT NOT NULL,
    mode TEXT NOT NULL,
    from_at BIGINT NOT NULL,
    to_at BIGINT NOT NULL,
    filter TEXT NOT NULL,
    max_items BIGINT,
    max_usd DOUBLE PRECISION,
    n_in_range BIGINT,
    usd_per_execution DOUBLE PRECISION,
    state SMALLINT NOT NULL,
    reason TEXT,
    revision BIGINT NOT NULL,
    resume_after TEXT,
    reached_at BIGINT,
    is_scanned SMALLINT NOT NULL,
    is_open SMALLINT NOT NULL,
    n_examined BIGINT NOT NULL,
    n_items BIGINT NOT NULL,
    n_present BIGINT NOT NULL,
    n_refused BIGINT NOT NULL,
    n_left_out BIGINT NOT NULL,
    n_executions BIGINT NOT NULL,
    n_completed BIGINT NOT NULL,
    n_skipped BIGINT NOT NULL,
    n_failed BIGINT NOT NULL,
    n_cancelled BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    PRIMARY KEY (project_id, id)
);
CREATE INDEX backfills_open ON backfills (created_at) WHERE is_open = 1;
CREATE INDEX backfills_by_time ON backfills (project_id, created_at, id);

-- Executions of backfills whose end is not counted yet. Their number is limited.
CREATE TABLE backfill_executions (
    project_id TEXT NOT NULL,
    backfill_id TEXT NOT NULL,
    execution_seq BIGINT NOT NULL,
    PRIMARY KEY (project_id, backfill_id, execution_seq)
);

-- Observations that were evaluated more than once. All others need no search for superseded scores.
CREATE INDEX executions_repeated ON executions (project_id, rule_id, trace_id)
 WHERE generation > 0 AND observation_id IS NOT NULL;
