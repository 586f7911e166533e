-- What an administrator sets for a key, or for everybody (principal ''), is apart from what the key sets for itself.
ALTER TABLE preferences RENAME TO preferences_before;
CREATE TABLE preferences (
  principal TEXT NOT NULL,
  chat_id   TEXT NOT NULL DEFAULT '',
  scenario  TEXT NOT NULL,
  tool      TEXT NOT NULL,
  enabled   BIGINT,
  approval  TEXT,
  by_admin  BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (principal, chat_id, scenario, tool, by_admin)
);
INSERT INTO preferences (principal, chat_id, scenario, tool, enabled, approval)
  SELECT principal, chat_id, scenario, tool, enabled, approval FROM preferences_before;
DROP TABLE preferences_before;
