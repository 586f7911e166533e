"""The config of a service: `[sources.NAME]` with `kind = "manifest"`. Pure."""

from typing import Annotated, Any
from urllib.parse import quote, urljoin, urlsplit

from msgspec import Meta, Struct

from jackfield.errors import ConfigError
from jackfield.model.tool import HttpExecution, Tool
from jackfield.outgoing import OutgoingBadUrl
from jackfield.outgoing.urls import parse_url
from jackfield.settings.parsing import parse_config
from jackfield.sources.http import HttpTemplate, check_headers, template_of

CACHE_TTL = 60.0
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class ManifestOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of one service; times are in seconds."""

    url: str
    """Where the service is; `/api/v1/tools` is appended."""
    headers: dict[str, str] = {}
    """Sent with every request, such as credentials."""
    cache_ttl: Annotated[float, Meta(gt=0, le=86_400)] | None = None
    """How long a manifest is cached; 60 by default, or longer where the service says so."""
    timeout: Seconds = 10
    """For fetching the manifest."""
    call_timeout: Annotated[float, Meta(gt=0)] | None = None
    """For every call, over what the tools' metadata says."""
    allowed_tools: tuple[str, ...] | None = None
    """Names and globs of its tools that are offered; all if left out."""
    follow: bool = True
    """Whether to follow the stream of its changes, if it has one."""
    execution: HttpExecution | None = None
    """How its tools are executed where it has no execute endpoint; `{tool}` in the url is the tool's name."""
    executions: dict[str, HttpExecution] = {}
    """The same for single tools."""
    max_concurrency: Annotated[int, Meta(ge=1)] | None = None
    """Calls at once; without limit if left out."""

    @property
    def base(self) -> str:
        return self.url.partition("?")[0].partition("#")[0].rstrip("/")

    @property
    def server(self) -> str:
        """Where it is, without secrets."""
        return self.base

    @property
    def timeout_ms(self) -> int | None:
        return None if self.call_timeout is None else max(1, round(self.call_timeout * 1000))

    def at(self, path: str) -> str:
        return f"{self.base}{path}"

    def template(self, tool: Tool) -> HttpTemplate | None:
        """How this tool is executed, where the config says so. Raises `ConfigError`."""
        execution = self.executions.get(tool.name) or self.execution
        if execution is None:
            return None
        if execution.connection is not None:
            raise ConfigError(f"The execution of '{tool.name}' has a connection, which is for [[tools]]. Remove it.")
        if "://" in execution.url and "{" in urlsplit(execution.url).netloc:
            raise ConfigError(
                f"The execution of '{tool.name}' has a {{place}} in its host. Use places in the path only."
            )
        path = execution.url.replace("{tool}", quote(tool.name, safe=""))
        url = path if "://" in path else urljoin(f"{self.base}/", path.lstrip("/"))
        filled = HttpExecution(url=url, method=execution.method, headers={**self.headers, **execution.headers})
        return template_of(Tool(source=tool.source, name=tool.name, execution=filled))


def parse_options(options: dict[str, Any], *, where: str) -> ManifestOptions:
    """The options of one service, checked. Raises `ConfigError` that names `where`, the key and the cure."""
    parsed = parse_config(options, ManifestOptions, where=where)
    try:
        url = parse_url(parsed.url)
    except OutgoingBadUrl as fault:
        raise ConfigError(f"{where}.url is invalid. {fault} Correct it.") from None
    if url.userinfo:
        raise ConfigError(f"{where}.url has a user or password in it. Put them into headers.")
    check_headers(parsed.headers, where=f"{where}:", key="headers")
    for name in ("tool", *parsed.executions):
        try:
            parsed.template(Tool(source=where, name=name))
        except ConfigError as fault:
            raise ConfigError(f"{where}: {fault}") from None
    return parsed
