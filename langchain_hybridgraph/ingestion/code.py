"""Reading source code, logs and Python's documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_hybridgraph.ingestion.bounded import FilePart, read_text

if TYPE_CHECKING:
    from langchain_core.documents import Document

_SMALL = 1_000  # characters of a class that is not split into its methods, because it fits into one chunk
_LARGE = 50_000  # characters after which a part ends at the next line
_DEEPEST = 8  # columns of indentation at which the method of a class in a namespace begins
_ABOVE = re.compile(r"\s*(?:#|//|/\*|\*|@|\[|--|template\b)")  # comments, decorators and attributes above a definition
_END = re.compile(r"\s*(?:\}|end\b)(?!.*\{\s*$)")
_NOTHING = re.compile(r"(?:\W|\bend\b)*")

# The quantifiers are bounded, so that no line makes a search quadratic.
_STATEMENT = (
    r"(?!(?:if|for|foreach|while|until|switch|match|return|else|elif|do|case|catch|try|throw|new|delete|using|goto|lock"
    r"|yield|await|assert|synchronized|package|import|sizeof|except|with|when|guard)\b)"
)
_MODIFIERS = (
    r"(?:(?:export|default|declare|typedef|public|private|protected|internal|fileprivate|static|final|abstract|async"
    r"|open|override|sealed|data|inner|inline|suspend|operator|mutating|unsafe|const|virtual|partial|readonly|case"
    r"|implicit|local|extern(?: ?\"C\")?|pub(?:\([\w: ]{1,40}\))?)[ \t]+){0,6}"
)
_NAME = r"[\w$.:~]{1,200}(?<![:.])[?!]?"
_BOX = (
    r"(?P<box>class|interface|struct|enum(?:[ \t]+(?:class|struct))?|trait|protocol|extension|object|module|namespace"
    r"|mod|record(?:[ \t]+(?:class|struct))?|union|actor|@interface)[ \t]+(?:[A-Z_]{3,40}[ \t]+)?(?P<n1>" + _NAME + r")"
    r"(?=[ \t]*(?:$|[^\w\s'\"-]|(?:extends|implements|where|for|with|permits)\b))"
)
_FUNCTION = (
    r"(?:function\*?|fun(?:[ \t]*<[^>]{1,100}>)?|fn|def|macro_rules!|typealias|type)[ \t]+(?P<n2>" + _NAME + r")"
    r"(?=[ \t]*(?:$|[({<:=\[]))"
)
_IN_CLASS = (
    rf"(?P<inside>{_STATEMENT}(?:(?:get|set)[ \t]+)?[*#]{{0,2}}(?P<n3>[\w$~]{{1,200}})\??[ \t]*(?:<[^()]{{0,100}}>)?"
    r"\([^;]{0,500}[{(,][ \t]*$)"
)
_VARIABLE = (
    r"(?:const|let|var)[ \t]+(?P<n4>[\w$]{1,200})[^=]{0,200}=[ \t]*(?:async[ \t]*)?"
    r"(?:function\b|\((?:[^;]{0,300}=>|[^;)]{0,300}$)|[\w$]{1,100}[ \t]*=>)|export[ \t]+const[ \t]+(?P<n5>[\w$]{1,200})"
)
_TYPED = (
    rf"{_STATEMENT}(?:[\w:<>,.\[\]&*?]{{1,100}}[ \t]+){{1,8}}[*&]{{0,3}}"
    r"(?P<n6>(?:[\w:]{1,100}::)?(?:operator[^\w\s(]{1,3}|~?\w{1,100}))(?:<[^()]{0,100}>)?[ \t]*"
    r"\((?:[^;]{0,500}|[^;{]{0,500}\{.{0,300}\}[ \t]*)$"
    r"|(?P<n7>[\w:]{1,100}::~?\w{1,100})[ \t]*\([^;]{0,500}$|(?<![ \t])(?P<n8>[a-z_]\w{0,100})[ \t]?\([^;]{0,500}\)$"
)
_WORDS = re.compile(rf"[ \t]*(?:{_MODIFIERS}(?:{_VARIABLE}|{_BOX}|{_FUNCTION}|{_IN_CLASS}))")
_TYPES = re.compile(rf"[ \t]*(?:{_MODIFIERS}{_BOX}|{_TYPED}|{_MODIFIERS}{_IN_CLASS})")
_GO = re.compile(
    r"func[ \t]*(?:\([ \t]*(?:\w{1,100}[ \t]+)?\*?(?P<n1>\w{1,100})[^)]{0,100}\)[ \t]*)?(?P<n2>\w{1,200})"
    r"|type[ \t]+(?P<n3>\w{1,200})"
)
_RUST = re.compile(
    rf"[ \t]*(?:(?P<impl>impl)(?:<.{{0,200}}?>)?[ \t]+(?:[^{{]{{1,200}}?[ \t]for[ \t]+)?&?(?P<n3>[\w:]{{1,200}})"
    rf"|{_MODIFIERS}(?:{_BOX}|{_FUNCTION}))"
)
_SHELL = re.compile(r"[ \t]*(?:function[ \t]+(?P<n1>[\w:.-]{1,200})|(?P<n2>[\w:.-]{1,200})[ \t]*\(\))")
_SQL = re.compile(
    r"[ \t]*create[ \t]+(?:\w{1,20}[ \t]+){0,4}?(?:table|view|function|procedure|trigger|index|type|schema|sequence"
    r"|policy)[ \t]+(?:if[ \t]+not[ \t]+exists[ \t]+)?(?P<n1>[\w.\"`\[\]]{1,200})",
    re.IGNORECASE,
)
_PATTERNS = {
    **dict.fromkeys([".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".cs", ".java", ".dart"], _TYPES),
    ".go": _GO,
    ".rs": _RUST,
    **dict.fromkeys([".sh", ".bash", ".zsh"], _SHELL),
    ".sql": _SQL,
}


@dataclass(frozen=True, slots=True)
class _Definition:
    """Definition in the lines ``first`` to ``last - 1``, counted from 0. Only a class or the like has ``members``."""

    name: str
    first: int
    last: int
    members: list[_Definition] = field(default_factory=list)


def read_code(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the definitions of a source file and the lines between them. A log has no definitions.

    A class of more than ``_SMALL`` characters is divided into its head and its methods. In the metadata of a part,
    ``start_line`` and ``end_line`` are its first and last line, counted from 1, and ``section_heading`` is the name of
    the definition, such as "Invoice.total". Comments and decorators directly above a definition belong to it.
    """
    text = read_text(path).replace("\r\n", "\n")
    lines = text.split("\n")
    suffix = path.suffix.lower()
    members: list[_Definition] | None = [] if suffix == ".log" else None
    if suffix in (".py", ".pyi"):
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):  # written for another version of Python
            members = _members(ast.parse(text).body)
    if members is None:
        members = _matched(lines, _PATTERNS.get(suffix, _WORDS))
    is_empty = True
    for first, last, name in _without_blank_lines(lines, _blocks(lines, _Definition("", 0, len(lines), members))):
        is_empty = False
        for start, end in _cut_lines(lines, first, last):
            metadata = {"start_line": start + 1, "end_line": end} | ({"section_heading": name} if name else {})
            yield FilePart("\n".join(lines[start:end]), metadata, path.name)
    if is_empty:
        yield FilePart("", {}, path.name)


def _members(body: list[ast.stmt]) -> list[_Definition]:
    return [
        _Definition(
            node.name,
            min(line.lineno for line in (node, *node.decorator_list)) - 1,
            node.end_lineno or node.lineno,
            _members(node.body) if isinstance(node, ast.ClassDef) else [],
        )
        for node in body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _matched(lines: list[str], pattern: re.Pattern[str]) -> list[_Definition]:
    """Return the definitions that a pattern finds, outside functions, up to their end or the next definition."""
    root = _Definition("", 0, len(lines))
    stack = [(-1, True, root)]  # (indentation, whether it may have members, definition)

    def close(indent: int, last: int) -> None:
        while stack[-1][0] >= indent:
            _, _, definition = stack.pop()
            siblings = stack[-1][2].members
            siblings[-1] = replace(definition, last=last)

    for number, line in enumerate(lines):
        code = line.lstrip()
        indent = len(line[: len(line) - len(code)].expandtabs(4))
        match = pattern.match(line) if code and indent <= _DEEPEST else None
        if match is None:
            if _END.match(line):
                close(indent, number + 1)
            continue
        groups = match.groupdict()
        _, is_class, above = stack[-1]
        if stack[-1][0] >= indent:
            close(indent, _with_comments(lines, number, stack[-1][2].first + 1))
            _, is_class, above = stack[-1]
        if is_class and not (groups.get("inside") and above is root):
            name = ".".join(value for key, value in groups.items() if key[0] == "n" and value)
            definition = _Definition(name, number, len(lines))
            above.members.append(definition)
            stack.append((indent, bool(groups.get("box") or groups.get("impl")), definition))
            if line.rstrip().endswith((";", "}")):
                close(indent, number + 1)
    close(0, len(lines))
    return root.members


def _blocks(lines: list[str], definition: _Definition) -> Iterator[tuple[int, int, str]]:
    """Yield (first line, line after the last, name) of the parts of a definition. They cover it without gaps."""
    first, name = definition.first, definition.name
    has_classes = not name or any(member.members for member in definition.members)
    is_small = not has_classes and sum(map(len, lines[first : definition.last])) <= _SMALL
    for member in () if is_small else definition.members:
        start = _with_comments(lines, member.first, first)
        if start > first:
            yield first, start, name
        yield from _blocks(lines, replace(member, first=start, name=f"{name}.{member.name}".lstrip(".")))
        first = member.last
    if first < definition.last:
        yield first, definition.last, name


def _with_comments(lines: list[str], number: int, lowest: int) -> int:
    """Return the number of the first of the comments and decorators above a line, at least ``lowest``."""
    while number > lowest and _ABOVE.match(lines[number - 1]):
        number -= 1
    return number


def _without_blank_lines(lines: list[str], blocks: Iterator[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Yield the blocks without blank lines around them. A block of closing brackets is joined to the block before."""
    before: tuple[int, int, str] | None = None
    for first, last, name in blocks:
        while first < last and not lines[first].strip():
            first += 1  # noqa: PLW2901
        while first < last and not lines[last - 1].strip():
            last -= 1  # noqa: PLW2901
        if first == last:
            continue
        if before and all(map(_NOTHING.fullmatch, lines[first:last])):
            before = before[0], last, before[2]
            continue
        if before:
            yield before
        before = first, last, name
    if before:
        yield before


def _cut_lines(lines: list[str], first: int, last: int) -> Iterator[tuple[int, int]]:
    size = 0
    for number in range(first, last):
        size += len(lines[number]) + 1
        if size >= _LARGE:
            yield first, number + 1
            first, size = number + 1, 0
    if first < last:
        yield first, last


# -- the documentation of Python's standard library ------------------------------------------------------------------

_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "msilib", "site-packages"}
_MENTION = re.compile(r"`([A-Za-z_][\w.]*)`|([A-Za-z_][\w.]*)\(|([a-z]\w*\.[A-Za-z]\w*)")
_MOST_LINKS = 30

# (dotted name, kind, name with signature, docstring, source file)
_Item = tuple[str, str, str, str, str]


def read_python_docs() -> Iterator[Document]:
    """Yield a Document for each documented module, class, function and method of the standard library.

    Docstrings are read from the source files of the running interpreter with ``ast``; only modules that are compiled
    into the interpreter are imported. The topics of the language reference, which ``help()`` shows, come last. Private,
    undocumented and test code is left out.

    ``page_content`` is the name with its signature, an empty line, and the docstring. The metadata are ``title`` (the
    dotted name), ``uri`` (``python://asyncio/queues/Queue/put``, which is also the id), ``source`` (the file, relative
    to the library), ``labels`` (module, class, function, method or topic) and ``links`` (the uris of other items that
    the docstring names).
    """
    from langchain_core.documents import Document  # not needed by the process that reads source code

    library = Path(sysconfig.get_paths()["stdlib"])
    items = {item[0]: item for item in _library_items(library)}
    for name, kind, head, doc, source in items.values():
        text, title, links = f"{head}\n\n{doc}", name.removeprefix("builtins."), _mentioned(name, doc, items)
        if kind == "topic":
            text, title, links = doc, head, []
        uri = "python://" + name.replace(".", "/")
        metadata = {"title": title, "source": source, "uri": uri, "labels": [kind], "links": links}
        yield Document(text, metadata=metadata, id=uri)


def _library_items(library: Path) -> Iterator[_Item]:
    for file in sorted(library.rglob("*.py")):
        source = file.relative_to(library).as_posix()
        parts = [part for part in file.relative_to(library).with_suffix("").parts if part != "__init__"]
        if not parts or _LEFT_OUT.intersection(parts) or any(part.startswith("_") for part in parts):
            continue
        with suppress(OSError, SyntaxError, ValueError):  # a modified library must not cause a failure
            yield from _definitions(ast.parse(file.read_bytes()), ".".join(parts), source)
    for name in sorted(sys.builtin_module_names):
        if not name.startswith("_"):
            yield from _built_in(name)
    topics = library / "pydoc_data" / "topics.py"
    with suppress(OSError, SyntaxError, ValueError):  # some distributions do not include the topics
        (table,) = (node.value for node in ast.parse(topics.read_bytes()).body if isinstance(node, ast.Assign))
        for topic, raw in sorted(ast.literal_eval(table).items()):
            text = raw.strip().replace('"', "")
            yield f"language.{topic}", "topic", text.partition("\n")[0], text, "pydoc_data/topics.py"


def _definitions(parent: ast.Module | ast.ClassDef, name: str, source: str) -> Iterator[_Item]:
    doc = ast.get_docstring(parent)
    bases = ", ".join(map(ast.unparse, getattr(parent, "bases", ())))
    kind = "class" if isinstance(parent, ast.ClassDef) else "module"
    if doc:
        yield name, kind, f"{kind} {name}({bases})" if bases else f"{kind} {name}", doc, source
    kind = "method" if kind == "class" else "function"
    for node in parent.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _definitions(node, f"{name}.{node.name}", source)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            path, doc = f"{name}.{node.name}", ast.get_docstring(node)
            if doc:
                yield path, kind, f"{path}({ast.unparse(node.args)})", doc, source


def _built_in(module: str) -> Iterator[_Item]:
    content = importlib.import_module(module)
    module = "os" if module in ("posix", "nt") else module  # the names are public in os
    source = f"{module} (built in)"
    for name, value in [("", content), *sorted(vars(content).items())]:
        is_alias = isinstance(value, type) and value.__name__ != name  # such as sys.last_type
        if name and (name.startswith("_") or is_alias or not (isinstance(value, type) or inspect.isbuiltin(value))):
            continue
        path = f"{module}.{name}".rstrip(".")
        title = path.removeprefix("builtins.")
        kind = "module" if not name else "class" if isinstance(value, type) else "function"
        if doc := inspect.getdoc(value):
            yield path, kind, title if kind == "function" else f"{kind} {title}", doc, source
        for method, member in sorted(vars(value).items()) if kind == "class" else ():
            if not method.startswith("_") and callable(member) and (doc := inspect.getdoc(member)):
                yield f"{path}.{method}", "method", f"{title}.{method}", doc, source


def _mentioned(name: str, doc: str, items: Mapping[str, _Item]) -> list[str]:
    """Return the uris of the other items that a docstring names in code, in the order of their first mention."""
    above = [name.rsplit(".", n)[0] for n in range(name.count(".") + 1)]
    links: dict[str, None] = {}
    for match in _MENTION.finditer(doc):
        word = next(filter(None, match.groups()))
        candidates = [*(f"{place}.{word}" for place in above), word, f"builtins.{word}"]
        link = next((each for each in candidates if each in items), None)
        if link is not None and not f"{link}.".startswith(f"{name}.") and not f"{name}.".startswith(f"{link}."):
            links["python://" + link.replace(".", "/")] = None
    return list(links)[:_MOST_LINKS]
