-- What a foreign tool was when it was first seen, or when a person last accepted it.
CREATE TABLE pins (
  source      TEXT NOT NULL,
  tool        TEXT NOT NULL,
  digest      TEXT NOT NULL,
  definition  TEXT NOT NULL,
  accepted_by TEXT,
  updated_at  BIGINT NOT NULL,
  PRIMARY KEY (source, tool)
);
