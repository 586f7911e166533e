-- When a tool server was offered a call and began it, whose trace a call is part of, and which call it repeats.
ALTER TABLE calls ADD COLUMN offered_at BIGINT;
ALTER TABLE calls ADD COLUMN begun_at BIGINT;
ALTER TABLE calls ADD COLUMN trace_id TEXT;
ALTER TABLE calls ADD COLUMN replay_of TEXT;
