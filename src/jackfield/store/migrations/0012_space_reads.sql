-- How far somebody says to have read a space. Also of one who only reads and is no member.
CREATE TABLE space_reads (
  space_id     TEXT NOT NULL,
  entity_id    TEXT NOT NULL,
  last_seq     BIGINT NOT NULL,
  last_message TEXT,
  read_at      BIGINT NOT NULL,
  PRIMARY KEY (space_id, entity_id)
);
