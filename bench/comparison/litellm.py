"""LiteLLM's proxy as its production page sets it up: no debug logs, no `.env`, one uvicorn worker, a master key.

It has no database here, so no spend logs; prices come from its package instead of the network.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.comparison.environments import environment
from bench.comparison.places import Place, Running, free_port, serving, wait_for
from bench.comparison.talk import ARGUMENTS, TOOL, Endpoint, HttpWay, StreamWay

KEY = "sk-key-of-the-bench"
SETTINGS = {"LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
CONFIG = """\
model_list:
  - model_name: fast
    litellm_params:
      model: openai/fast
      api_key: none
      api_base: http://127.0.0.1:{model}/v1
      use_chat_completions_api: true
mcp_servers:
{servers}  service:
    server_id: service
    url: http://127.0.0.1:{service}
    spec_path: http://127.0.0.1:{service}/openapi.json
    allow_all_keys: true
general_settings:
  master_key: {key}
litellm_settings:
  request_timeout: 600
  set_verbose: false
  json_logs: true
  user_url_allowed_hosts: ["127.0.0.1"]
"""
SERVER = """\
  {name}:
    url: {url}
    transport: http
    allow_all_keys: true
"""
UPSTREAM = "up"


@contextmanager
def running(place: Place, folder: Path) -> Generator[Running]:
    """The proxy before the MCP servers, the HTTP service and the model."""
    servers = "".join(
        SERVER.format(name=name, url=url) for name, url in zip((UPSTREAM, "spare"), place.urls, strict=False)
    )
    config = CONFIG.format(servers=servers, model=place.model.port, service=place.service.port, key=KEY)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    port = free_port()
    command: list[str | Path] = [environment("litellm") / "litellm", "--config", "config.yaml"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with serving(command, folder, port, {**os.environ, **SETTINGS}) as server:
        key = {"Authorization": f"Bearer {KEY}"}
        # it sorts tools under the server that the answer is asked of, and a body is one argument
        call = {"server_id": "service", "name": "give_back", "arguments": {"body": ARGUMENTS}}
        only = {"x-mcp-servers": UPSTREAM} if len(place.urls) == 1 else {}  # it reads resources of one server only
        endpoint = Endpoint(port=port, path="/mcp/", headers={**key, **only}, tool=f"{UPSTREAM}-{TOOL}")
        http = HttpWay(port=port, path="/mcp-rest/tools/call", body=call, headers=key)
        streams = (
            StreamWay(says="Responses", port=port, path="/v1/responses", headers=key),
            StreamWay(says="chat", port=port, path="/v1/chat/completions", headers=key),
        )
        yield wait_for(Running(server=server, endpoint=endpoint, http=http, streams=streams), folder)
