-- The options that a request gave a tool of a registered type, for calls that go on when their request is long over.
ALTER TABLE ways ADD COLUMN config TEXT;
