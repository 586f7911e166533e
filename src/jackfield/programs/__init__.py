"""Code mode: programs that call tools. Each runs in a sandbox, waits for answers without a process, and is replayed."""
