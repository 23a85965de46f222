-- What waits is taken in turn: from one project after the other, then by class, then by rule. A queue is what
-- waits of one rule in one class and lane, so that the next of it is found without looking at the others.
--
-- `class`: 0 experiment, 1 manual, 2 continuous, 3 cron, 4 backfill. `lane`: 0 code, 1 model.
-- `origin` says why an execution exists: 0 rule, 1 job, 2 experiment, 3 backtest.
CREATE TABLE execution_queues (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    class SMALLINT NOT NULL,
    lane SMALLINT NOT NULL
);
CREATE UNIQUE INDEX execution_queues_by_rule ON execution_queues (project_id, rule_id, class, lane);

ALTER TABLE executions ADD COLUMN origin SMALLINT NOT NULL DEFAULT 0;
-- Of those that had ended before this step, 0: they wait for nothing.
ALTER TABLE executions ADD COLUMN queue BIGINT NOT NULL DEFAULT 0;
INSERT INTO execution_queues (project_id, rule_id, class, lane)
SELECT DISTINCT project_id, rule_id, 2, 0 FROM executions WHERE state < 4;
UPDATE executions
   SET queue = (SELECT q.id FROM execution_queues q
                 WHERE q.project_id = executions.project_id AND q.rule_id = executions.rule_id)
 WHERE state < 4;
DROP INDEX executions_open;
CREATE INDEX executions_ready ON executions (queue, due_at) WHERE state < 3;
CREATE INDEX executions_held ON executions (due_at) WHERE state = 3;
