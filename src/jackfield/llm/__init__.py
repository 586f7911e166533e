"""Model providers: given items and tools, a model streams one step.

`base.py` is the promise: items in, deltas out. `models.py` opens what the config names under `[models]`. `openai.py`
asks any chat-completions server, with `chat_request.py` and `chat_stream.py` as its two ends, `wire.py` in between,
`retries.py` for when to ask again and `failures.py` for its sentences. `scripted.py` is the shipped twin and plays a
written dialogue: `script.py` the file, `scene.py` what it sees. May import: model, errors, parsing. Never: who asks,
or where requests go; the way out is handed in.
"""

from jackfield.llm.models import ModelNotFound, Models
from jackfield.llm.script import ScriptedCall, ScriptedFailure, ScriptTurn, When
from jackfield.llm.scripted import ScriptedModel
from jackfield.llm.types import (
    CallArguments,
    CallBegun,
    Delta,
    Finish,
    Model,
    ModelFailed,
    ModelRequest,
    ReasoningDelta,
    RefusalDelta,
    StepEnd,
    TextDelta,
)

__all__ = [
    "CallArguments",
    "CallBegun",
    "Delta",
    "Finish",
    "Model",
    "ModelFailed",
    "ModelNotFound",
    "ModelRequest",
    "Models",
    "ReasoningDelta",
    "RefusalDelta",
    "ScriptTurn",
    "ScriptedCall",
    "ScriptedFailure",
    "ScriptedModel",
    "StepEnd",
    "TextDelta",
    "When",
]
