"""ASGI plumbing: the app, routes, requests, responses, streams, the OpenAPI document. Knows no service."""
