"""One gateway: builds every service, starts and stops them in order.

Above: `server.py`, which serves it on a port, and the command line, which runs it without one. Below: every package.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Self

import msgspec

from jackfield.agents.builtin_handlers import agent_handlers
from jackfield.agents.cycle_runner import CycleRunner
from jackfield.agents.registry import AgentRegistry
from jackfield.agents.scheduler import AgentScheduler
from jackfield.agents.transactions import AGENTS_TOPIC
from jackfield.audit.log import AuditLog, prune_audit
from jackfield.audit.types import Entry
from jackfield.calls.answers import Answers
from jackfield.calls.callbacks import SignedLinks
from jackfield.calls.cluster import RemoteCalls
from jackfield.calls.events import CallEvents
from jackfield.calls.executor import Executor
from jackfield.calls.login_transactions import call_that_waits
from jackfield.calls.operations import Operations
from jackfield.calls.pipeline import Pipeline
from jackfield.calls.recovery import Recovery
from jackfield.calls.redaction import Redactor
from jackfield.calls.sweeper import SWEEP_SECONDS, Sweeper
from jackfield.calls.telemetry import open_telemetry
from jackfield.calls.tool_servers import ToolServers
from jackfield.calls.transactions import announce_row
from jackfield.calls.verification import Verification
from jackfield.catalog.checking import Checking, helper_process
from jackfield.catalog.cluster_limits import ClusterLimits
from jackfield.catalog.groups import Groups
from jackfield.catalog.limits import FLUSH_SECONDS, LocalLimits
from jackfield.catalog.pinning import Pinning
from jackfield.catalog.preferences import PreferenceBook
from jackfield.catalog.stored_tools import StoredTools
from jackfield.catalog.switch_transactions import SwitchKind
from jackfield.catalog.transactions import PREFERENCES_TOPIC
from jackfield.connections.flows import LoginFlows
from jackfield.connections.owners import LoginsOfOwners
from jackfield.connections.types import WaitingCall
from jackfield.errors import Refused, Unavailable
from jackfield.gateway.building import (
    SPEAK_SO,
    catalog_of,
    configured_agents,
    configured_sources,
    connections_of,
    engine_of,
    hidden_from_sandboxes,
    identity_warnings,
    live_sources_of,
    mcp_servers_of,
    models_of,
    mute_agents,
    public_settings,
    sessions_of,
)
from jackfield.gateway.key_names import KeyNames
from jackfield.gateway.reloading import ConfigReloader
from jackfield.gateway.retention import prune
from jackfield.hooks.service import Hooks
from jackfield.http.app import Availability
from jackfield.identity.keys import ADMIN, Keyring
from jackfield.identity.oauth.front import OAuthFront
from jackfield.identity.oidc import OidcProvider
from jackfield.identity.people import People
from jackfield.identity.principals import Principals
from jackfield.identity.stored_keys import StoredKeys
from jackfield.llm.models import answer_to
from jackfield.llm.run_time import RunTimeModels
from jackfield.mcp.session_tools import SessionTools
from jackfield.model.call import CallStatus
from jackfield.model.ids import new_id
from jackfield.model.principal import Principal
from jackfield.notify.service import Notifications, NotifyLinks
from jackfield.outgoing import Outgoing
from jackfield.overview.service import ROLL_UP_SECONDS, Overview
from jackfield.programs.service import ProgramService
from jackfield.programs.source import program_sources
from jackfield.runs.model_steps import StepLogs
from jackfield.runs.tool_search import ToolSearch
from jackfield.settings import Settings
from jackfield.sources.base import Source, SourceContext
from jackfield.sources.builtin import BuiltinSource
from jackfield.sources.kept_listings import KeptListings
from jackfield.sources.live import LiveSources, SourceBook
from jackfield.sources.logs import SourceLogs
from jackfield.sources.run_time import RunTimeSources
from jackfield.sources.services import ServiceDiscovery
from jackfield.sources.source_registry import SourceRegistry
from jackfield.sources.supervisor import OPEN_SECONDS, SourceState, SourceStatus
from jackfield.sources.transactions import TOOLS_TOPIC
from jackfield.spaces.service import SpaceService
from jackfield.store import gateways as gateway_tx
from jackfield.store import naming, open_store
from jackfield.store.gateways import Cluster
from jackfield.workers.host import WorkerHost

log = logging.getLogger("jackfield")

SOURCES_COME_UP_WITHIN = 2.0
"""How long the start waits for sources before it serves without the slow ones, in seconds."""
TAKES_UP_WITHIN = OPEN_SECONDS
"""How long work of other gateways waits here for sources that have neither come up nor failed, in seconds."""
OWN_KINDS = frozenset({"files"})
"""The operator's own sources that take a moment to list: no foreign tool is named before theirs are."""
BEAT_SECONDS = 5.0
PRUNE_SECONDS = 600.0
PRUNE_STEP = 500
PRUNE_PAUSE = 0.05
TIDY_SECONDS = 86_400.0


class Gateway:
    """A running gateway without its HTTP routes."""

    _background: list[asyncio.Task[None]]
    sweeps: list[Callable[[], Awaitable[None]]]
    """What else looks after work of dead gateways, every second."""
    sources_listed: asyncio.Event
    """Set once every source has listed its tools or failed to, or has had its time. Work that was begun elsewhere is
    taken up from then on: before, it would miss tools with which it began.
    """

    def __init__(self, settings: Settings) -> None:
        self.id = new_id("gw")
        self.settings = settings
        self.availability = Availability()
        self.declared_dead = asyncio.Event()
        """Others have taken over what this gateway did; whoever runs it starts a new one."""
        self._listings_changed, self.sources_listed = asyncio.Event(), asyncio.Event()
        self._background, self.sweeps = [], []
        with naming(settings.store_from):
            self.store = open_store(
                settings.store_url, folder=settings.folder, data=settings.data, large_result=settings.large_result
            )
        self.overview = Overview(self.store)
        self.outgoing = Outgoing(settings.outgoing.allow)
        redactor = self.redactor = Redactor(lambda: settings.secrets.used, settings.secrets.tokens)
        self.audit, self.source_logs = AuditLog(self.id, redact=redactor.text), SourceLogs(redact=redactor.note)
        self.worker_host = WorkerHost(
            settings.data / "workers",
            redact=redactor.text,
            base=settings.folder,
            hidden=hidden_from_sandboxes(settings),
        )
        self.checking = Checking(helper_process(self.worker_host.supervisor))
        self.preferences = PreferenceBook()
        self.catalog = catalog_of(settings, checking=self.checking, preferences=self.preferences)
        self.groups = Groups.from_settings(settings)
        self.groups.on_change = partial(self.catalog.regroup, exists=self.groups.has)
        self.pinning = Pinning(catalog=self.catalog, store=self.store, audit=self.audit)
        self.source_book, self.source_registry = (
            SourceBook(settings.sources),
            SourceRegistry(on_listing=self._listings_changed.set, redact=redactor.text),
        )
        self.vault, self.connections = connections_of(
            settings,
            store=self.store,
            outgoing=self.outgoing,
            audit=self.audit,
            on_change=self.source_registry.login_changed,
        )
        self.cluster = Cluster()
        self.links = SignedLinks(self.cluster, base_url=settings.url)
        self.stored_tools = StoredTools(
            settings,
            store=self.store,
            source_registry=self.source_registry,
            source_book=self.source_book,
            outgoing=self.outgoing,
            audit=self.audit,
            logins=LoginsOfOwners(self.connections, self._login_name),
        )
        self.hooks, self._executor = self._execution()
        self.pipeline = Pipeline(
            catalog=self.catalog,
            preferences=self.preferences,
            limits=ClusterLimits(self.store) if self.store.is_shared else LocalLimits(self.store),
            store=self.store,
            executor=self._executor,
            gateway_id=self.id,
        )
        self.servers = ToolServers(
            store=self.store, catalog=self.catalog, gateway_id=self.id, events=self._executor.events
        )
        self.models = models_of(settings, outgoing=self.outgoing)
        self.spaces = SpaceService(self.store, gateway_id=self.id)
        self.agents = AgentRegistry(self.store, configured_agents(settings))
        configured = configured_sources(settings, source_context := self._source_context())
        self.live_sources, self.run_time_sources, self._services = self._changing_sources(source_context)
        self.run_time_models = RunTimeModels(
            self.models,
            settings,
            store=self.store,
            audit=self.audit,
            value=self.run_time_sources.value,
            why_unset=self.run_time_sources.why_unset,
        )
        self.run_time_sources.on_secrets = self.run_time_models.describe
        self.mcp_servers = mcp_servers_of(
            self.source_registry, self.catalog, source_context, find_agent=self.agents.get, on_listing=self.pinning.look
        )
        # After whatever reads the config: it may make a key file, and a config that cannot be used leaves nothing.
        self.keyring = Keyring.from_settings(settings, groups=self.groups)
        self.principals, self.oauth, self.oidc = self._identity()
        self.key_names = KeyNames(settings, groups=self.groups, agents=self.agents, store=self.store)
        self.stored_keys = StoredKeys(
            self.keyring,
            self.store,
            audit=self.audit,
            end_calls=self.pipeline.cancel_waiting,
            end_logins=self.connections.forget_principal,
        )
        self.login_flows = LoginFlows(
            self.connections,
            store=self.store,
            vault=self.vault,
            outgoing=self.outgoing,
            public_url=settings.url,
            find_call=self._waiting_call,
            login_done=self._login_done,
        )
        self.answers = Answers(
            catalog=self.catalog,
            store=self.store,
            executor=self._executor,
            gateway_id=self.id,
            audit=self.audit,
            redactor=redactor,
            offer=self.servers.announce,
            switches=self.preferences.switches,
            find_principal=self.principal_named,
            connect_source=self.mcp_servers.reconnect,
            logins=source_context.logins,
            four_eyes=settings.approval.four_eyes,
        )
        self._remote_calls = RemoteCalls(
            store=self.store, events=self._executor.events, on_settled=self._settled_elsewhere
        )
        self._operations = Operations(
            store=self.store,
            catalog=self.catalog,
            source_registry=self.source_registry,
            executor=self._executor,
            redactor=redactor,
            gateway_id=self.id,
            sources_listed=self.sources_listed,
        )
        self._verification = Verification(
            store=self.store,
            pipeline=self.pipeline,
            executor=self._executor,
            source_registry=self.source_registry,
            find_principal=self.principal_named,
            gateway_id=self.id,
        )
        self._sweeper = Sweeper(
            store=self.store,
            pipeline=self.pipeline,
            executor=self._executor,
            answers=self.answers,
            servers=self.servers,
            recovery=Recovery(
                store=self.store,
                catalog=self.catalog,
                executor=self._executor,
                verification=self._verification,
                gateway_id=self.id,
                sources_listed=self.sources_listed,
            ),
            verification=self._verification,
            gateway_id=self.id,
        )
        self.tool_search = ToolSearch(self.catalog, above=settings.mcp.models_search_above)
        self._sources: list[Source] = [
            self._build_runs(self.tool_search),
            *program_sources(settings.programs),
            *configured,
            *self.stored_tools.sources,
        ]
        self.notifications = Notifications(
            settings.notify,
            store=self.store,
            outgoing=self.outgoing,
            gateway_id=self.id,
            links=NotifyLinks(signed=self.links, public_url=settings.url, login_url=self._executor.login_waits.url_of),
            redact=redactor.json,
        )
        self.reloader = ConfigReloader(self)

    def _build_runs(self, tool_search: ToolSearch) -> BuiltinSource:
        """What asks models: responses, agents and sessions. Returns their built-in tools."""
        settings = self.settings
        step_logs = StepLogs(self.store, redact=self.redactor.json, price_of=self.models.price_of)
        self.engine = engine_of(
            self.models,
            self.catalog,
            self.pipeline,
            self.answers,
            store=self.store,
            servers=self.mcp_servers,
            settings=settings.responses,
            tool_search=tool_search,
            step_logs=step_logs,
        )
        runner = CycleRunner(
            store=self.store,
            models=self.models,
            catalog=self.catalog,
            pipeline=self.pipeline,
            live=self.spaces.live,
            own_tools=self.mcp_servers.of_agent,
            tool_search=tool_search,
            step_logs=step_logs,
        )
        self.scheduler = AgentScheduler(
            runner, agents=self.agents, store=self.store, gateway_id=self.id, sources_listed=self.sources_listed
        )
        self.sessions = sessions_of(
            settings,
            self.models,
            self.catalog,
            self.pipeline,
            self.answers,
            store=self.store,
            servers=self.mcp_servers,
            tool_search=tool_search,
            step_logs=step_logs,
            worker_host=self.worker_host,
            redact=self.redactor.text,
            keyring=self.keyring,
            gateway_id=self.id,
        )
        self.session_tools = SessionTools(self.sessions)
        return BuiltinSource(agent_handlers() | tool_search.builtin_handlers | self.session_tools.builtin_handlers)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Open the store, bring the sources up, take over what the last gateway left, then be ready."""
        with naming(self.settings.store_from):
            await self.store.open()
        await self._load_keys()
        await self.store.write(
            partial(gateway_tx.enter, self.id, is_shared=self.store.is_shared, announce=announce_row)
        )
        await self.store.write(self.audit.begin)
        await self.reloader.announce()
        self.checking.open()
        self._executor.telemetry = open_telemetry(os.environ, gateway_id=self.id)
        await self.preferences.reload(self.store)
        await self.pipeline.limits.open()
        await self.pinning.catch_up()
        await self.cluster.load(self.store)
        for source in (*self._sources, *self._services.sources):
            await self.source_registry.add(source)
        await self.run_time_sources.reload()
        await self.run_time_models.reload()
        await self._services.look()
        await self.stored_tools.load()
        await self.source_registry.settled(within=SOURCES_COME_UP_WITHIN)
        await self.source_registry.settled(within=OPEN_SECONDS, kinds=OWN_KINDS)
        await self.take_listings()
        self.pinning.free_names({status.name: status for status in self.source_registry.statuses()})
        await self.agents.open()
        if await self.source_registry.settled(within=0):
            self.sources_listed.set()
        recovered = await self._sweeper.recover()
        if recovered:
            log.warning("took over %d calls that were running when the last gateway stopped", recovered)
        # Before anything is served: what is answered from now on must find everything taken over.
        await self._sweeper.sweep()
        for warning in identity_warnings(self.settings):
            log.warning("%s", warning)
        for name, why in mute_agents(self.settings):
            log.warning("agent %s: %s %s", name, why, SPEAK_SO)
        self.principals.on_ended(self.sessions.end_of)
        self.scheduler.start()
        self.notifications.start()
        self._background = [
            asyncio.create_task(self._follow(AGENTS_TOPIC, self.agents.load), name="agents"),
            asyncio.create_task(_every(SWEEP_SECONDS, self.scheduler.sweep), name="agents' inboxes"),
            asyncio.create_task(self._follow_listings(), name="catalog"),
            asyncio.create_task(self._await_listings(), name="first listings"),
            asyncio.create_task(self._follow(TOOLS_TOPIC, self.stored_tools.load), name="kept tools"),
            asyncio.create_task(
                self._follow(PREFERENCES_TOPIC, partial(self.preferences.reload, self.store)), name="preferences"
            ),
            asyncio.create_task(self.preferences.switches.follow(self.store), name="switches"),
            asyncio.create_task(self.groups.follow(self.store), name="groups"),
            asyncio.create_task(self.stored_keys.follow(), name="keys"),
            asyncio.create_task(self.run_time_sources.follow(), name="sources made at run time"),
            asyncio.create_task(self.run_time_models.follow(), name="models made at run time"),
            asyncio.create_task(self.connections.book.follow(), name="connections"),
            asyncio.create_task(self.principals.people.follow(), name="people"),
            asyncio.create_task(self.pinning.follow(), name="pins"),
            asyncio.create_task(self._remote_calls.follow(), name="calls elsewhere"),
            asyncio.create_task(self._operations.run(), name="operations"),
            *([asyncio.create_task(self.programs.run(), name="programs")] if self.programs is not None else []),
            asyncio.create_task(self._services.follow(), name="services"),
            asyncio.create_task(_every(BEAT_SECONDS, self._beat), name="heartbeat"),
            asyncio.create_task(_every(SWEEP_SECONDS, self._sweeper.sweep), name="sweeper"),
            asyncio.create_task(_every(SWEEP_SECONDS, self._sweep_others), name="runs"),
            asyncio.create_task(_every(SWEEP_SECONDS, self.sessions.tend), name="sessions"),
            asyncio.create_task(_every(SWEEP_SECONDS, self._end_expired), name="expired keys"),
            asyncio.create_task(_every(FLUSH_SECONDS, self.pipeline.limits.flush), name="limits"),
            asyncio.create_task(_every(ROLL_UP_SECONDS, self.overview.roll_up), name="rollups"),
            asyncio.create_task(_every(PRUNE_SECONDS, self._prune), name="pruning"),
            asyncio.create_task(_every(TIDY_SECONDS, self.worker_host.sweep_environments), name="tidying"),
        ]
        # What stands now stays: ten thousand tools need not be looked at by every collection, nor every few calls.
        gc.freeze()
        gc.set_threshold(20_000, 50, 100)
        self.availability.ready = True
        self.reloader.follow_file()

    async def stop(self) -> None:
        """Take no more calls, see the running ones to their end, then close every service, the last opened first."""
        self.availability.ready = False
        await self.reloader.close()
        await self.sessions.close()
        await self.leave_runs()
        await self.spaces.close()
        await self._verification.close()
        await self.pipeline.close()
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        await self._operations.close()
        await self.notifications.close()
        if self.pinning.is_behind:
            await self.pinning.catch_up()
        self.catalog.close()
        self.servers.close()
        await self.mcp_servers.close()
        await self.connections.close()
        await asyncio.gather(self.source_registry.close(), self.models.close(), self._send_last_spans())
        self.checking.close()
        await self.hooks.close()
        await self.worker_host.close()
        await self.outgoing.close()
        with suppress(Unavailable):
            await self.pipeline.limits.close()
        with suppress(Unavailable):  # then the others notice by themselves, in a while
            await self.store.write(partial(self.audit.record, self._stopped()))
        with suppress(Unavailable):
            await self.store.write(partial(gateway_tx.leave, self.id))
        await self.store.close()

    async def leave_runs(self) -> None:
        """Stop agents and programs where they are, before calls are refused: others go on with them, or the next start.

        What they have running ends by itself.
        """
        await self.scheduler.close()
        if self.programs is not None:
            await self.programs.close()

    def _stopped(self) -> Entry:
        return Entry(actor=self.audit.actor, action="gateway.stopped", subject=self.id)

    async def _load_keys(self) -> None:
        """Keys may be limited to groups, agents and spaces of the config and of the store, and to no others."""
        try:
            self.preferences.switches.on_change = self._switched
            await self.preferences.switches.reload(self.store)
            await self.groups.reload(self.store)
            self.groups.check_keys(str(self.settings.path))
            await self.key_names.check_config()
            await self.stored_keys.reload()
            await self.vault.open()
            await self.connections.book.reload()
            await self.principals.people.reload()
            self.hooks.apply(await self.hooks.prepared(self.settings.hooks, where=str(self.settings.path)))
        except BaseException:
            await self.worker_host.close()
            await self.store.close()
            raise

    def _switched(self) -> None:
        """Something is off for everybody, or on again."""
        switches = self.preferences.switches
        self.keyring.switch_off({name: off.sentence for name, off in switches.names(SwitchKind.KEY).items()})
        self.catalog.switched(frozenset(switches.names(SwitchKind.SOURCE)))

    def _execution(self) -> tuple[Hooks, Executor]:
        settings = self.settings
        hooks = Hooks(
            folder=settings.folder,
            data=settings.data,
            outgoing=self.outgoing,
            worker_host=self.worker_host,
            redact=self.redactor.text,
        )
        return hooks, Executor(
            catalog=self.catalog,
            source_registry=self.source_registry,
            store=self.store,
            gateway_id=self.id,
            redactor=self.redactor,
            audit=self.audit,
            public_url=settings.url,
            open_login=self._open_login,
            hooks=hooks,
        )

    def _identity(self) -> tuple[Principals, OAuthFront, OidcProvider | None]:
        settings, store, groups = self.settings, self.store, self.groups
        people = People(
            settings.oidc,
            settings.roles,
            store,
            audit=self.audit,
            groups=groups,
            end_calls=self.pipeline.cancel_waiting,
            end_logins=self.connections.forget_principal,
        )
        principals = Principals(self.keyring, people, on_ended=self.catalog.let_go)
        front = OAuthFront(settings, store=store, principals=principals, groups=groups, outgoing=self.outgoing)
        oidc = settings.oidc
        if oidc is None:
            return principals, front, None
        return principals, front, OidcProvider(oidc, settings.roles, outgoing=self.outgoing, url=settings.url)

    @cached_property
    def programs(self) -> ProgramService | None:
        if not self.settings.programs.enabled:
            return None
        return ProgramService(
            self.settings.programs,
            store=self.store,
            catalog=self.catalog,
            pipeline=self.pipeline,
            executor=self._executor,
            redactor=self.redactor,
            host=self.worker_host,
            find_principal=self.principal_named,
            gateway_id=self.id,
            sources_listed=self.sources_listed,
        )

    def _source_context(self) -> SourceContext:
        return SourceContext(
            folder=self.settings.folder,
            data=self.settings.data,
            changed=self.source_registry.request_refresh,
            secret=self.settings.secrets.get,
            config=self._public_settings,
            registry=lambda: [msgspec.json.decode(entry.manifest) for entry in self.catalog.view(ADMIN).entries],
            call_tool=self.pipeline.call_from,
            ask_model=partial(answer_to, self.models),
            outgoing=self.outgoing,
            worker_host=self.worker_host,
            logs=self.source_logs,
            kept=KeptListings(self.store),
            logins=LoginsOfOwners(self.connections, self._login_name),
            cluster_id=lambda: self.cluster.id,
        )

    def _changing_sources(self, source_context: SourceContext) -> tuple[LiveSources, RunTimeSources, ServiceDiscovery]:
        live = live_sources_of(
            self.source_book,
            self.catalog,
            self.connections,
            registry=self.source_registry,
            source_context=source_context,
            on_change=self._listings_changed.set,
        )
        services = ServiceDiscovery(
            self.settings,
            source_registry=self.source_registry,
            source_book=self.source_book,
            source_context=source_context,
        )
        run_time = RunTimeSources(
            self.settings,
            store=self.store,
            vault=self.vault,
            audit=self.audit,
            live=live,
            registry=self.source_registry,
            context=source_context,
        )
        return live, run_time, services

    async def _waiting_call(self, call_id: str) -> WaitingCall | None:
        call = await self.store.read(partial(call_that_waits, call_id))
        if call is None or call.login is None:
            return None
        now = await self.store.now_ms()
        return WaitingCall(
            tool=call.tool,
            source=call.login.source,
            caller=call.login.principal or call.principal,
            lasts_ms=call.longest_wait_ms if call.expires_at is None else max(0, call.expires_at - now),
        )

    def _login_name(self, principal: str) -> str:
        """Whose logins calls under this name use."""
        kind, _, agent_id = principal.partition(":")
        agent = self.agents.get(agent_id) if kind == "agent" else None
        return principal if agent is None else agent.login_name

    async def _open_login(self, source: str, principal: Principal) -> str | None:
        """A link for who reads something and lacks a login; None: somebody else has to make that."""
        try:
            return await self.login_flows.open(self.connections.source(source), principal)
        except Refused:
            return None

    async def _login_done(self, source: str, principal: str | None) -> None:
        await self.answers.login_done(source, principal)

    def _public_settings(self) -> dict[str, Any]:
        return public_settings(
            self.settings,
            sources=self.source_book.all,
            agents=self.agents.all(),
            entries=self.catalog.view(ADMIN).entries,
        )

    def principal_named(self, name: str) -> Principal | None:
        """Who makes calls under this name: a key, a person, or an agent."""
        kind, _, agent_id = name.partition(":")
        agent = self.agents.get(agent_id) if kind == "agent" else None
        return self.principals.find(name) if agent is None else agent.principal

    def sees_source(self, principal: Principal, source: str) -> bool:
        """Whether a principal may know of a source: all of them, or those it may use something of."""
        if not principal.is_limited:
            return principal.session is None and not principal.only_serves
        if all(any(one.partition(":")[0] == source for one in limit) for limit in principal.limits):
            return True
        return any(entry.tool.source == source for entry in self.catalog.view(principal).entries)

    async def _follow_listings(self) -> None:
        while True:
            await self._listings_changed.wait()
            self._listings_changed.clear()
            await self.take_listings()

    async def _await_listings(self) -> None:
        if not self.sources_listed.is_set():
            if not await self.source_registry.settled(within=TAKES_UP_WITHIN):
                log.warning("work of other gateways is taken up before every source has come up")
            await self.take_listings()
            self.sources_listed.set()

    async def take_listings(self) -> None:
        """Have the catalog show what the sources list now."""
        await self.catalog.update_aside(self.source_registry.listings())
        self.pinning.look()
        self.notifications.look(self.source_registry.statuses())

    async def _send_last_spans(self) -> None:
        telemetry, self._executor.telemetry = self._executor.telemetry, None
        if telemetry is not None:
            await telemetry.close()

    async def list_stored_tools(self) -> None:
        """After a change of stored tools: the catalog shows it before the response is sent."""
        names = [source.name for source in self.stored_tools.sources] + sorted(self.stored_tools.declared)
        await asyncio.gather(*map(self.source_registry.refresh, names))
        await self.take_listings()

    def _settled_elsewhere(self, call_id: str, status: CallStatus) -> None:
        self._executor.stop(call_id)
        self.servers.settled(call_id, status)

    @property
    def call_events(self) -> CallEvents:
        """What happens to calls here."""
        return self._executor.events

    async def refresh(self, within: float) -> bool:
        """Read every source anew, past every cache. False: one did not answer in time; it is taken when it does."""
        try:
            async with asyncio.timeout(within):
                await self.source_registry.refresh()
        except TimeoutError:
            return False
        finally:
            await self.take_listings()
        return True

    def source_statuses(self) -> list[SourceStatus]:
        """Every source as it is. One that a tool server declared is up while such a server is connected here."""
        return [
            _without_server(status)
            if status.name in self.stored_tools.declared and not self._is_served(status.name)
            else status
            for status in self.source_registry.statuses()
        ]

    def _is_served(self, source: str) -> bool:
        return self.servers.serve_any({e.name for e in self.catalog.external_tools() if e.tool.source == source})

    async def _follow(self, topic: str, act: Callable[[], Awaitable[None]]) -> None:
        """Do something whenever the store says that a topic was written."""
        with self.store.bus.listen(topic) as written:
            while True:
                await written.wait()
                written.clear()
                await _tried(act)

    async def _sweep_others(self) -> None:
        for sweep in self.sweeps:
            await sweep()

    async def _beat(self) -> None:
        if not await self.store.write(partial(gateway_tx.beat, self.id)):
            log.error("this gateway did not answer for 15 s and was declared dead; it starts again under a new id")
            self.availability.ready = False
            self.declared_dead.set()
        await self._sweeper.wake_lost()
        await self.reloader.compare()

    async def _end_expired(self) -> None:
        self.keyring.look_for_expired()

    async def _prune(self) -> None:
        """Small steps with pauses between them: calls come first."""
        gone = PRUNE_STEP
        while gone == PRUNE_STEP:
            gone = await prune(self.store, keep_days=self.settings.keep_days, limit=PRUNE_STEP)
            await asyncio.sleep(PRUNE_PAUSE)
        gone = 1
        while gone:
            gone = await prune_audit(self.audit, self.store, keep_days=self.settings.audit.keep, limit=PRUNE_STEP)
            await asyncio.sleep(PRUNE_PAUSE)


def _without_server(status: SourceStatus) -> SourceStatus:
    error = "No tool server that offers its tools is connected to this gateway. Calls wait for one."
    return msgspec.structs.replace(status, status=SourceState.DOWN, error=error)


async def _every(seconds: float, task: Callable[[], Awaitable[None]]) -> None:
    """Run a task now and every so often. One that fails is logged and tried again next time."""
    while True:
        await _tried(task)
        await asyncio.sleep(seconds)


async def _tried(task: Callable[[], Awaitable[None]]) -> None:
    try:
        await task()
    except Exception:
        log.exception("a background task of the gateway failed; it is tried again later")
