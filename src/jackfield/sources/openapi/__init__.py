"""Services that describe themselves in OpenAPI 3 or Swagger 2: `kind = "openapi"`. Each operation is a tool.

`source.py` is what the keeper holds: it reads the document, again every so often, and executes calls. `aside.py` reads
a large one in a process of its own. Pure, below them: `options.py` the operator's words, `document.py` a document and
its references, `yaml_text.py` YAML, `swagger.py` Swagger 2.0 in the words of OpenAPI 3, `servers.py` where it is,
`choosing.py` which operations are wanted, `parameters.py` what one takes, `schemas.py` its schemas as JSON Schema that
stands alone, `arguments.py` all of that as one schema, `operations.py` an operation as a tool, `messages.py` a call's
request, `files.py` files in it, `answers.py` what its answer means, `credentials.py` what is sent and never shown. A
document is foreign text: it can name no other host and fetch nothing, and what it costs to read is bounded. May import:
outgoing, what every source may. Never: another kind of source.
"""
