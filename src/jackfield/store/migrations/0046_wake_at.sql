-- When a parked run goes on though nobody has answered: a program that sleeps for long.
ALTER TABLE runs ADD COLUMN wake_at BIGINT;
CREATE INDEX runs_to_wake ON runs (wake_at) WHERE status = 'parked' AND wake_at IS NOT NULL;
