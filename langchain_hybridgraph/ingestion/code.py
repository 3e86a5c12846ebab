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
from itertools import groupby
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


def read_code(path: Path, note: Callable[[str], None]) -> Iterator[FilePart]:
    """Yield the definitions of a source file and the lines between them. A log has no definitions.

    A class of more than ``_SMALL`` characters is divided into its head and its methods. In the metadata of a part,
    ``start_line`` and ``end_line`` are its first and last line, counted from 1, and ``section_heading`` is the name of
    the definition, such as "Invoice.total". Comments and decorators directly above a definition belong to it.
    """
    text = read_text(path).replace("\r\n", "\n")
    lines = text.split("\n")
    parts = list(_blocks(lines, _names(text, lines, path.suffix.lower())))
    for first, last, name in parts:
        for start, end in _cut_lines(lines, first, last):
            metadata = {"start_line": start + 1, "end_line": end} | ({"section_heading": name} if name else {})
            yield FilePart("\n".join(lines[start:end]), metadata, path.name)
    if not parts:
        yield FilePart("", {}, path.name)


_Classes = list[tuple[int, int, str]]  # (first line, line after the last, name)


def _names(text: str, lines: list[str], suffix: str) -> list[str]:
    """Return the name of the definition to which each line belongs, or ""; small classes are one definition."""
    names, classes = [""] * len(lines), _Classes()
    if suffix in (".py", ".pyi"):
        try:
            _name_members(ast.parse(text).body, "", lines, names, classes)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # written for another version of Python
            names, classes = _matched(lines, _WORDS)
    elif suffix != ".log":
        names, classes = _matched(lines, _PATTERNS.get(suffix, _WORDS))
    for first, last, name in classes:
        if sum(map(len, lines[first:last])) <= _SMALL:
            names[first:last] = [name if f"{own}.".startswith(f"{name}.") else own for own in names[first:last]]
    return names


def _name_members(body: list[ast.stmt], above: str, lines: list[str], names: list[str], classes: _Classes) -> None:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first, last = min(line.lineno for line in (node, *node.decorator_list)) - 1, node.end_lineno or node.lineno
        while first and names[first - 1] == above and _ABOVE.match(lines[first - 1]):
            first -= 1
        name = f"{above}.{node.name}" if above else node.name
        names[first:last] = [name] * (last - first)
        if isinstance(node, ast.ClassDef):
            classes.append((first, last, name))
            _name_members(node.body, name, lines, names, classes)


def _matched(lines: list[str], pattern: re.Pattern[str]) -> tuple[list[str], _Classes]:
    """Find definitions by a pattern, outside functions. Each of them goes to its end or to the next definition."""
    names, classes = list[str](), _Classes()
    stack = [(-1, "", 0, True)]  # (indentation, name, first line, whether it is a class)
    lowest = 0  # first line that may be a comment above the next definition
    for number, line in enumerate([*lines, "}"]):  # the last line closes all definitions
        code = line.lstrip()
        indent = len(line[: len(line) - len(code)].expandtabs(4))
        match = pattern.match(line) if code and indent <= _DEEPEST else None
        names.append(stack[-1][1])
        if match or _END.match(line):
            while stack[-1][0] >= indent:
                _, closed, first, is_class = stack.pop()
                lowest = lowest if match else number + 1
                if is_class:
                    classes.append((first, number if match else number + 1, closed))
        groups = match.groupdict() if match else {}
        if match:
            names[number] = stack[-1][1]
        if not match or not stack[-1][3] or (groups.get("inside") and len(stack) == 1):
            continue
        name = ".".join(filter(None, [stack[-1][1], *(value for key, value in groups.items() if key[0] == "n")]))
        first = number
        while first > lowest and _ABOVE.match(lines[first - 1]):
            first -= 1
        names[first:] = [name] * (number + 1 - first)
        if not line.rstrip().endswith((";", "}")):
            stack.append((indent, name, first, bool(groups.get("box") or groups.get("impl"))))
        lowest = number + 1
    return names[:-1], classes


def _blocks(lines: list[str], names: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (first line, line after the last, name) of the definitions, without blank lines around them.

    A block of closing brackets is joined to the block before it.
    """
    before: tuple[int, int, str] | None = None
    for name, group in groupby(range(len(lines)), names.__getitem__):
        full = [number for number in group if lines[number].strip()]
        if not full:
            continue
        if before and all(_NOTHING.fullmatch(lines[number]) for number in full):
            before = before[0], full[-1] + 1, before[2]
            continue
        if before:
            yield before
        before = full[0], full[-1] + 1, name
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
