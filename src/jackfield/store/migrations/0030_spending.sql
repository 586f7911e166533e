-- What was taken of each limit within its window, for all gateways of this database: JSON, points by time slot.
CREATE TABLE spending (
  id         TEXT PRIMARY KEY,
  slots      TEXT NOT NULL,
  writes     BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
