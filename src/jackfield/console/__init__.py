"""The console: the built page with its assets, and the plain page where it was not built."""
