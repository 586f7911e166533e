"""What an id may look like that a client chose or names.

Above: the doors that take one. Below: msgspec.
"""

from typing import Annotated

from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[^\\u0000-\\u001f\\u007f]+(?![\\s\\S])")]
"""No control characters, of a length that an index can hold. The end is written so that a last line break counts."""
