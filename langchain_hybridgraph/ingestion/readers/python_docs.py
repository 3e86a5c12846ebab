"""Reader of the documentation of Python's standard library.

The docstrings are read from the source files of the running interpreter with ``ast``. Only modules that are compiled
into the interpreter are imported. Nothing is downloaded, and the same interpreter always yields the same documents.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.documents import Document

_NOT_LIBRARY = frozenset(
    ["test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "encodings", "pydoc_data", "msilib"]
)
# Modules whose names are public in another module.
_IMPLEMENTATION_MODULES = frozenset(["posix", "nt", "genericpath", "xxsubtype"])
_PUBLISHED_AS = {os.path.__name__: "os.path", "builtins": ""}
_MOST_LINKS = 30
_WORD = re.compile(r"(?P<quote>`?)(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?P<call>\(\))?")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class _Item:
    """Documented module, class, function or method. ``name`` is its dotted path inside ``module``, and "" for the
    module itself.
    """

    module: str
    name: str
    kind: str
    signature: str
    doc: str
    bases: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module


@dataclass(slots=True)
class _Module:
    """Module with its documented items, public and private."""

    name: str
    source: str
    items: dict[str, _Item] = field(default_factory=dict)
    scope: dict[str, str] = field(default_factory=dict)  # dotted path of each name in the module
    stars: list[str] = field(default_factory=list)  # modules imported with ``*``
    public: frozenset[str] | None = None  # ``__all__`` if it is a plain list

    def exports(self, name: str) -> bool:
        """Return whether a name at the top level of the module is public."""
        return not name.startswith("_") and (self.public is None or name in self.public)


def read_python_docs() -> Iterator[Document]:
    """Yield one document for each documented module, class, function and method of the standard library, and for each
    topic of the language reference.

    ``page_content`` is the signature and the docstring. The metadata are:

    - ``title``: the qualified name in its usual public form
    - ``uri``: for example ``python://asyncio/queues/Queue/put``, which is also the document's id
    - ``source``: the path of the file, relative to the library
    - ``labels``: module, class, function, method or topic
    - ``links``: the uris of the base classes, the imported modules, and the items named in the docstring

    Private, undocumented and test code is left out. The topics are those that ``help()`` shows; their uris begin with
    ``python://language``. Documents are ordered by module name, and within a module by their order in the source;
    topics come last.
    """
    from langchain_core.documents import Document

    library = _Library(_read_modules(Path(sysconfig.get_paths()["stdlib"])))
    for item, source in library.items():
        uri = _uri(item)
        title = library.title(item)
        links = [_uri(linked) for linked in library.references(item)]
        metadata = {"title": title, "source": source, "uri": uri, "labels": [item.kind], "links": links}
        yield Document(page_content=f"{_headline(item, title)}\n\n{item.doc}", metadata=metadata, id=uri)
    for topic, text in _topics(Path(sysconfig.get_paths()["stdlib"])):
        uri = f"python://language/{topic}"
        title = text.partition("\n")[0].replace('"', "").strip()
        source = "pydoc_data/topics.py"
        metadata = {"title": title, "source": source, "uri": uri, "labels": ["topic"], "links": []}
        yield Document(page_content=text, metadata=metadata, id=uri)


class _Library:
    """Index of all modules, for finding an item's usual public name and the items to which a docstring refers."""

    def __init__(self, modules: Mapping[str, _Module]) -> None:
        self._modules = dict(modules)
        for module in list(self._modules.values()):
            self._adopt(module)
        self._items = {item.path: item for item, _ in self.items()}
        self._aliases = dict(self._re_exports())
        self._words: dict[str, dict[str, str]] = {}

    def items(self) -> Iterator[tuple[_Item, str]]:
        """Yield (item, source file) for every public item."""
        for name in sorted(self._modules):
            module = self._modules[name]
            if _is_public(name):
                for path, item in module.items.items():
                    if not path or module.exports(path.partition(".")[0]):
                        yield item, module.source

    def title(self, item: _Item) -> str:
        """Return the usual public name of an item: the shortest name under which a package exports it, or its own name
        if no package does.
        """
        top, dot, rest = item.name.partition(".")
        published = self._aliases.get(f"{item.module}.{top}") if top else None
        if published is None:
            module = _PUBLISHED_AS.get(item.module, item.module)
            published = ".".join(part for part in (module, top) if part) or item.module
        return f"{published}{dot}{rest}"

    def references(self, item: _Item) -> list[_Item]:
        """Return up to ``_MOST_LINKS`` items that an item refers to, in the order of their first mention. Its own
        members, and the class and module that it belongs to, are left out.
        """
        module = self._modules[item.module]
        paths: dict[str, None] = {}
        if item.kind == "module":
            for path in module.scope.values():
                self._add(paths, path if path in self._modules else path.rpartition(".")[0])
        for base in item.bases:
            self._add(paths, self._resolve(base, item, module))
        for word in _WORD.finditer(item.doc):
            name = word["name"]
            if "." in name or word["quote"] or word["call"] or self._is_name(name, module):
                self._add(paths, self._resolve(name, item, module))
        others = [path for path in paths if not _contains(path, item.path) and not _contains(item.path, path)]
        return [self._items[path] for path in others[:_MOST_LINKS]]

    def _add(self, paths: dict[str, None], path: str | None) -> None:
        if path in self._items and path != "builtins.object":
            paths[path] = None

    def _resolve(self, name: str, item: _Item, module: _Module) -> str | None:
        """Return the path of the item to which a name in the docstring of ``item`` refers, or None if there is no such
        item.
        """
        head, _, rest = name.partition(".")
        inside = item.name if item.kind == "class" else item.name.rpartition(".")[0]
        candidates = [f"{module.name}.{inside}.{name}"] if inside else []
        if head in module.scope:
            candidates.append(f"{module.scope[head]}.{rest}".rstrip("."))
        candidates += [f"{module.name}.{name}", name, f"builtins.{name}"]
        paths = (self._home(path) for path in candidates)
        return next((path for path in paths if path in self._items), None)

    def _home(self, path: str) -> str:
        """Return the path at which an item is defined. ``path`` is a public path of the item. If the definition is not
        found, return ``path``.
        """
        if path in self._items:
            return path
        above, _, name = path.rpartition(".")
        if path.startswith("os.path."):
            return self._home(f"posixpath.{name}")
        module = self._modules.get(above)
        if module is not None:
            if name in module.scope and module.scope[name] != path:
                return module.scope[name]
            return next((f"{star}.{name}" for star in module.stars if f"{star}.{name}" in self._items), path)
        home = self._home(above) if above else above
        return f"{home}.{name}" if home != above else path

    def _is_name(self, word: str, module: _Module) -> bool:
        """Return whether a plain word in a docstring is a name: a class of the same module, or a word with an
        underscore inside.
        """
        item = module.items.get(word)
        return ("_" in word.strip("_")) or (item is not None and item.kind == "class" and word[0].isupper())

    def _adopt(self, module: _Module) -> None:
        """Add to a public module the items that it exports from private modules such as ``_collections_abc``."""
        if not _is_public(module.name):
            return
        sources: list[tuple[str, str | None]] = [(star, None) for star in module.stars]
        sources += [(path.rpartition(".")[0], name) for name, path in module.scope.items()]
        for origin, name in sources:
            private = None if _is_public(origin) else self._modules.get(origin) or _built_in(origin)
            if private is None:
                continue
            self._modules[origin] = private
            for path, item in private.items.items():
                top = path.partition(".")[0]
                if path and path not in module.items and (top == name if name else private.exports(top)):
                    module.items[path] = replace(item, module=module.name)

    def _re_exports(self) -> Iterator[tuple[str, str]]:
        """Yield (path of an item, shorter path under which a package exports it). If an item has several shorter paths,
        the shortest comes last.
        """
        for package in sorted(self._modules, key=lambda name: -name.count(".")):
            module = self._modules[package]
            if not _is_public(package):
                continue
            inside = [star for star in module.stars if star.startswith(f"{package}.")]
            for star in inside:
                for name in self._modules[star].items if star in self._modules else ():
                    if name and "." not in name and self._modules[star].exports(name):
                        yield f"{star}.{name}", f"{package}.{name}"
            for name, path in module.scope.items():
                if path.startswith(f"{package}.") and path != f"{package}.{name}" and module.exports(name):
                    yield path, f"{package}.{name}"


def _contains(above: str, path: str) -> bool:
    return f"{path}.".startswith(f"{above}.")


def _is_public(module: str) -> bool:
    return module not in _IMPLEMENTATION_MODULES and not any(
        part.startswith("_") and part != "__future__" for part in module.split(".")
    )


def _uri(item: _Item) -> str:
    return "python://" + item.path.replace(".", "/")


def _headline(item: _Item, title: str) -> str:
    public = [base for base in item.bases if base != "object" and "._" not in f".{base}"]
    bases = f"\nBases: {', '.join(public)}" if public else ""
    before = {"class": "class ", "module": "module ", "async": "async "}
    prefix = before["async"] if item.signature.startswith("async") else before.get(item.kind, "")
    return f"{prefix}{title}{item.signature.removeprefix('async')}{bases}"


# -- source files -----------------------------------------------------------------------------------------------


def _read_modules(library: Path) -> dict[str, _Module]:
    modules: dict[str, _Module] = {}
    for file in _source_files(library, library) if library.is_dir() else ():
        relative = file.relative_to(library)
        name = ".".join(relative.with_suffix("").parts).removesuffix(".__init__")
        module = _read_module(file, name, relative.as_posix())
        if module is not None:
            modules[name] = module
    for name in sys.builtin_module_names:
        if _is_public(name) and name not in modules and (module := _built_in(name)) is not None:
            modules[name] = module
    return modules


def _source_files(folder: Path, library: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        name = path.name
        if path.is_dir():
            if name.isidentifier() and not name.startswith("_") and name not in _NOT_LIBRARY:
                yield from _source_files(path, library)
        # Public modules export items that are defined in private files at the top level.
        elif path.suffix == ".py" and (folder == library or name == "__init__.py" or not name.startswith("_")):
            yield path


def _read_module(file: Path, name: str, source: str) -> _Module | None:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # a modified library must not cause a failure
    module = _Module(name, source)
    doc = ast.get_docstring(tree)
    if doc:
        module.items[""] = _Item(name, "", "module", "", doc)
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    _read_body(tree.body, module, package)
    return module


def _read_body(body: Iterable[ast.stmt], module: _Module, package: str) -> None:
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                module.scope.setdefault(node.name, f"{module.name}.{node.name}")
                _read_definition(node, module, "")
            case ast.Import():
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    module.scope.setdefault(bound, alias.name if alias.asname else bound)
            case ast.ImportFrom():
                _read_import(node, module, package)
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                module.public = _names(node.value)
            case ast.AugAssign(target=ast.Name(id="__all__")):
                module.public = None
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")))):
                module.public = None
            case ast.If():
                _read_body([*node.body, *node.orelse], module, package)
            case ast.Try():
                handlers = [inner for handler in node.handlers for inner in handler.body]
                _read_body([*node.body, *handlers, *node.orelse], module, package)


def _read_import(node: ast.ImportFrom, module: _Module, package: str) -> None:
    origin = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        origin = ".".join([*above, *([origin] if origin else [])])
    for alias in node.names:
        if alias.name == "*":
            module.stars.append(origin)
        else:
            module.scope.setdefault(alias.asname or alias.name, f"{origin}.{alias.name}")


def _names(value: ast.expr) -> frozenset[str] | None:
    try:
        return frozenset(str(name) for name in ast.literal_eval(value))
    except (ValueError, TypeError):
        return None  # the value is computed, such as the sum of other modules' lists


def _read_definition(node: ast.ClassDef | _Function, module: _Module, above: str) -> None:
    """Add a documented definition and, for a class, the definitions inside it. If a name is defined several times, the
    first documented definition is kept.
    """
    if node.name.startswith("_") and above:
        return
    path = f"{above}{node.name}"
    doc = ast.get_docstring(node)
    if isinstance(node, ast.ClassDef):
        start = next((inner for inner in node.body if isinstance(inner, _Function) and inner.name == "__init__"), None)
        doc = doc or (ast.get_docstring(start) if start else None)
        if doc:
            bases = tuple(ast.unparse(base) for base in node.bases)
            signature = _signature(start) if start else ""
            module.items.setdefault(path, _Item(module.name, path, "class", signature, doc, bases))
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | _Function):
                _read_definition(inner, module, f"{path}.")
    elif doc:
        kind = "method" if above else "function"
        module.items.setdefault(path, _Item(module.name, path, kind, _signature(node, bound=bool(above)), doc))


def _signature(node: _Function, *, bound: bool = True) -> str:
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    if decorators & {"property", "cached_property", "setter", "getter"}:
        return ""
    arguments = node.args
    if bound and "staticmethod" not in decorators:
        positional = arguments.posonlyargs or arguments.args
        if positional:
            positional.pop(0)
            # The first argument may have a default, too.
            del arguments.defaults[: max(len(arguments.defaults) - len(arguments.posonlyargs + arguments.args), 0)]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    prefix = "async" if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{prefix}({ast.unparse(arguments)}){returns}"


# -- modules without a source file --------------------------------------------------------------------------------


def _built_in(name: str) -> _Module | None:
    """Return a module that is compiled into the interpreter, or None for other modules. Importing a compiled-in module
    runs no third-party code.
    """
    if name not in sys.builtin_module_names:
        return None
    content = importlib.import_module(name)
    module = _Module(name, f"{name} (built in)")
    if content.__doc__:
        module.items[""] = _Item(name, "", "module", "", inspect.cleandoc(content.__doc__))
    for member, value in sorted(vars(content).items()):
        if isinstance(value, type) and value.__name__ == member:  # neither an alias nor sys.last_type
            _add_built_in(module, member, "class", value)
            for inner, method in sorted(vars(value).items()):
                if not inner.startswith("_") and (callable(method) or hasattr(method, "__get__")):
                    _add_built_in(module, f"{member}.{inner}", "method", method)
        elif inspect.isbuiltin(value):
            _add_built_in(module, member, "function", value)
    return module


def _add_built_in(module: _Module, path: str, kind: str, value: Any) -> None:
    doc = getattr(value, "__doc__", None)
    if isinstance(doc, str) and doc.strip():
        signature = str(getattr(value, "__text_signature__", None) or "")
        bound = re.sub(r"\(\$?(?:self|type|module)(?:, /)?(?:, )?", "(", signature).replace("(/, ", "(")
        module.items[path] = _Item(module.name, path, kind, bound, inspect.cleandoc(doc))


def _topics(library: Path) -> Iterator[tuple[str, str]]:
    """Yield the topics of the language reference as (name, text), sorted by name."""
    try:
        tree = ast.parse((library / "pydoc_data" / "topics.py").read_bytes())
        tables = [node.value for node in tree.body if isinstance(node, ast.Assign)]
        topics = ast.literal_eval(tables[0]) if tables else {}
    except (OSError, SyntaxError, ValueError):
        return  # some distributions do not include the topics
    for name in sorted(topics):
        yield str(name), str(topics[name]).strip()
