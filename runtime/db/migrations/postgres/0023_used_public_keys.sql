-- Every public key that a key pair was ever made with. Rows are never deleted: a public key that was taken
-- away once is never given out again, or its senders would feed a stranger. It is inserted in the transaction
-- that makes the key pair, before the pair, so that two attempts at one public key meet at this primary key.
CREATE TABLE used_public_keys (
    public_key TEXT PRIMARY KEY
) ;
INSERT INTO used_public_keys (public_key) SELECT public_key FROM api_keys;
