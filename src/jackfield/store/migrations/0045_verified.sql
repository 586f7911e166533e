-- Calls of tools that another tool can say of whether they took effect: which (`verify`), why it is asked (`verifying`:
-- 'interrupted' or 'timeout'), how often it was (`verifications`), and the call that gave the answer (`verified_by`).
ALTER TABLE calls ADD COLUMN verify TEXT;
ALTER TABLE calls ADD COLUMN verifying TEXT;
ALTER TABLE calls ADD COLUMN verifications INTEGER NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN verified_by TEXT;
