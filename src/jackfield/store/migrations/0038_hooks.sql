-- What hooks did to a call (JSON), and results that one of them withheld: for administrators only.
ALTER TABLE calls ADD COLUMN hooks TEXT;
CREATE TABLE withheld_results (
  call_id TEXT PRIMARY KEY,
  outcome TEXT NOT NULL
);
