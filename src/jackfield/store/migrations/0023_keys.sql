-- Keys that were made while the gateway runs. Only digests: a key itself is shown once and kept nowhere.
CREATE TABLE keys (
  name       TEXT PRIMARY KEY,
  digest     TEXT NOT NULL UNIQUE,
  old_digest TEXT,
  old_until  BIGINT,
  rights     TEXT NOT NULL,
  expires_at BIGINT,
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  rotated_at BIGINT
);
