"""Models that are made while the gateway runs."""

from msgspec import Struct

from jackfield.store.scripts import Row, Script, one, wake

MODELS_TOPIC = "models"


class StoredModel(Struct, frozen=True, kw_only=True):
    """A model as it is on record. Times are milliseconds since 1970."""

    name: str
    settings: str
    """JSON, with `${NAME}` for secrets."""
    created_by: str
    created_at: int
    updated_at: int


def add_model(name: str, settings: str, *, created_by: str) -> Script[StoredModel | None]:
    """Keep a new model; None: there is one of that name."""
    row = yield from one("insert_model", name=name, settings=settings, created_by=created_by)
    yield wake(MODELS_TOPIC)
    return None if row is None else _model(row)


def change_model(name: str, settings: str, *, before: str) -> Script[StoredModel | None]:
    """Give a model other settings; None: it is gone, or was changed since it had those of `before`."""
    row = yield from one("change_model", name=name, settings=settings, before=before)
    yield wake(MODELS_TOPIC)
    return None if row is None else _model(row)


def delete_model(name: str) -> Script[StoredModel | None]:
    """Forget a model; None: there was none."""
    row = yield from one("delete_model", name=name)
    yield wake(MODELS_TOPIC)
    return None if row is None else _model(row)


def all_models() -> Script[list[StoredModel]]:
    """All of them, the oldest first."""
    rows = yield "all_models", {}
    return [_model(row) for row in rows]


def _model(row: Row) -> StoredModel:
    return StoredModel(
        name=row["name"],
        settings=row["settings"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
