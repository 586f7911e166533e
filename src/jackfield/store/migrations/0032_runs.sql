-- One journal for all that goes step by step and outlives its gateway: agents' cycles, responses and programs. A run
-- without an owner waits: `queued` for its first turn, `parked` for somebody's answer, `ready` to go on.
CREATE TABLE runs (
  id            TEXT PRIMARY KEY,
  kind          TEXT NOT NULL,
  principal     TEXT,
  agent         TEXT,
  number        BIGINT,
  status        TEXT NOT NULL,
  owner         TEXT,
  epoch         BIGINT NOT NULL,
  tries         BIGINT NOT NULL,
  awaited       BIGINT NOT NULL DEFAULT 0,
  answered      BIGINT NOT NULL DEFAULT 0,
  stop_wanted   BIGINT NOT NULL DEFAULT 0,
  request       TEXT,
  consumed      TEXT NOT NULL DEFAULT '[]',
  summary       TEXT,
  reason        TEXT,
  input_tokens  BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  parked_at     BIGINT,
  finished_at   BIGINT
);
INSERT INTO runs (id, kind, agent, number, status, owner, epoch, tries, consumed, summary, reason, input_tokens,
    output_tokens, created_at, finished_at)
SELECT id, 'cycle', agent, number, status, owner, epoch, tries, consumed, summary, reason, input_tokens,
    output_tokens, created_at, finished_at FROM cycles;
DROP TABLE cycles;
CREATE UNIQUE INDEX one_open_cycle_an_agent ON runs (agent) WHERE kind = 'cycle' AND status = 'open';
CREATE UNIQUE INDEX cycles_of_agent ON runs (agent, number) WHERE kind = 'cycle';
CREATE INDEX runs_by_end ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_to_claim ON runs (kind, principal, id) WHERE status IN ('queued', 'ready');
CREATE INDEX runs_at_work ON runs (kind, principal) WHERE status = 'open' AND kind <> 'cycle';
CREATE INDEX runs_of_principal ON runs (principal, id) WHERE principal IS NOT NULL;

ALTER TABLE steps ADD COLUMN created_at BIGINT;

-- The run that waits for a call, and the how manyth of its answers the call's was.
ALTER TABLE calls ADD COLUMN awaited_by TEXT;
ALTER TABLE calls ADD COLUMN answer BIGINT;
