"""`jackfield models`: list, show, add, edit, remove and test models."""

from argparse import Namespace
from collections.abc import Iterator, Sequence

from jackfield.cli.options import CONFIG, GATEWAY, JSON, UsageError, argument, command
from jackfield.cli.output import escape, print_either, style, table
from jackfield.cli.source_changes import fields_of
from jackfield.cli.target import connect
from jackfield.model.text import nearest
from jackfield.sdk import Client
from jackfield.sdk.models import ModelInfo, ModelTest

ACTIONS = ("add", "edit", "remove", "test")


@command(
    """\
List the models, or with a NAME show one. Needs an admin key.

'add' makes a model while the gateway runs, 'edit' changes some of its fields, 'remove' forgets it; 'test' asks it one
short question, and keeps nothing. They reach every gateway of the database. Fields are those of [models.NAME] in the
config: key=value, key:=JSON, table.key=value, or --file. Models of the config are changed there.

exit codes: 0 all can be used, 1 one of them cannot, or a test failed""",
    argument(
        "word",
        nargs="?",
        metavar="NAME|ACTION",
        help="show this model in detail, or: add, edit, remove, test",
        completes=ACTIONS,
    ),
    argument("name", nargs="?", metavar="NAME", help="the model to add, edit, remove or test"),
    argument("fields", nargs="*", metavar="key=value", help="for add, edit and test: its fields"),
    argument("--file", metavar="FILE", help="for add, edit and test: fields in TOML or JSON, or with [models.NAME]"),
    argument("--unset", action="append", metavar="KEY", help="for edit: remove this field; repeat for several"),
    JSON,
    CONFIG,
    *GATEWAY,
    examples="""\
  jackfield models
  jackfield models test fast provider=openai base_url=http://127.0.0.1:8000/v1 model=qwen3-8b
  jackfield models add cloud provider=openai model=gpt-5-mini api_key='${OPENAI_API_KEY}'
  jackfield models edit cloud timeout=60
  jackfield models remove cloud""",
)
async def models(options: Namespace) -> int:
    check_words(options)
    async with connect(options) as client:
        if options.word in ACTIONS:
            return await _change(options, client)
        if options.word is not None:
            model = await client.models.get(options.word)
            print_either(options, {"model": model}, model_lines(model))
            return 0 if model.error is None else 1
        found = await client.models.list()
        print_either(options, {"models": found}, list_lines(found))
        return 0 if all(one.error is None for one in found) else 1


def check_words(options: Namespace) -> None:
    """Raises `UsageError` for a command line that cannot be meant."""
    action, name = options.word, options.name
    if action not in ACTIONS:
        if name is not None:
            raise UsageError(
                f"There is no action '{action}'.{nearest(action, [*ACTIONS])} Known: {', '.join(ACTIONS)}."
            )
        if options.file or options.unset:
            raise UsageError("--file and --unset are for 'add', 'edit' and 'test'.")
        return
    if name is None or "=" in name:
        raise UsageError(f"'{action}' needs the name of a model. Add it.")
    if action == "remove" and (options.fields or options.file):
        raise UsageError("'remove' takes no fields. Leave them out.")
    if options.unset and action != "edit":
        raise UsageError("--unset is for 'edit'. Leave it out.")


async def _change(options: Namespace, client: Client) -> int:
    name = options.name
    if options.word == "remove":
        await client.models.delete(name)
        print_either(options, {"removed": name}, [f"Removed the model '{escape(name)}'."])
        return 0
    fields = fields_of(options, among="models")
    if options.word == "test":
        tested = await client.models.test(name, fields or None)
        print_either(options, tested, test_lines(tested))
        return 0 if tested.ok else 1
    if options.word == "edit" and not fields:
        raise UsageError("'edit' needs a field to change, such as timeout=60, or --unset KEY. Add one.")
    is_new = options.word == "add"
    kept = await (client.models.create(name, fields) if is_new else client.models.change(name, fields))
    said = f"{'Added' if is_new else 'Changed'} the model '{escape(name)}'."
    lines = [said, *([] if kept.error is None else [style(escape(kept.error), "red")])]
    print_either(options, {"model": kept}, lines)
    return 0 if kept.error is None else 1


def list_lines(found: Sequence[ModelInfo]) -> list[str]:
    """Name, provider, the server's name for it, origin, and why it cannot be used."""
    if not found:
        return ["No models. Add one to the config, [models.NAME], or with 'jackfield models add'."]
    rows = [
        (escape(one.name), escape(one.provider or ""), escape(one.model or ""), one.origin, escape(one.error or ""))
        for one in found
    ]
    return table(rows, header=("NAME", "PROVIDER", "MODEL", "ORIGIN", "ERROR"), styles=("bold", "dim", "", "dim"))


def model_lines(model: ModelInfo) -> Iterator[str]:
    """One model in detail."""
    yield style(escape(model.name), "bold")
    facts = [
        ("origin", model.origin),
        ("provider", escape(model.provider or "")),
        ("model", escape(model.model or "")),
        ("server", escape(model.base_url or "")),
        ("tokens", f"{model.input_tokens:,} read, {model.output_tokens:,} written"),
        ("error", escape(model.error or "")),
    ]
    for key, value in (model.settings or {}).items():
        if key not in ("provider", "model", "base_url"):
            facts.append((key, escape(str(value))))
    yield from table([(key, value) for key, value in facts if value], styles=("dim",))


def test_lines(tested: ModelTest) -> Iterator[str]:
    """What it said, or why it did not."""
    if not tested.ok:
        yield f"{style('It does not work', 'red')}: {escape(tested.error or 'it gave no reason.')}"
        return
    yield f"{style('It works', 'green')}: it answered in {tested.milliseconds:,} ms."
    if tested.text:
        yield escape(tested.text)
