"""Structure of Markdown: headings, anchors, links and code."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?P<head>(?:[^\n]*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_LONGEST_FRONT_MATTER = 1 << 15  # characters; every chunk of the document has a copy of the fields
_MOST_BITS = 10_000  # an integer with more than 4,300 digits, which YAML accepts in base 16, is not valid in JSON
_FIELD = re.compile(r"^[A-Za-z_][\w-]*:(?:\s|$)", re.MULTILINE)


def front_matter_end(text: str) -> int:
    """Return the offset at which the text after the front matter begins, or 0 if there is no front matter."""
    match = _match(text)
    return match.end() if match else 0


def front_matter(text: str) -> dict[str, Any]:
    """Return the strings, numbers, dates (as strings) and lists of these in the front matter, or {} if it is invalid.

    >>> front_matter("---\\ntitle: Cats\\ntags: [pets, 2]\\ndate: 2024-05-01\\n---\\nThey purr.")
    {'title': 'Cats', 'tags': ['pets', 2], 'date': '2024-05-01'}
    """
    import yaml

    if (match := _match(text)) is None:
        return {}
    try:
        fields = yaml.load(match["head"], Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    plain = {str(name): _plain(value) for name, value in fields.items()} if isinstance(fields, dict) else {}
    return {name: value for name, value in plain.items() if value is not None}


def _match(text: str) -> re.Match[str] | None:
    match = _FRONT_MATTER.match(text)
    is_short = match is not None and len(match["head"]) <= _LONGEST_FRONT_MATTER
    return match if match and is_short and _FIELD.search(match["head"]) else None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        # Lists in lists are not read: aliases can make them contain each other many times.
        items = (_plain(item) for item in value if not isinstance(item, list))
        return [item for item in items if item is not None]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return None
    return value if isinstance(value, str | int | float) else None


_WORDS = re.compile(r"[^\W_]+")

_BOM = "\ufeff"  # byte order mark
PATH, NAME, WIKI = "path", "name", "wiki"


class Link(NamedTuple):
    """Link as written in a text, or of kind ``name`` in the metadata.

    ``kind`` determines the meaning of ``target``: ``path`` (relative to the document), ``wiki`` (a title) or ``name``
    (an id, URL, path or title).
    """

    kind: str
    target: str


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return a CommonMark parser with tables and wiki links, which records the positions of links and HTML tags."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, html_inline, link

    class Parser(MarkdownIt):
        """Parser that does not change the targets of links."""

        def normalizeLink(self, url: str) -> str:
            return url

        def validateLink(self, url: str) -> bool:
            return True

    commonmark = Parser("commonmark").enable("table")
    for name, rule in {"link": link, "autolink": autolink, "html_inline": html_inline}.items():
        commonmark.inline.ruler.at(name, _recording_position(rule))
    commonmark.inline.ruler.before("link", "wiki", _wiki)
    return commonmark


def _recording_position(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Wrap a parser rule so that the tokens of links and HTML tags also contain their position."""

    def record_position(state: StateInline, silent: bool) -> bool:
        start, before = state.pos, len(state.tokens)
        if not rule(state, silent):
            return False
        if not silent:
            token = next(token for token in state.tokens[before:] if token.type in ("link_open", "html_inline"))
            token.meta["at"] = start
        return True

    return record_position


def _wiki(state: StateInline, silent: bool) -> bool:
    match = _WIKI.match(state.src, state.pos, state.posMax) if state.src.startswith("[[", state.pos) else None
    if match is None:
        return False
    if not silent:
        link, text = Link(WIKI, match[1].strip()), match[2] or match[1]
        state.push("link", "", 0).meta = {"at": state.pos, "link": link, "text": text}
    state.pos = match.end()
    return True


def split_fragment(target: str) -> tuple[str, str]:
    """Split the target of a link into its path and its fragment. Both are decoded, and the query is dropped.

    >>> split_fragment("my%20notes.md?plain=1#first-steps")
    ('my notes.md', 'first-steps')
    """
    path, _, fragment = target.partition("#")
    return unquote(path.partition("?")[0]), unquote(fragment)


def folded_anchor(anchor: str) -> str:
    """Normalise an anchor for comparison, because renderers use different case, hyphens and punctuation."""
    return "-".join(_WORDS.findall(anchor.casefold().replace("_", "-")))


def urlsplit_scheme(target: str) -> str:
    """Return the scheme of a URL in lower case, or "" for a path."""
    try:
        scheme = urlsplit(target).scheme
    except ValueError:  # such as "http://[", which is not a URL
        return ""
    return scheme if len(scheme) > 1 else ""


# Every repetition is bounded, so that no text makes a search quadratic.
_WIKI = re.compile(r"\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{0,300}))?\]\]")
_NEWLINE = re.compile(r"\r\n?|\n")
_MAYBE_LINK = re.compile(r"\]|<[a-zA-Z]")
_MARKUP = re.compile(r"[\\`*_\[\]<>&!]")
_ATTRIBUTES = re.compile(r"[ \t]{0,99}\{:?(?=[^{}\n]{0,300}[#.=])(?P<attributes>[^{}\n]{0,300})\}[ \t]{0,99}\Z")
_HAS_ID = re.compile(r"\{:?[^{}\n]{0,300}#[^{}\n]{1,300}\}[ \t]{0,99}$", re.MULTILINE)
_ID = re.compile(r"#([\w.:-]{1,300})")
_TAG_LINK = re.compile(r"<a\s(?:[^<>]{0,500}?\s)?href\s{0,9}=\s{0,9}[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_LONGEST_HEADING = 1_000
_AT_ONCE = 1 << 19  # characters that are parsed at once, because each may take 500 bytes of memory


class Section(NamedTuple):
    """Part of a text, ``text[start:end]``: a heading and the text before the next one, or the text before the first.

    ``path`` lists the headings from the outermost to this one, without the document's title. The text below the heading
    begins at ``body``.
    """

    start: int
    end: int
    path: tuple[str, ...] = ()
    body: int = 0


class Outline(NamedTuple):
    """Structure of a Markdown text. All parts are in order of position.

    - ``sections`` cover the text without gaps.
    - ``fences`` are the (start, end) ranges of code.
    - ``anchors`` are the (start, name) pairs of headings, without names that occur more than once, because links to
      them are ambiguous.
    - ``links`` are (start, link) pairs.
    """

    sections: tuple[Section, ...]
    title: str | None = None
    fences: tuple[tuple[int, int], ...] = ()
    anchors: tuple[tuple[int, str], ...] = ()
    links: tuple[tuple[int, Link], ...] = ()


class _Heading(NamedTuple):
    start: int
    body: int
    level: int
    text: str


@lru_cache(maxsize=8)  # which does not recognise equal calls that pass arguments differently
def outline(text: str, *, headings: bool = True) -> Outline:
    """Return the structure of a Markdown text. With ``headings=False``, the full text is one section without anchors.

    Supported syntax: CommonMark, tables, front matter, ``{#id}`` attributes of headings, links in HTML, and wiki links.
    The title is the first heading if it has level 1. A heading without text below it belongs to the section that
    follows. The results for the last eight texts are cached.

    >>> text = "# Guide\\n## Run `make` { #run }\\nSee [it](b.md).\\n```\\n# no heading\\n```\\n## Use\\nEasy."
    >>> structure = outline(text)
    >>> structure.title, [section.path for section in structure.sections], [name for _, name in structure.anchors]
    ('Guide', [('Run make',), ('Use',)], ['guide', 'run', 'use'])
    >>> structure.links
    ((35, Link(kind='path', target='b.md')),)
    """
    env: dict[str, Any] = {}
    if len(text) > _AT_ONCE:  # it is parsed in parts, and a link may be defined in a later part
        env["references"] = dict(find_definitions(text))
    return _BlockReader(text, env).outline(headings=headings)


def without_heading_ids(text: str) -> str:
    """Remove the ids at the end of headings, except those that differ from the anchor made from the heading.

    >>> without_heading_ids("# Run it { #run-it }\\nNow.\\n## Use { #how }\\nEasy.\\n")
    '# Run it\\nNow.\\n## Use { #how }\\nEasy.\\n'
    """
    parts, before = [], 0
    for start, name in outline(text).anchors if _HAS_ID.search(text) else ():
        line = text[start : start + _LONGEST_HEADING].partition("\n")[0].rstrip("\r")
        ids = _ATTRIBUTES.search(line)
        if ids and folded_anchor(line[: ids.start()]) == folded_anchor(name):
            parts.append(text[before : start + ids.start()])
            before = start + len(line)
    return "".join([*parts, text[before:]])


def find_links(text: str, definitions: Mapping[str, Any] | None = None) -> Iterator[Link]:
    """Return the Markdown, HTML and wiki links of a text, ignoring images and code.

    ``definitions`` are link definitions in other parts of the document, as returned by :func:`find_definitions`.

    >>> list(find_links("See [the guide](a.md#use) and [[Ada Lovelace|Ada]]."))
    [Link(kind='path', target='a.md#use'), Link(kind='wiki', target='Ada Lovelace')]
    """
    references = {"references": dict(definitions or {})}
    structure = _BlockReader(text, references).outline(headings=False) if definitions else outline(text)
    return (link for _, link in structure.links)


def find_definitions(text: str) -> Mapping[str, Any]:
    """Return the first definition of each reference link (``[name]: target``), by normalised name.

    >>> [(name, target["href"]) for name, target in find_definitions("[The Guide]: docs/guide.md").items()]
    [('THE GUIDE', 'docs/guide.md')]
    """
    if "]:" not in text:
        return {}
    env: dict[str, Any] = {}
    deque(_BlockReader(text, env).blocks(), maxlen=0)
    references: Mapping[str, Any] = env.get("references", {})
    return references


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and most Markdown renderers derive it.

    >>> slug("What's new in 3.12?")
    'whats-new-in-312'
    """
    return _NOT_IN_SLUG.sub("", heading.strip().lower()).replace(" ", "-")


class _BlockReader:
    """Reader of the blocks of one text. Inline markup is parsed only where a link may be."""

    def __init__(self, text: str, env: dict[str, Any]) -> None:
        self._text = text
        self._env = env
        self._headings: list[_Heading] = []
        self._anchors: list[tuple[int, str]] = []
        self._fences: list[tuple[int, int]] = []
        self._links: list[tuple[int, Link]] = []
        start = front_matter_end(text) or int(text.startswith(_BOM))
        self._lines = [start, *(match.end() for match in _NEWLINE.finditer(text, start))]

    def blocks(self) -> Iterator[tuple[int, list[Token]]]:
        """Yield (first line, tokens) for parts of the text. A block at the end of a part is in the next part."""
        first = 0
        while first < len(self._lines):
            start = self._offset(first)
            last = max(first + 1, bisect_right(self._lines, start + _AT_ONCE))
            text = self._text[start : self._offset(last)]
            tokens: list[Token] = []
            content = _NEWLINE.sub("\n", text).replace("\0", "\ufffd")
            parser().block.parse(content, parser(), self._env, tokens)
            tops = [at for at, token in enumerate(tokens) if token.map and token.level == 0]
            if last < len(self._lines) and len(tops) > 1:  # the last block may continue
                last = first + (tokens[tops[-1]].map or [0])[0]
                del tokens[tops[-1] :]
            elif last < len(self._lines) and tops and tokens[tops[0]].type == "fence":
                last = self._extend(tokens[tops[0]], first, last)
            yield first, tokens
            first = last

    def _extend(self, fence: Token, first: int, last: int) -> int:
        """Extend a fence that does not end in its part, which has the lines ``first`` to ``last``; return the new end.

        The part is not parsed again, because the parser needs much memory for each line.
        """
        start, end = fence.map or (0, 0)
        if first + end == last:
            closing = re.compile(rf" {{0,3}}{re.escape(fence.markup + fence.markup[0])}*[ \t]*(?=[\r\n]|\Z)")
            lines = range(max(first + start + 1, last - 1), len(self._lines))
            last = next((line + 1 for line in lines if closing.match(self._text, self._lines[line])), lines.stop)
            fence.map = [start, last - first]
        return last

    def outline(self, *, headings: bool) -> Outline:
        for line, tokens in self.blocks():
            for at, token in enumerate(tokens):
                if token.map is not None:
                    self._read(token, tokens[at + 1] if at + 1 < len(tokens) else token, line)
        links = tuple(sorted(dict.fromkeys(self._links), key=itemgetter(0)))
        sections: Iterable[Section] = [Section(0, len(self._text))]
        title, anchors = None, self._anchors if headings else []
        if self._headings and headings:
            first = self._headings[0]
            title = first.text if first.level == 1 and first.text else None
            sections = _sections(self._text, self._headings, title)
        counts = Counter(name for _, name in anchors)
        unique = tuple((start, name) for start, name in anchors if name and counts[name] == 1)
        return Outline(tuple(sections), title, tuple(self._fences), unique, links)

    def _read(self, token: Token, after: Token, line: int) -> None:
        """Record the heading, links or code of a token. Only headings outside quotes and lists begin sections."""
        first, last = (line + number for number in token.map or ())
        start, end = self._offset(first), self._offset(last)
        if token.type == "inline":
            self._inline(token.content, first)
        elif token.type == "heading_open":
            self._heading(token, after.content, start, end)
        elif token.type in ("fence", "code_block"):
            self._fences.append((start, end))
        elif token.type == "html_block":
            self._tags(token.content, 0, self._position_mapping(token.content, first))

    def _offset(self, line: int) -> int:
        return self._lines[line] if line < len(self._lines) else len(self._text)

    def _position_mapping(self, content: str, first: int) -> Callable[[int], int]:
        """Return a function from positions in a block's content, which lacks indents, to offsets in the text."""
        starts = [0, *(match.end() for match in re.finditer("\n", content))]

        @cache
        def shift(number: int) -> int:
            end = starts[number + 1] - 1 if number + 1 < len(starts) else None
            start, after = self._offset(first + number), self._offset(first + number + 1)
            return max(self._text.find(content[starts[number] : end], start, after), start) - starts[number]

        return lambda at: shift(bisect_right(starts, at) - 1) + at

    def _heading(self, token: Token, content: str, start: int, body: int) -> None:
        markup = content[:_LONGEST_HEADING]
        if attributes := _ATTRIBUTES.search(markup):
            markup = markup[: attributes.start()]
        text = "".join(_plain_texts(self._inlines(markup))) if _MARKUP.search(markup) else markup
        text = " ".join(text.split())
        id = _ID.search(attributes["attributes"]) if attributes else None
        self._anchors.append((start, id[1] if id else slug(text)))
        if token.level == 0:
            self._headings.append(_Heading(start, body, int(token.tag[1:]), text))

    def _inline(self, content: str, first: int) -> None:
        if _MAYBE_LINK.search(content) is None:
            return
        place = self._position_mapping(content, first)
        for base in range(0, len(content), _AT_ONCE):
            for token in self._inlines(content[base : base + _AT_ONCE]):
                if token.type == "html_inline":
                    self._tags(token.content, base + token.meta["at"], place)
                elif token.type in ("link", "link_open"):
                    link = token.meta["link"] if token.type == "link" else Link(PATH, str(token.attrs["href"]))
                    self._links.append((place(base + token.meta["at"]), link))

    def _inlines(self, content: str) -> list[Token]:
        tokens: list[Token] = []
        parser().inline.parse(content, parser(), self._env, tokens)
        return tokens

    def _tags(self, content: str, base: int, place: Callable[[int], int]) -> None:
        for match in _TAG_LINK.finditer(content):
            self._links.append((place(base + match.start()), Link(PATH, html.unescape(match[1]))))


def _sections(text: str, headings: Sequence[_Heading], title: str | None) -> Iterator[Section]:
    start, path = 0, list[_Heading]()
    if text[: headings[0].start].strip().strip(_BOM):
        yield Section(0, headings[0].start)
        start = headings[0].start
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        path = [above for above in path if above.level < heading.level] + [heading]
        if end < len(text) and not text[heading.body : end].strip():
            continue
        headings_of_section = path[1:] if path[0].text == title else path
        yield Section(start, end, tuple(above.text for above in headings_of_section if above.text), heading.body)
        start = end


def _plain_texts(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield " "
        elif token.type in ("text", "code_inline", "text_special"):
            yield token.content
        elif token.type == "link":
            yield token.meta["text"]
