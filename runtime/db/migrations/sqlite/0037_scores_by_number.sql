-- Lists of traces begin with the best or the worst in a score: the numbers of one name, of traces themselves, in order.
CREATE INDEX scores_by_number ON scores (project_id, name, number, timestamp, trace_id)
    WHERE trace_id IS NOT NULL AND observation_id IS NULL AND number IS NOT NULL;
