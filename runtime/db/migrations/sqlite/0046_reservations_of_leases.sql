-- What calls that are under way may cost; a row is deleted when its call ends. It counts while the execution is under the
-- lease with this fence, and not after `until`. Rows of an earlier release belong to processes that have ended.
DROP TABLE model_reservations;
CREATE TABLE model_reservations (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    usd DOUBLE PRECISION NOT NULL,
    until BIGINT NOT NULL,
    execution_id BLOB NOT NULL,
    fence BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX model_reservations_by_project ON model_reservations (project_id, until);
