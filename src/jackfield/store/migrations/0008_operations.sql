-- Work that goes on at a tool's owner after its call was begun. A row is there as long as somebody has to look after it.
CREATE TABLE operations (
  call_id    TEXT PRIMARY KEY,
  owner      TEXT,
  epoch      BIGINT NOT NULL,
  reference  TEXT,
  begins     BIGINT NOT NULL,
  looks      BIGINT NOT NULL,
  faults     BIGINT NOT NULL,
  next_at    BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE INDEX operations_by_time ON operations (next_at);
CREATE INDEX operations_in_hand ON operations (owner) WHERE owner IS NOT NULL;

-- The gateways that a call came through, for calls that go on to others when their request is long over.
CREATE TABLE ways (
  call_id    TEXT PRIMARY KEY,
  via        TEXT NOT NULL,
  created_at BIGINT NOT NULL
);
