"""The lines of one server-sent event, as every stream of ours sends them."""


def event_lines(data: bytes, *, id: str | None = None, event: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """`data` is JSON and one line: a line break in it is white space, as in a result that came indented."""
    head = b""
    if id is not None:
        head += b"id: %s\n" % id.encode()
    if event is not None:
        head += b"event: %s\n" % event.encode()
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"%sdata: %s\n\n" % (head, data)
