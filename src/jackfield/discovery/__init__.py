"""For services that offer tools of their own: seed 004's endpoints in one line, with execution.

    from jackfield import discovery

    def add(a: int, b: int) -> int:
        \"\"\"Add two numbers.\"\"\"
        return a + b

    discovery.mount(app, tools=[add], name="calculator")     # any Starlette or FastAPI app

The service then has `GET /api/v1/tools`, `GET /api/v1/tools/{name}` and `POST /api/v1/tools/{name}/execute`, and any
Jackfield uses it with `kind = "manifest"`. `provider.py` is the part without a framework, for all others;
`mounting.py` fits it into Starlette. May import: the words of the gateway (model, errors), its schemas, its manifest
and its error answers, the SDK's functions. Never: what runs a gateway (app, store, calls, sources), so that the import
is light.
"""

from jackfield.catalog.manifest import Manifest
from jackfield.discovery.mounting import mount
from jackfield.discovery.provider import Provider, ToolProvider, ToolSet, manifest
from jackfield.discovery.replies import Reply
from jackfield.model.tool import Category
from jackfield.protocol.functions import ServedTool

__all__ = ["Category", "Manifest", "Provider", "Reply", "ServedTool", "ToolProvider", "ToolSet", "manifest", "mount"]
