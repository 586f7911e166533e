"""Backups: one file with a consistent copy of the database, the config and the files it names."""
