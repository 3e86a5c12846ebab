"""Template for a settings file."""

from __future__ import annotations

import json
from textwrap import wrap

from langchain_hybridgraph.config.fields import SECTIONS, SettingsTable
from langchain_hybridgraph.config.settings import allowed_values

_HEAD = """\
# yaml-language-server: $schema={schema}
#
# Settings of langchain-hybridgraph. Keys that are commented out show their defaults. To change one, remove the "#" and
# edit the value. Environment variables (HYBRIDGRAPH_RETRIEVER_K=3) override this file; arguments of constructors and
# calls override both. Run "hybridgraph config show" to see the values in effect, "hybridgraph config check" to check
# them.
"""


def template(schema: str) -> str:
    """Return the text of a settings file in which every setting is commented out and shows its default.

    ``schema`` is the path of the JSON schema to which the file refers.

    >>> [line for line in template("s.json").splitlines() if line.startswith("  #k:")]
    ['  #k: 10']
    """
    return "\n".join([_HEAD.format(schema=schema), *map(_section, SECTIONS)])


def _section(section: str) -> str:
    keys = [key for key in SettingsTable.model_fields if key.startswith(f"{section}_")]
    return "\n".join([f"# {SECTIONS[section].description}", f"{section}:", *(_key(key, section) for key in keys)])


def _key(key: str, section: str) -> str:
    field = SettingsTable.model_fields[key]
    description = wrap(f"{field.description} Allowed: {allowed_values(key)}.", 112)
    default = "" if field.default is None else f" {json.dumps(field.default, ensure_ascii=False)}"
    return "\n".join([*(f"  # {line}" for line in description), f"  #{key.removeprefix(f'{section}_')}:{default}", ""])
