"""Logins at the servers behind the gateway: OAuth clients, stored credentials, who is logged in where."""
