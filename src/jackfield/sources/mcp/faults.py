"""What a call comes to whose server failed, in words. Pure."""

from jackfield.model.call import Failed
from jackfield.model.tool import CallKind, Tool
from jackfield.outgoing import OutgoingError
from jackfield.protocol.jsonrpc import RpcError
from jackfield.protocol.mcp import MISSING_CAPABILITY, URL_REQUIRED
from jackfield.sources.mcp.capabilities import missing_capability, url_required
from jackfield.sources.mcp.reading import failed_read
from jackfield.sources.mcp.transport import McpClientError, SessionLost, UpstreamLost


def what(tool: Tool) -> str:
    """A tool, prompt or resource as it is called in a sentence."""
    return f"{tool.operation.value} '{tool.name}'"


def failure_of(fault: McpClientError | RpcError | OutgoingError, tool: Tool, *, source: str) -> Failed:
    name = tool.name
    if isinstance(fault, SessionLost):
        text = f"The server of '{name}' was restarted and has not run this call. Call it again."
    elif isinstance(fault, UpstreamLost) and tool.operation is not CallKind.TOOL:
        text = f"The connection to '{source}' broke before {what(tool)} was read: {fault} Try again."
    elif isinstance(fault, UpstreamLost):
        text = (
            f"The connection to '{source}' broke while '{name}' ran, so it may or may not have taken effect: "
            f"{fault} Check before you call it again."
        )
    elif isinstance(fault, RpcError) and fault.number == MISSING_CAPABILITY:
        return missing_capability(fault, name)
    elif isinstance(fault, RpcError) and fault.number == URL_REQUIRED and tool.operation is CallKind.TOOL:
        return url_required(fault, name)
    elif isinstance(fault, RpcError) and tool.operation is not CallKind.TOOL:
        return failed_read(fault)
    elif isinstance(fault, RpcError):
        text = f"The server of '{name}' answered with error {fault.number}: {fault.message}"
    else:
        text = fault.message
    return Failed(fault.code, text)
