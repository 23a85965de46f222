-- The id of the key whose public half was all that the writer of a score showed. Whoever shows no more than that
-- changes these scores and no others.
ALTER TABLE scores ADD COLUMN public_half TEXT;
ALTER TABLE superseded_scores ADD COLUMN public_half TEXT;
