"""Answers to calls that somebody else executes: a result with a key, a result by signed url, and signs of life.

Below: `answers.py`, where the first answer wins. A 200 means that the result is on disk.
"""

from functools import partial
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from jackfield.calls import transactions as call_tx
from jackfield.calls.answers import Answers, outcome_of
from jackfield.calls.api import CallsApi, answer_schema
from jackfield.calls.callbacks import Purpose, SignedLinks
from jackfield.calls.link_page import LONGEST_REASON, approval_page, decided_page, is_form, wants_page
from jackfield.calls.records import OneCall
from jackfield.catalog.catalog import Catalog
from jackfield.errors import BadRequest, CallNotFound, Conflict, Expired
from jackfield.http.bodies import BodyReader, read_any
from jackfield.http.request import Name, Request
from jackfield.http.response import Response, json_response
from jackfield.http.routing import ANSWERS, ResponseSpec, Route
from jackfield.identity.browser import read_fields
from jackfield.identity.pages import as_page, redirect
from jackfield.model.call import Call, CallStatus, Delivery, done
from jackfield.model.principal import Scope
from jackfield.model.text import Time, iso_time
from jackfield.sources.base import Progress
from jackfield.store import Store


class ResultBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The answer to one call: its result, which may be any JSON, null included, or the error that it came to."""

    call_id: Name
    result: Any = UNSET
    error: str | UnsetType = UNSET


OneOfBoth = Annotated[
    ResultBody, Meta(extra_json_schema={"oneOf": [{"required": ["result"]}, {"required": ["error"]}]})
]


class ResultAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result is kept. `delivery` says which way it takes to the agent, as decided now."""

    success: Literal[True] = True
    call_id: str
    agent_entity_id: str | None
    delivery: Delivery


class ProgressBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far a call has come."""

    progress: float
    total: float | None = None
    message: Annotated[str, Meta(max_length=10_000)] | None = None
    attempt: (
        Annotated[
            float,
            Meta(ge=1, le=2**31, multiple_of=1, description="The `attempt` of the offer that a tool server works for"),
        ]
        | None
    ) = None


class ApproveBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other arguments than those that were asked for, if there are any. They are checked like those."""

    arguments: dict[str, Any] | None = None


class RejectBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why not. The agent is told."""

    reason: Annotated[str, Meta(max_length=10_000)] | None = None


class DecisionBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person says about a call by its signed url."""

    approve: bool
    arguments: dict[str, Any] | None = None
    reason: Annotated[str, Meta(max_length=10_000)] | None = None


class Asked(Struct, frozen=True, kw_only=True):
    """What a signed url is about. What was asked is told only while it can be answered."""

    purpose: Purpose
    tool: str
    agent: str | None
    principal: str
    """In whose name the call is made: the key's."""
    arguments: Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | None
    status: CallStatus
    expires_at: Time | None
    answer_schema: dict[str, Any] | None


class Decided(Struct, frozen=True, kw_only=True):
    """The call as the decision left it."""

    success: Literal[True] = True
    status: CallStatus


_OPEN: dict[Purpose, frozenset[CallStatus]] = {
    "approval": frozenset({CallStatus.PENDING_APPROVAL}),
    "callback": frozenset({CallStatus.WAITING, CallStatus.PENDING}),
}
"""While a signed url of this purpose is good for anything."""
_decision = BodyReader(DecisionBody)
_result = BodyReader(ResultBody)
_progress = BodyReader(ProgressBody)
_approval = BodyReader(ApproveBody, required=False)
_rejection = BodyReader(RejectBody, required=False)


class AnswersApi:
    """Handlers that answer calls which somebody else executes."""

    def __init__(
        self, answers: Answers, *, calls: CallsApi, store: Store, catalog: Catalog, links: SignedLinks
    ) -> None:
        self._answers = answers
        self._calls = calls
        self._store = store
        self._catalog = catalog
        self._links = links

    async def submit_result(self, request: Request) -> Response:
        """The result of a call of this run."""
        body = await _result.read(request)
        if (body.result is UNSET) is (body.error is UNSET):
            given = "neither" if body.error is UNSET else "both"
            raise BadRequest(f"The body has {given} of 'result' and 'error'. Send one of them; null is a result.")
        outcome = outcome_of(body.result, None if body.error is UNSET else body.error)
        call = await self._answers.submit(
            body.call_id, outcome, principal=request.principal, run_id=request.part("runId")
        )
        return _accepted(call, body.call_id)

    async def submit_by_callback(self, request: Request) -> Response:
        """The result of the call whose signed url this is: the whole body, or null when there is none.

        The url of an approval takes `{"approve": true}` or `{"approve": false}` instead.
        """
        call_id, purpose = self._signed(request)
        if purpose == "approval":
            return await as_page(self._decide_by_page)(request) if is_form(request) else await self._decide(request)
        call = await self._answers.submit(call_id, done(await read_any(request)), principal=None)
        return _accepted(call, call_id)

    async def show_by_callback(self, request: Request) -> Response:
        """What whoever holds a signed url is asked: exactly what would run, and how far it is.

        A browser gets the url of an approval as a page.
        """
        if wants_page(request):
            return await as_page(self._show_page)(request)
        call_id, purpose = self._signed(request)
        call = await self._call(call_id)
        is_open = call.status in _OPEN[purpose]
        return json_response(
            Asked(
                purpose=purpose,
                tool=call.tool,
                agent=call.agent,
                principal=call.principal,
                arguments=call.arguments if is_open else None,
                status=call.status,
                expires_at=None if call.expires_at is None else iso_time(call.expires_at),
                answer_schema=answer_schema(self._catalog, call) if is_open else None,
            )
        )

    async def _call(self, call_id: str) -> Call:
        call = await self._store.read(partial(call_tx.get_call, call_id))
        if call is None:
            raise CallNotFound("The record of this call is gone.")
        return call

    async def _show_page(self, request: Request) -> Response:
        call_id, purpose = self._signed(request)
        if purpose != "approval":
            return redirect(f"/#/answer/{request.part('token')}")
        return approval_page(await self._call(call_id))

    async def _decide_by_page(self, request: Request) -> Response:
        call_id, _ = self._signed(request)
        form = await read_fields(request)
        decision = form.one("decision")
        if decision not in ("approve", "reject"):
            raise BadRequest("The form has no decision. Go back and use one of its buttons.", param="decision")
        try:
            if decision == "approve":
                return decided_page(await self._answers.approve(call_id, principal=None))
            reason = form.one("reason").strip()[:LONGEST_REASON] or None
            return decided_page(await self._answers.reject(call_id, principal=None, reason=reason))
        except (Conflict, Expired):
            call = await self._call(call_id)
            if call.status is CallStatus.PENDING_APPROVAL:
                raise
            return approval_page(call)

    async def _decide(self, request: Request) -> Response:
        call_id, _ = self._signed(request)
        body = await _decision.read(request)
        if body.approve:
            call = await self._answers.approve(call_id, principal=None, arguments=body.arguments)
        else:
            call = await self._answers.reject(call_id, principal=None, reason=body.reason)
        return json_response(Decided(status=call.status))

    def _signed(self, request: Request) -> tuple[str, Purpose]:
        signed = self._links.read(request.part("token"))
        if signed is None:
            raise CallNotFound(
                "This URL does not belong to a call. Use the 'callback_url' of the call's record unchanged."
            )
        return signed

    async def report_progress(self, request: Request) -> Response:
        """A sign of life of a call that is being answered."""
        body = await _progress.read(request)
        progress = Progress(progress=body.progress, total=body.total, message=body.message)
        call = await self._answers.progress(
            request.part("id"), progress, principal=request.principal, attempt=int(body.attempt or 0)
        )
        return self._calls.one_call(request, call)

    async def approve_call(self, request: Request) -> Response:
        """Yes, to exactly this call."""
        body = await _approval.read(request)
        return self._calls.one_call(
            request,
            await self._answers.approve(request.part("id"), principal=request.principal, arguments=body.arguments),
        )

    async def reject_call(self, request: Request) -> Response:
        """No."""
        body = await _rejection.read(request)
        return self._calls.one_call(
            request, await self._answers.reject(request.part("id"), principal=request.principal, reason=body.reason)
        )


def _accepted(call: Call, call_id: str) -> Response:
    assert call.delivery is not None
    return json_response(ResultAnswer(call_id=call_id, agent_entity_id=call.agent, delivery=call.delivery))


def routes(answers: Answers, *, calls: CallsApi, store: Store, catalog: Catalog, links: SignedLinks) -> list[Route]:
    """Every route that answers, allows or refuses a call."""
    api = AnswersApi(answers, calls=calls, store=store, catalog=catalog, links=links)
    return [
        Route(
            method="POST",
            path="/api/runs/{runId}/tool-results",
            handler=api.submit_result,
            scope=ANSWERS,
            tag="Pending calls",
            summary="Answer a call that waits for its result",
            body=OneOfBoth,
            responses={
                200: ResponseSpec(description="The result is kept and will reach the agent once", type=ResultAnswer)
            },
            errors=(404, 409, 410),
        ),
        Route(
            method="POST",
            path="/api/v1/callbacks/{token}",
            handler=api.submit_by_callback,
            scope=None,
            tag="Pending calls",
            summary="Answer a call by its signed url, once; the body is the result, no body is null",
            body=Any,
            body_is_optional=True,
            responses={
                200: ResponseSpec(description="The result is kept and will reach the agent once", type=ResultAnswer)
            },
            errors=(404, 409, 410),
        ),
        Route(
            method="GET",
            path="/api/v1/callbacks/{token}",
            handler=api.show_by_callback,
            scope=None,
            tag="Pending calls",
            summary="What a signed url is about: exactly what would run or is asked",
            responses={200: ResponseSpec(description="The question", type=Asked)},
            errors=(404,),
        ),
        Route(
            method="POST",
            path="/api/v1/calls/{id}/progress",
            handler=api.report_progress,
            scope=ANSWERS,
            tag="Pending calls",
            summary="Say how far a call is; extends its deadline and resolves nothing",
            body=ProgressBody,
            responses={200: ResponseSpec(description="The record", type=OneCall)},
            errors=(404, 409, 410),
        ),
        Route(
            method="POST",
            path="/api/v1/calls/{id}/approve",
            handler=api.approve_call,
            scope=Scope.ANSWER,
            tag="Pending calls",
            summary="Allow a call that waits for approval, perhaps with other arguments",
            body=ApproveBody,
            body_is_optional=True,
            responses={
                200: ResponseSpec(
                    description="The record; the call runs now, or waits for whoever answers it", type=OneCall
                )
            },
            errors=(404, 409, 410),
        ),
        Route(
            method="POST",
            path="/api/v1/calls/{id}/reject",
            handler=api.reject_call,
            scope=Scope.ANSWER,
            tag="Pending calls",
            summary="Refuse a call that waits for approval",
            body=RejectBody,
            body_is_optional=True,
            responses={200: ResponseSpec(description="The record of the refused call", type=OneCall)},
            errors=(404, 409, 410),
        ),
    ]
