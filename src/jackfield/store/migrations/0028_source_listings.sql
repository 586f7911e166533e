-- What sources with a login listed last. Some servers show it after a login only, and it outlives a restart.
CREATE TABLE source_listings (
  source     TEXT PRIMARY KEY,
  listing    TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);
