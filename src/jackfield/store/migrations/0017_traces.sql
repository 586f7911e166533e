-- Where in a tool file a call failed, for whoever runs the gateway.
CREATE TABLE call_traces (
  call_id TEXT PRIMARY KEY,
  trace   TEXT NOT NULL
);
