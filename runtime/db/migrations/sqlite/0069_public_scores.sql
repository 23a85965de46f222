-- Whether the public half of a key pair may be sent alone to write scores.
ALTER TABLE api_keys ADD COLUMN public_scores SMALLINT NOT NULL DEFAULT 1;
