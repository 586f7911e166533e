-- Groups of tools that an administrator made while the gateway runs; those of the config are not in here.
CREATE TABLE tool_groups (
  name         TEXT PRIMARY KEY,
  tools        TEXT NOT NULL,
  description  TEXT NOT NULL,
  instructions TEXT NOT NULL,
  updated_by   TEXT NOT NULL,
  updated_at   BIGINT NOT NULL
);
