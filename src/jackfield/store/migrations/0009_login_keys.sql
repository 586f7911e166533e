-- A login ends when the key that opened it is changed or removed. Those from before are of no known key: they end now.
DELETE FROM logins;
ALTER TABLE logins ADD COLUMN key_digest TEXT NOT NULL DEFAULT '';
