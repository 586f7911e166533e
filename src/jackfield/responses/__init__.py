"""Open Responses: the request, the run, its storage, HTTP and WebSocket."""
