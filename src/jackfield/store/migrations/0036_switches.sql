-- What an administrator has switched off for everybody: tools, sources and keys. What is on has no row.
CREATE TABLE switches (
  kind        TEXT NOT NULL,
  source      TEXT NOT NULL,  -- of a tool, else empty
  name        TEXT NOT NULL,  -- a tool's as its source spells it
  title       TEXT NOT NULL,
  reason      TEXT NOT NULL,
  switched_by TEXT NOT NULL,
  switched_at BIGINT NOT NULL,
  PRIMARY KEY (kind, source, name)
);
