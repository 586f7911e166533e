-- What a call uses: a tool, a resource (`tool` is its URI then) or a prompt.
ALTER TABLE calls ADD COLUMN kind TEXT NOT NULL DEFAULT 'tool';
