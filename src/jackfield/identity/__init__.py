"""Who asks: keys, logins, and what a request may do."""
