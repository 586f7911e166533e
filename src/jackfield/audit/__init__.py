"""The audit log: who changed what, in a chain of hashes for each gateway that shows what was changed afterwards."""
