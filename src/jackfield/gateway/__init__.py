"""Composition: builds the services, starts and stops them, and serves the URL map."""
