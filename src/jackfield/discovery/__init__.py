"""For services that publish their own functions as tools, by the Tool Discovery Protocol.

    from jackfield import discovery

    def add(a: int, b: int) -> int:
        \"\"\"Add two numbers.\"\"\"
        return a + b

    discovery.mount(app, tools=[add], name="calculator")     # any Starlette or FastAPI app

The service then has `GET /api/v1/tools`, `GET /api/v1/tools/{name}` and `POST /api/v1/tools/{name}/execute`, and any
gateway uses it as a source with `kind = "manifest"`. `provider.py` works without a web framework; `mounting.py` adds it
to a Starlette app. Imports `jackfield.protocol`, `model` and `errors` only, so that no server code is loaded.
"""

from jackfield.discovery.mounting import mount
from jackfield.discovery.provider import Provider, Reply, ToolProvider, ToolSet, manifest
from jackfield.model.tool import Category
from jackfield.protocol.functions import ServedTool
from jackfield.protocol.manifest import Manifest

__all__ = ["Category", "Manifest", "Provider", "Reply", "ServedTool", "ToolProvider", "ToolSet", "manifest", "mount"]
