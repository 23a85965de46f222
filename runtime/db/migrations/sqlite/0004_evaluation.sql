-- The ledger of evaluations: one row per execution, which is the queue as well.
--
-- Rows stand in the order they were made. `id` is the 16 bytes that its hex digits stand for: half the
-- size in the one index with random order. `state` counts the states of a domain execution from 0;
-- below 4 something will still happen by itself, and `due_at` says when: for a pending one when it was
-- made, for a running one when its lease ends, for a delayed one when it is tried again, for a held one
-- when it is given up.
CREATE TABLE executions (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    id BLOB NOT NULL,
    rule_id TEXT NOT NULL,
    assignment_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    observation_id TEXT,
    generation INTEGER NOT NULL,
    inclusion_probability DOUBLE PRECISION NOT NULL,
    completion TEXT NOT NULL,
    n_observations INTEGER NOT NULL,
    n_late INTEGER NOT NULL DEFAULT 0,
    state SMALLINT NOT NULL,
    fence BIGINT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL,
    evaluator_version_id TEXT,
    error_class TEXT,
    error_message TEXT,
    created_at BIGINT NOT NULL,
    first_attempt_at BIGINT,
    finished_at BIGINT
);
CREATE UNIQUE INDEX executions_by_id ON executions (id);
CREATE INDEX executions_by_trace ON executions (project_id, trace_id);
CREATE INDEX executions_open ON executions (due_at) WHERE state < 4;
CREATE INDEX executions_failed ON executions (project_id, finished_at) WHERE state = 6;

-- Attempts that did not complete their execution. The one that did is told by the execution's own row
-- (first_attempt_at, finished_at, evaluator_version_id): at line rate nearly every execution has just it.
CREATE TABLE attempts (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    execution_seq BIGINT NOT NULL,
    number INTEGER NOT NULL,
    ended_at BIGINT NOT NULL,
    class TEXT NOT NULL,
    message TEXT NOT NULL,
    evaluator_version_id TEXT,
    cpu_us BIGINT NOT NULL
);
CREATE INDEX attempts_by_execution ON attempts (execution_seq);

-- What happened to the targets of a rule, by hour: refusals by reason, executions made, outcomes.
CREATE TABLE rule_counts (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    hour BIGINT NOT NULL,
    reason TEXT NOT NULL,
    n BIGINT NOT NULL,
    PRIMARY KEY (project_id, rule_id, hour, reason)
) WITHOUT ROWID;

-- Failures in a row that count against a rule's evaluators; no row means none.
CREATE TABLE rule_failures (
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (project_id, rule_id)
) WITHOUT ROWID;

-- Targets that are not complete yet for every rule. An empty observation stands for the whole trace.
-- Rules whose waiting time was over at `looked_at` have been decided; a change sets it back to 0.
CREATE TABLE watches (
    project_id TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    observation_id TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    looked_at BIGINT NOT NULL,
    due_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, trace_id, observation_id)
) WITHOUT ROWID;
CREATE INDEX watches_due ON watches (due_at);
