-- What the plug-in called a score. Its name is made from that of the evaluator; scores from before that are stored
-- under the given name, and have none here.
ALTER TABLE scores ADD COLUMN given_name TEXT;
ALTER TABLE superseded_scores ADD COLUMN given_name TEXT;
