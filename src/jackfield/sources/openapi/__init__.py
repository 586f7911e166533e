"""Services that describe themselves in OpenAPI 3 or Swagger 2: `kind = "openapi"`. Each operation is a tool.

`source.py` fetches the document again every so often and executes calls; `reader_process.py` converts a large document
in a process of its own. `document.py` reads a document, `operations.py` makes tools of it by way of `parameters.py`,
`arguments.py` and `schemas.py`; `requests.py` and `responses.py` are a call's two ends. A document is foreign text: it
can name no other host and fetch nothing, and what it costs to read is bounded.
"""
