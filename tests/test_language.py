"""Everything that a person reads is in plain English."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "langchain_hybridgraph"

# Words and phrases, and what to write instead.
PHRASES = {
    r"anew": "again",
    r"mend(s|ed|ing)?": "fix, repair",
    r"(?<!there )(is|are|was|were) no (?!longer|more|fewer|less|different|better|worse|matter)": "is not a, has no",
    r"so many of": "number of",
    r"beside": "besides, next to, with",
    r"asked for": "requested",
    r"(is|are|was|were) told": "receives, is reported",
    r"that there (is|are|was|were)": "leave it out",
    r"the whole of": "all of, the full",
    r"stands? (in|at|on|before|below|under|there|beside|by)": "is, appears",
    r"(lies|lie) (in(?! \[)|at|on|below|under|beyond)": "is",
    r"who(ever)? (waits|asks|looks|walks|reads|writes|wants|says)": "a caller that, code that",
    r"what (says|stands|lies|leads|led|waits|is asked|is wanted)": "name the thing",
    r"amid|hence|thereof|therein|whereof|wherein|whereby|thereby|whence|lest|aught": "use a modern word",
    r"to be sure": "to be confident",
    r"in the place of": "instead of",
    r"nothing but": "only",
    r"(goes|go|went|going) on(?! to)": "continues, keeps running",
    r"(can|could|may|might) (not )?be had": "is available",
    r"(says?|said|know|known|knows|tells?|told|asked) of": "says about, reports",
    r"(that|it|is|are|was|what) want(s|ed)|wanted (is|are|a|an)": "expected, requested",
    r"gives? way to": "is replaced by",
}
ANY_PHRASE = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in PHRASES), re.IGNORECASE)
# A docstring begins with a verb in the imperative or with a noun phrase.
OPENINGS = r"What|Who|Whose|Whom|Of|How (many|much|far|long|often)|So|Where|Which|The same|That"
# Subjects of sentences are nouns, in names of tests as well.
NAMES = r"test_(what|who|whose|of|so)_"

# Files that list words of any kind as data.
DATA = ("langchain_hybridgraph/text/stop_words.py", "tests/test_language.py")


class Passage(NamedTuple):
    """Piece of text that a person reads."""

    path: str
    line: int
    text: str
    is_docstring: bool = False


def python_passages(path: str, source: str) -> Iterator[Passage]:
    """Yield the docstrings, comments and test names of a module, and the strings in package code."""
    in_package, documented = path.startswith(PACKAGE), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield Passage(path, node.lineno, node.name)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.add(node.value)
            yield Passage(path, node.lineno, node.value.value, is_docstring=True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and in_package and node not in documented:
            yield Passage(path, node.lineno, node.value)
    if ANY_PHRASE.search(source):  # splitting a module into tokens takes longest
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield Passage(path, token.start[0], token.string)


def notebook_passages(path: str, source: str) -> Iterator[Passage]:
    """Yield the cells of a notebook, with their number as the line."""
    for number, cell in enumerate(json.loads(source)["cells"], 1):
        yield Passage(path, number, "".join(cell["source"]))


def passages() -> Iterator[Passage]:
    """Yield all text of the repository that is written for people."""
    for file in sorted(each for kind in ("py", "md", "ipynb") for each in ROOT.rglob(f"*.{kind}")):
        path = file.relative_to(ROOT).as_posix()
        if path.startswith((".", "build/", *DATA)) or "/." in path:
            continue
        source = file.read_text(encoding="utf-8")
        if path.endswith(".py"):
            yield from python_passages(path, source)
        elif path.endswith(".ipynb"):
            yield from notebook_passages(path, source)
        else:
            yield from (Passage(path, number, line) for number, line in enumerate(source.split("\n"), 1))


def findings(passage: Passage) -> Iterator[str]:
    """Yield each problem of a passage, with its place and what to write instead."""
    at = f"{passage.path}:{passage.line}"
    text = passage.text.replace("_", " ") if passage.text.startswith("test_") else passage.text
    for match in ANY_PHRASE.finditer(text):
        instead = next(phrase for pattern, phrase in PHRASES.items() if re.fullmatch(pattern, match[0], re.IGNORECASE))
        yield f"{at}: {match[0]!r}; write: {instead}"
    if passage.is_docstring and (match := re.match(rf"({OPENINGS})\b", passage.text.strip())):
        yield f"{at}: the docstring begins with {match[0]!r}; begin with a verb in the imperative or a noun"
    if match := re.match(NAMES, passage.text):
        yield f"{at}: {passage.text}: begin with a noun instead of {match[1]!r}"


def test_everything_is_in_plain_english():
    """Docstrings, comments, messages, pages, notebooks and test names contain none of the phrases above."""
    read = list(passages())
    assert {"README.md", "langchain_hybridgraph/result.py", "notebooks/03_graph.ipynb"} <= {each.path for each in read}
    problems = [finding for each in read for finding in findings(each)]
    assert problems == [], "\n" + "\n".join(problems)


# Participles that do not say what a value is; as names they must be replaced by a noun or, for functions, a verb.
PARTICIPLES = (
    "asked|asking|came|found|given|gone|held|kept|known|led|lost|made|meant|moved|named|placed|put|reached|remembered|"
    "said|seen|shown|taken|told|valued|wanted|written|arrived|arriving|answered|begun|chosen|filled|drawn|sent|went|"
    "heard|bought|brought|thought|borne|allowed|grown|joined|listed|began|took|doomed|spelled|prepared|expanded"
)


def names_defined(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each function, class, parameter, assigned variable and assigned attribute, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


@pytest.mark.parametrize("folder", [PACKAGE, "tests", "benchmarks", "docs", "examples"])
def test_names_are_not_bare_participles(folder):
    """No function, class, parameter, variable or attribute is named by a participle alone."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    problems = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files
        for line, name in names_defined(ast.parse(file.read_text(encoding="utf-8")))
        if re.fullmatch(PARTICIPLES, name.strip("_").lower())
    ]
    assert problems == [], "\n" + "\n".join(problems)
