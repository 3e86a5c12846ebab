"""Names of the anchors that Sphinx's roles link to."""

from __future__ import annotations

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Prefix of the anchor, by the name of a directive or role. Anchors of other directives and roles have no prefix.
_PREFIXES = {
    "confval": "confval",
    "envvar": "envvar",
    "event": "event",
    "option": "option",
    "term": "term",
    "directive": "directive",
    "dir": "directive",
    "role": "role",
}
_LABELS = _names("any keyword numref ref token")
_OBJECT_ROLES = _names(
    "attr class concept const data deco enum enumerator exc exception func macro member meth mod module obj struct "
    "type union var"
)
_OBJECT_DIRECTIVES = _names(
    "attribute class concept confval data describe directive enum enum-class enum-struct enumerator envvar event "
    "exception function macro member method module object option role struct type union var decorator decoratormethod "
    "staticmethod classmethod property autoattribute autoclass autodata autodecorator autoexception autofunction "
    "automethod automodule autoproperty"
)
_MODULES = _names("automodule module")
_SEPARATORS = {"": ".", "py": ".", "js": ".", "c": ".", "cpp": "::", "rst": ":"}
_WORD = re.compile(r"\w(?:[\w.:-]*\w)?")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_TEMPLATE = re.compile(r"template\s*<[^<>]{0,200}>")
_AFTER_NAME = re.compile(r"[({\[=]|\s:\s")
_NOT_IN_NAME = re.compile(r"[^\w.]+")


def is_reference(role: str) -> bool:
    """Return whether a reStructuredText role is a reference to a label or an object.

    >>> is_reference("py:func"), is_reference("ref"), is_reference("kbd")
    (True, True, False)
    """
    name = role.rpartition(":")[2]
    return name in _LABELS or name in _OBJECT_ROLES or (name in _PREFIXES and name != "directive")


def is_object(directive: str) -> bool:
    """Return whether a directive describes an object. The directive ``.. role::`` without a domain does not, because it
    defines a new role.

    >>> is_object("py:function"), is_object("rst:directive:option"), is_object("note")
    (True, True, False)
    """
    return _kind(directive)[1] in _OBJECT_DIRECTIVES and directive != "role"


def role_anchor(role: str, target: str) -> str:
    """Return the name of the anchor to which a role with this target links.

    >>> role_anchor("confval", "language"), role_anchor("rst:dir", "toctree:maxdepth"), role_anchor("ref", "intro")
    ('confval-language', 'directive-toctree-maxdepth', 'intro')
    >>> role_anchor("py:meth", "~asyncio.Queue.put()"), role_anchor("option", "sphinx-build -D")
    ('asyncio.Queue.put', 'option-sphinx-build-D')
    """
    domain, _, name = role.rpartition(":")
    target = " ".join(target.split())
    return target if name in _LABELS else _anchor(domain, name, target.lstrip("~.").removesuffix("()"))


def object_name(directive: str, signature: str, inside: str = "") -> str:
    """Return the name of the object that a directive describes, including the name of the enclosing object ``inside``.

    >>> object_name("py:method", "put(item)", inside="Queue"), object_name("cpp:function", "int Shape::area() const")
    ('Queue.put', 'Shape::area')
    """
    domain, kind = _kind(directive)
    if domain in ("c", "cpp"):
        words = _AFTER_NAME.split(_TEMPLATE.sub("", signature), maxsplit=1)[0].split()
        name = words[-1].strip("*&") if words else ""
    else:
        match = _WORD.search(signature)
        name = match[0] if match else ""
    nested = directive.endswith(":option") or kind not in _PREFIXES
    separator = _SEPARATORS.get(domain, ".")
    return (
        f"{inside}{separator}{name}" if inside and name and nested and not name.startswith(inside + separator) else name
    )


def object_anchors(
    directive: str, signature: str, *, inside: str = "", module: str = "", program: str = ""
) -> list[str]:
    """Return the anchors of an object, one for each of its names. Only an option may have several names.

    ``inside`` is the :func:`object_name` of the enclosing object.

    >>> object_anchors("py:method", "put(item)", inside="Queue", module="asyncio")
    ['asyncio.Queue.put']
    >>> object_anchors("option", "-D <setting=value>, --define <setting=value>", program="make")
    ['option-make-D', 'option-make-define']
    """
    domain, kind = _kind(directive)
    if directive in ("option", "std:option"):
        names = [re.split(r"[\s=\[<]", form, maxsplit=1)[0] for form in signature.split(", ")]
        return list(dict.fromkeys(_anchor(domain, kind, f"{program} {name}".strip()) for name in names if name))
    name = object_name(directive, signature, inside)
    if not name or kind in ("describe", "object"):
        return []
    is_python = domain in ("", "py") and kind not in _PREFIXES and kind not in _MODULES
    if is_python and module and not name.startswith(f"{module}."):
        name = f"{module}.{name}"
    return [_anchor(domain, kind, name)]


def role_targets(anchor: str) -> list[str]:
    """Return the names that roles can use for an anchor: its full name and, for a Python object, the name without the
    module.

    The module name is assumed to end before the first capitalised part, or at the last dot if no part is capitalised.

    >>> role_targets("asyncio.Queue.put"), role_targets("os.path.join"), role_targets("1.2.3")
    (['asyncio.Queue.put', 'Queue.put'], ['os.path.join', 'join'], ['1.2.3'])
    """
    if _DOTTED.fullmatch(anchor) is None:
        return [anchor]
    parts = anchor.split(".")
    first = next((position for position, part in enumerate(parts) if part[:1].isupper()), len(parts) - 1)
    return list(dict.fromkeys([anchor, ".".join(parts[first:])]))


def term_anchor(term: str) -> str:
    """Return the anchor of a glossary term.

    >>> term_anchor("Source directory")
    'term-source-directory'
    """
    return _anchor("", "term", term)


def _kind(directive: str) -> tuple[str, str]:
    domain, _, kind = directive.removesuffix(":option").rpartition(":")
    return domain, kind or directive


def _anchor(domain: str, kind: str, name: str) -> str:
    if kind in _PREFIXES:
        name = name.casefold() if kind == "term" else name
        return f"{_PREFIXES[kind]}-{_NOT_IN_NAME.sub('-', name).strip('-')}"
    return name if domain in ("", "py", "std") else f"{domain}-{_NOT_IN_NAME.sub('-', name).strip('-')}"
