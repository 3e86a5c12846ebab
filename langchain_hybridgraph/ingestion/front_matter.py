"""YAML front matter of Markdown files."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?P<head>(?:[^\n]*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_MOST_BITS = 10_000  # an integer with more than 4,300 digits, which YAML accepts in base 16, is not valid in JSON
_FIELD = re.compile(r"^[A-Za-z_][\w-]*:(?:\s|$)", re.MULTILINE)


def front_matter_end(text: str) -> int:
    """Return the offset at which the text after the front matter begins, or 0 if there is no front matter.

    >>> front_matter_end("---\\ntitle: Cats\\n---\\nThey purr."), front_matter_end("They purr.")
    (20, 0)
    """
    match = _match(text)
    return match.end() if match else 0


def front_matter(text: str) -> dict[str, Any]:
    """Return the fields of the front matter whose values are strings, numbers or lists of these. A date becomes a
    string.

    Nested values and extremely large integers are left out. The result is empty if the front matter is not valid YAML.

    >>> front_matter("---\\ntitle: Cats\\ntags: [pets, 2]\\ndate: 2024-05-01\\n---\\nThey purr.")
    {'title': 'Cats', 'tags': ['pets', 2], 'date': '2024-05-01'}
    """
    import yaml

    match = _match(text)
    if match is None:
        return {}
    try:
        fields = yaml.load(match["head"], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    plain = {str(name): _plain(value) for name, value in fields.items()} if isinstance(fields, dict) else {}
    return {name: value for name, value in plain.items() if value is not None}


def _match(text: str) -> re.Match[str] | None:
    match = _FRONT_MATTER.match(text)
    return match if match and _FIELD.search(match["head"]) else None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [item for item in map(_scalar, value) if item is not None]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return None
    return value if isinstance(value, str | int | float) else None
