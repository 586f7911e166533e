-- Models that an administrator made while the gateway runs; those of the config are not in here. `settings` is what was
-- given, with `${NAME}` for secrets.
CREATE TABLE models (
  name       TEXT PRIMARY KEY,
  settings   TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
