-- What model calls cost, by UTC day: the sums that budgets are held against. `cost` is in US dollars and leaves out the
-- calls whose price is not known, which `n_unpriced` counts.
CREATE TABLE model_costs (
    project_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    rule_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    n_calls BIGINT NOT NULL,
    n_failed BIGINT NOT NULL,
    n_unpriced BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (project_id, day, rule_id, evaluator_id, provider, model)
) WITHOUT ROWID;
INSERT INTO model_costs
    SELECT c.project_id, c.started_at - c.started_at % 86400000000, e.rule_id, c.evaluator_id, c.provider, c.model,
           COUNT(*), COUNT(c.error_class), COUNT(*) - COUNT(c.error_class) - COUNT(CASE WHEN c.error_class IS NULL THEN c.cost END),
           SUM(c.input_tokens), SUM(c.output_tokens), COALESCE(SUM(c.cost), 0)
      FROM model_calls c JOIN executions e ON e.project_id = c.project_id AND e.id = c.execution_id
     GROUP BY c.project_id, c.started_at - c.started_at % 86400000000, e.rule_id, c.evaluator_id, c.provider, c.model;

-- What calls that are under way may cost; a row goes when its call is over. After `until` it counts no longer: the
-- process that made the call is gone.
CREATE TABLE model_reservations (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    evaluator_id TEXT NOT NULL,
    usd DOUBLE PRECISION NOT NULL,
    until BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX model_reservations_by_project ON model_reservations (project_id, until);

-- Who reserves writes the row of the project first: two that look at the same sums queue up.
CREATE TABLE model_turns (
    project_id TEXT NOT NULL PRIMARY KEY,
    n BIGINT NOT NULL
) WITHOUT ROWID;

-- Budgets of evaluators and projects; those of a rule stand with it. JSON arrays of {window, usd, onReached}.
CREATE TABLE budgets (
    project_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    budget TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, scope, scope_id)
) WITHOUT ROWID;

ALTER TABLE rules ADD COLUMN budget TEXT NOT NULL DEFAULT '[]';

-- A pause that ends by itself, and until when an evaluator of a rule is left out because a budget is spent.
ALTER TABLE rules ADD COLUMN paused_until BIGINT;
ALTER TABLE evaluators ADD COLUMN paused_until BIGINT;
ALTER TABLE assignments ADD COLUMN skipped_until BIGINT;
