"""Services that describe themselves in OpenAPI 3: `kind = "openapi"`. Each operation is a tool.

`source.py` is what the keeper holds: it reads the document, again every so often, and executes calls. Pure, below it:
`options.py` the operator's words, `document.py` a document and its references, `servers.py` where the service is,
`choosing.py` which operations are wanted, `parameters.py` what one takes, `schemas.py` its schemas as JSON Schema that
stands alone, `arguments.py` all of that as one schema, `operations.py` an operation as a tool, `messages.py` a call's
request, `answers.py` what its answer means, `credentials.py` what is sent and never shown. A document is foreign text:
it can name no other host and fetch nothing, and what it costs to read is bounded. May import: outgoing, what every
source may. Never: another kind of source.
"""
