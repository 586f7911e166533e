"""Keys, logins, and what a request may do."""
