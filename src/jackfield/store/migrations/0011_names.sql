-- The public name of every tool, which stays its own; `wish` is the name that it asked for when it got it.
CREATE TABLE names (
  source     TEXT NOT NULL,
  tool       TEXT NOT NULL,
  name       TEXT NOT NULL UNIQUE,
  wish       TEXT NOT NULL,
  is_foreign BIGINT NOT NULL,
  PRIMARY KEY (source, tool)
);
