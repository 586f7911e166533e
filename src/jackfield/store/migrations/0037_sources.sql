-- Sources that an administrator made while the gateway runs; those of the config are not in here. `settings` is what
-- was given, with `${NAME}` for secrets.
CREATE TABLE sources (
  name       TEXT PRIMARY KEY,
  settings   TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);

-- The names of secrets for them. The values are in the vault, under the kind 'secret'.
CREATE TABLE secrets (
  name       TEXT PRIMARY KEY,
  version    BIGINT NOT NULL,
  updated_by TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);
