"""For people who write tool files: `jackfield_tool.py`, one standard-library file that runs in every worker."""
