"""Keeps the operator's secrets out of what tools say.

A tool that echoes a secret it was given, in a result or an error, must not hand it on. Values of four characters and
more are replaced, in every form that `model/redaction.py` knows.
"""

from collections.abc import Callable, Collection

import msgspec
from msgspec import UNSET, Raw

from jackfield.errors import JackfieldError
from jackfield.model.call import Done, Failed
from jackfield.model.redaction import KnownSecrets, LongSecrets
from jackfield.protocol.jsonrpc import RpcError
from jackfield.sources.base import LogNote, Progress
from jackfield.sources.client import ClientRequest, ElicitRequest, SampleRequest


class Redactor:
    """Replaces secrets. `secrets` is asked each time, because more may have been read since."""

    def __init__(self, secrets: Callable[[], Collection[str]], tokens: LongSecrets | None = None) -> None:
        self._known = KnownSecrets(secrets, tokens)

    def outcome(self, outcome: Done | Failed) -> Done | Failed:
        """The same outcome without any secret in it."""
        known = self._known
        if not known:
            return outcome
        if isinstance(outcome, Failed):
            result = None if outcome.result is None else known.json(outcome.result, was_cut=True)
            return Failed(outcome.code, known.text(outcome.message), result)
        return Done(known.json(outcome.result))

    def clean(self, refusal: JackfieldError) -> None:
        """Take secrets out of a refusal's sentence: why a source is down may be in its server's own words."""
        refusal.args = (self.text(refusal.message), *refusal.args[1:])
        if isinstance(refusal, RpcError) and refusal.data is not UNSET and self._known:
            refusal.data = self.json(Raw(msgspec.json.encode(refusal.data)))

    def json(self, told: Raw) -> Raw:
        """What a source says outside calls."""
        return self._known.json(told) if self._known else told

    def text(self, text: str) -> str:
        return self._known.text(text)

    def question(self, question: ElicitRequest) -> ElicitRequest:
        """What a person is asked: the words, and those about each field of the answer. A url is the asker's own."""
        schema = question.schema
        if schema is not None and self._known:
            schema = msgspec.json.decode(self._known.json(Raw(msgspec.json.encode(schema))))
        return msgspec.structs.replace(question, message=self.text(question.message), schema=schema)

    def client_request(self, request: ClientRequest) -> ClientRequest:
        """What the client behind a call is asked."""
        if isinstance(request, ElicitRequest):
            return self.question(request)
        if isinstance(request, SampleRequest) and self._known:
            params = msgspec.json.decode(self._known.json(Raw(msgspec.json.encode(request.params))))
            return msgspec.structs.replace(request, params=params)
        return request

    def note(self, note: LogNote) -> LogNote:
        """What a tool's server logs."""
        data = note.data if note.data is UNSET or not self._known else self._known.json(note.data)
        return msgspec.structs.replace(note, message=self.text(note.message), data=data)

    def progress(self, progress: Progress) -> Progress:
        """What is told while a call runs reaches as many as its result."""
        known = self._known
        if not known:
            return progress
        message = None if progress.message is None else known.text(progress.message)
        meta = known.json(progress.meta) if isinstance(progress.meta, Raw) else progress.meta
        return msgspec.structs.replace(progress, message=message, meta=meta)
