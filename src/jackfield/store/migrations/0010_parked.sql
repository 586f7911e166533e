-- Calls that wait for somebody while one gateway holds what it takes to go on with them.
CREATE INDEX calls_parked ON calls (owner) WHERE status = 'pending' AND owner IS NOT NULL;
