-- A step that called a model and has no cost is no step that cost nothing: each trace counts both. Aggregates, the
-- second of two spans for one call, and steps that only name a model are told apart where a trace is folded, which
-- happens with the next change of it; here they would need the tree of each trace.
ALTER TABLE traces ADD COLUMN n_priced BIGINT NOT NULL DEFAULT 0;
ALTER TABLE traces ADD COLUMN n_unpriced BIGINT NOT NULL DEFAULT 0;

-- The record of a trace is not left out by name: it is no model call and has neither tokens nor cost.
UPDATE traces
   SET n_priced = s.n_priced, n_unpriced = s.n_unpriced
  FROM (SELECT o.trace, COUNT(o.total_cost) AS n_priced,
               SUM(CASE WHEN o.total_cost IS NULL AND (o.kind IN ('GENERATION', 'EMBEDDING')
                             OR COALESCE(o.total_tokens, o.input_tokens, o.output_tokens) IS NOT NULL)
                        THEN 1 ELSE 0 END) AS n_unpriced
          FROM observations o
         GROUP BY o.trace) s
 WHERE traces.number = s.trace AND 0 < s.n_priced + s.n_unpriced;
-- What an aggregate alone gave.
UPDATE traces SET n_priced = 1 WHERE n_priced = 0 AND 0 < total_cost;
