-- What an agent's cycles leave behind: its consciousness, and a record of each cycle.
ALTER TABLE cycles ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cycles ADD COLUMN consumed TEXT NOT NULL DEFAULT '[]';
ALTER TABLE cycles ADD COLUMN summary TEXT;
ALTER TABLE cycles ADD COLUMN reason TEXT;
ALTER TABLE cycles ADD COLUMN input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cycles ADD COLUMN output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cycles ADD COLUMN finished_at BIGINT;
CREATE UNIQUE INDEX cycles_of_agent ON cycles (agent, number);
CREATE INDEX cycles_by_end ON cycles (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX inbox_of_cycle ON inbox (cycle_id) WHERE cycle_id IS NOT NULL;

CREATE TABLE consciousness (
  agent      TEXT PRIMARY KEY,
  version    BIGINT NOT NULL,
  data       TEXT NOT NULL,
  updated_at BIGINT NOT NULL
);
