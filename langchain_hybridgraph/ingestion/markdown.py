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
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(?P<head>(?:[^\n]*\n){0,200}?)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_LONGEST_FRONT_MATTER = 1 << 15  # characters; every chunk of the document has a copy of the fields
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
    """Return the strings, numbers, dates (as strings) and lists of these in the front matter, or {} if it is invalid.

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


# Every repetition is bounded, so that no text makes a search quadratic.
_CONTAINER = re.compile(r"(?:!!!|\?\?\?\+?|===[!+]?(?=[ \t]+[\"']))[ \t]+\S")
_WIKI = re.compile(r"\[\[([^\[\]|\n]{1,300})(?:\|([^\[\]\n]{0,300}))?\]\]")
_ROLE = re.compile(r"[:{](?P<role>(?:[a-z]{1,20}:)?[a-z-]{1,20})[:}]`(?P<inside>[^`]{1,1000})`")
_REST = re.compile(r"`(?P<label>[^`<>]{0,500})<(?P<target>[^`<>\s]{1,2000})>`_")
_ROLE_TARGET = re.compile(r"(?P<label>.*)<(?P<target>[^<>]+)>\Z", re.DOTALL)
_LONGEST_LABEL = 120
_WORDS = re.compile(r"[^\W_]+")

PATH, NAME, WIKI, INCLUDE = "path", "name", "wiki", "include"


class Link(NamedTuple):
    """Link as written in a text, or of kind ``name`` in the metadata.

    ``kind`` determines the meaning of ``target``: ``path`` (relative to the document), ``include`` (relative to the
    document's folder or a folder above it), ``wiki`` (a title) or ``name`` (an id, URL, path or title).
    """

    kind: str
    target: str
    label: str = ""


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """Return a CommonMark parser with tables, MkDocs containers, reStructuredText roles and wiki links."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import autolink, html_inline, link

    class Parser(MarkdownIt):
        """Parser that does not change the targets of links."""

        def normalizeLink(self, url: str) -> str:
            return url

        def validateLink(self, url: str) -> bool:
            return True

    commonmark = Parser("commonmark").enable("table")
    ends = ["paragraph", "reference", "blockquote", "list"]
    commonmark.block.ruler.before("fence", "container", _container, {"alt": ends})
    for name, rule in {"link": link, "autolink": autolink, "html_inline": html_inline}.items():
        commonmark.inline.ruler.at(name, _recording_position(rule))
    commonmark.inline.ruler.before("backticks", "role", _role)
    commonmark.inline.ruler.before("link", "wiki", _wiki)
    return commonmark


def label_of(text: str) -> str:
    """Return the text of a link as one line, shortened if it is long."""
    return " ".join(text.split())[:_LONGEST_LABEL]


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


def _container(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Parse a MkDocs admonition or tab, whose indented content is Markdown, not code."""
    if state.is_code_block(first):
        return False
    if not _CONTAINER.match(state.src, state.bMarks[first] + state.tShift[first], state.eMarks[first]):
        return False
    if silent:
        return True
    indent, last = state.sCount[first] + 4, first + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    before = state.lineMax, state.blkIndent, state.parentType
    state.lineMax, state.blkIndent, state.parentType = last, indent, "container"
    state.push("container_open", "div", 1).map = [first, last]
    state.md.block.tokenize(state, first + 1, last)
    state.push("container_close", "div", -1)
    state.lineMax, state.blkIndent, state.parentType = before
    state.line = last
    return True


def _wiki(state: StateInline, silent: bool) -> bool:
    match = _WIKI.match(state.src, state.pos, state.posMax) if state.src.startswith("[[", state.pos) else None
    if match and not silent:
        _push(state, Link(WIKI, match[1].strip(), label_of(match[2] or "")))
    return _advance(state, match)


def _role(state: StateInline, silent: bool) -> bool:
    character = state.src[state.pos]
    if character == "`":
        match = _REST.match(state.src, state.pos, state.posMax)
        if match and not silent:
            _push(state, Link(PATH, match["target"], label_of(match["label"])))
        return _advance(state, match)
    match = _ROLE.match(state.src, state.pos, state.posMax) if character in ":{" else None
    if match and not silent:
        inside = _ROLE_TARGET.match(match["inside"])
        target = (inside["target"] if inside else match["inside"]).strip()
        label = label_of(inside["label"]) if inside else ""
        if match["role"] == "doc":
            _push(state, Link(PATH, target, label))
        else:  # Sphinx shows only the last part of a name after "~"
            name = target.rpartition(".")[2] if target.startswith("~") else target.removeprefix("!")
            state.push("code_inline", "code", 0).content = label or name
    return _advance(state, match)


def _push(state: StateInline, link: Link) -> None:
    state.push("link", "", 0).meta = {"at": state.pos, "link": link, "text": link.label or link.target}


def _advance(state: StateInline, match: re.Match[str] | None) -> bool:
    if match is None:
        return False
    state.pos = match.end()
    return True


# -- targets of links ------------------------------------------------------------------------------------------


def split_fragment(target: str) -> tuple[str, str]:
    """Split the target of a link into its path and its fragment. Both are decoded, and the query is dropped.

    >>> split_fragment("my%20notes.md?plain=1#first-steps")
    ('my notes.md', 'first-steps')
    """
    path, _, fragment = target.partition("#")
    return unquote(path.partition("?")[0]), unquote(fragment)


def folded_anchor(anchor: str) -> str:
    """Normalise an anchor for comparison: renderers use different case, hyphens and punctuation for the same heading.

    >>> folded_anchor("Cats_&-Dogs"), folded_anchor("cats--dogs")
    ('cats-dogs', 'cats-dogs')
    """
    return "-".join(_WORDS.findall(anchor.casefold().replace("_", "-")))


def is_external(target: str) -> bool:
    """Return whether a target is a web URL. A link to a web URL matches only a document with exactly this URL."""
    return urlsplit_scheme(target) in {"http", "https", "ftp"}


def urlsplit_scheme(target: str) -> str:
    """Return the scheme of a URL in lower case, or "" for a path."""
    try:
        scheme = urlsplit(target).scheme
    except ValueError:  # such as "http://[", which is not a URL
        return ""
    return scheme if len(scheme) > 1 else ""


# Every repetition is bounded, so that no text makes a search quadratic.
_NEWLINE = re.compile(r"\r\n?|\n")
_MAYBE_LINK = re.compile(r"\]|\)=|<[a-zA-Z]|://|`_|[}:]`|--8<--|\{[^}\n]")  # a possible link or anchor
_MARKUP = re.compile(r"[\\`*_\[\]<>&!]")
_ATTRIBUTES = re.compile(r"[ \t]{0,99}\{:?(?=[^{}\n]{0,300}[#.=])([^{}\n]{0,300})\}[ \t]{0,99}\Z")
_IDS = re.compile(r"\{:?(?=[^{}\n]{0,300}#)([^{}\n]{1,600})\}")
_HEADING_IDS = re.compile(r"[ \t]{1,99}\{:?(?P<attributes>[^{}\n]{1,300})\}[ \t]{0,99}\Z")
_ATTRIBUTE = re.compile(r"[#.][\w:.-]{1,300}|[\w-]{1,300}=[^\s\"']{1,300}")
_ID = re.compile(r"#([\w.:-]{1,300})")
_TAG_ID = re.compile(r"<[a-zA-Z]\w{0,20}\s[^<>]{0,300}?\b(?:id|name)\s{0,9}=\s{0,9}[\"']?([^\"'\s<>]{1,300})")
_TAG_LINK = re.compile(r"<a\s(?:[^<>]{0,500}?\s)?href\s{0,9}=\s{0,9}[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)
_TARGET = re.compile(r"\((?P<name>[^()\n]{1,300})\)=[ \t]*(?:\n|\Z)")
_URL = re.compile(r"(?<![(<`\"'\[])https?://[^\s<>\"'`\[\]{}|\\^]{1,2000}")
_INCLUDE = re.compile(
    r"\{\*[ \t]{1,9}(?P<mkdocs>[^\s*]{1,500})[^\n]{0,300}?\*\}"
    r"|\{[!>]{1,2}[ \t]{0,9}(?P<bang>[^\s!]{1,500})[ \t]{0,9}!\}"
    r"|--8<--[ \t]{1,9}[\"'](?P<snippet>[^\"'\n]{1,500})[\"']"
    r"|\{%-?[ \t]{1,9}include(?:-markdown)?[ \t]{1,9}[\"'](?P<jinja>[^\"'\n]{1,500})[\"']"
)
_DIRECTIVE = re.compile(r"\{(?P<name>[\w:-]{1,40})\}[ \t]*(?P<argument>[^\n]{0,1000})")
_ENTRY = re.compile(
    r"[ \t]*(?:(?P<label>[^<>\n]{1,300}?)[ \t]*<(?P<target>[^<>\n]{1,500})>|(?P<plain>[^\s:<>][^\s<>]*))\s*\Z"
)
# Directives of MyST whose content is Markdown.
_PROSE = re.compile(
    "admonition|attention|caution|danger|dropdown|error|glossary|grid|hint|important|note|seealso|tab-item|tip|warning"
    "|versionadded|versionchanged|deprecated"
)
_NOT_IN_SLUG = re.compile(r"[^\w\- ]")
_LONGEST_HEADING = 1_000
_AT_ONCE = 1 << 19  # characters that are parsed at once, because each may take 500 bytes of memory
_MOST_NESTED = 10  # depth of MyST directives, whose content is parsed once for each level


class Section(NamedTuple):
    """Part of a text, ``text[start:end]``: a heading and the text before the next one, or the text before the first.

    ``path`` lists the headings from the outermost to this one, without the document's title.
    """

    start: int
    end: int
    path: tuple[str, ...] = ()


class Anchor(NamedTuple):
    """Named position in a text, for links with ``#name``; not ``explicit`` if the name is derived from a heading."""

    start: int
    name: str
    explicit: bool = False


class Outline(NamedTuple):
    """Structure of a Markdown text. All parts are in order of position.

    - ``sections`` cover the text without gaps.
    - ``fences`` are the (start, end) ranges of code.
    - ``anchors`` do not include names that occur more than once, because links to them are ambiguous.
    - ``links`` are (start, link) pairs.
    - ``heading_ids`` are the (start, end) ranges of ``{#id}`` at the end of headings, with the white space before them.
    """

    sections: tuple[Section, ...]
    title: str | None = None
    fences: tuple[tuple[int, int], ...] = ()
    anchors: tuple[Anchor, ...] = ()
    links: tuple[tuple[int, Link], ...] = ()
    heading_ids: tuple[tuple[int, int], ...] = ()


class _Heading(NamedTuple):
    start: int
    body: int
    level: int
    text: str


def outline(text: str, *, headings: bool = True) -> Outline:
    """Return the structure of a Markdown text. With ``headings=False``, the full text is one section without anchors.

    Supported syntax: CommonMark, tables, front matter, ``{#id}`` attributes, HTML and MyST anchors, wiki links,
    admonitions and tabs of MkDocs (``!!! note``, ``=== "Tab"``), MyST directives, and the roles of reStructuredText.
    The title is the first heading if it has level 1. A heading without text below it belongs to the section that
    follows. The results for the last eight texts are cached.

    >>> text = "# Guide\\n## Run `make` { #run }\\nSee [it](b.md).\\n```\\n# no heading\\n```\\n## Use\\nEasy."
    >>> structure = outline(text)
    >>> structure.title, [section.path for section in structure.sections], [anchor.name for anchor in structure.anchors]
    ('Guide', [('Run make',), ('Use',)], ['guide', 'run', 'use'])
    >>> structure.links
    ((35, Link(kind='path', target='b.md', label='it')),)
    """
    return _outline(text, headings)


@lru_cache(maxsize=8)
def _outline(text: str, headings: bool) -> Outline:
    # Pass positional arguments only: lru_cache does not recognise equal calls that pass arguments differently.
    return _BlockReader(text, {}).outline(headings=headings)


def with_anchors(structure: Outline, anchors: Sequence[Anchor]) -> Outline:
    """Return an outline with additional anchors, which take precedence over the anchors of headings.

    >>> with_anchors(outline("# Use\\n\\n# Run"), [Anchor(7, "use")]).anchors
    (Anchor(start=7, name='use', explicit=False), Anchor(start=7, name='run', explicit=False))
    """
    if not anchors:
        return structure
    named_anchors = [*anchors, *(anchor for anchor in structure.anchors if anchor.explicit)]
    slugs = [anchor for anchor in structure.anchors if not anchor.explicit]
    return structure._replace(anchors=tuple(_unique(named_anchors, slugs)))


def without_heading_ids(text: str) -> tuple[str, tuple[Anchor, ...]]:
    """Remove the ids at the end of headings (``{#id}``) from a Markdown text. Return (new text, anchors).

    The anchors come from all headings and HTML tags, with positions in the new text, so :func:`with_anchors` can add
    them to its outline. If no heading has an id, no anchors are returned.

    >>> without_heading_ids("# Guide\\n## Run it { #run }\\nNow.\\n```\\n# x { #y }\\n```\\n")
    ... # doctest: +NORMALIZE_WHITESPACE
    ('# Guide\\n## Run it\\nNow.\\n```\\n# x { #y }\\n```\\n',
     (Anchor(start=0, name='guide', explicit=False), Anchor(start=8, name='run', explicit=True)))
    """
    structure = outline(text) if _IDS.search(text) else None
    if structure is None or not structure.heading_ids:
        return text, ()
    names = {name for start, end in structure.heading_ids for name in _ID.findall(text, start, end)}
    parts, shifts, before = [], [0], 0
    for start, end in structure.heading_ids:
        parts.append(text[before:start])
        shifts.append(shifts[-1] + end - start)
        before = end
    starts = [start for start, _ in structure.heading_ids]
    anchors = (
        anchor._replace(start=anchor.start - shifts[bisect_right(starts, anchor.start)])
        for anchor in structure.anchors
        if anchor.name in names or not anchor.explicit
    )
    return "".join([*parts, text[before:]]), tuple(anchors)


def find_links(text: str, definitions: Mapping[str, Any] | None = None) -> Iterator[Link]:
    """Yield the Markdown, HTML, wiki and reStructuredText links of a text, ignoring images and code.

    ``definitions`` are link definitions in other parts of the document, as returned by :func:`find_definitions`.

    >>> list(find_links("See [the guide](a.md#use), [[Ada Lovelace|Ada]] and `this <b.rst>`_."))
    ... # doctest: +NORMALIZE_WHITESPACE
    [Link(kind='path', target='a.md#use', label='the guide'),
     Link(kind='wiki', target='Ada Lovelace', label='Ada'), Link(kind='path', target='b.rst', label='this')]
    """
    if not definitions:
        yield from (link for _, link in outline(text).links)
        return
    references = {"references": dict(definitions)}
    yield from (link for _, link in _BlockReader(text, references).outline(headings=False).links)


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
    """Reader of the blocks of one text. Inline markup is parsed only where a link or an anchor may be."""

    def __init__(self, text: str, env: dict[str, Any]) -> None:
        self._text = text
        self._env = env
        self._parser = parser()
        self._headings: list[_Heading] = []
        self._slugs: list[Anchor] = []
        self._named_anchors: list[Anchor] = []
        self._fences: list[tuple[int, int]] = []
        self._links: list[tuple[int, Link]] = []
        self._heading_ids: list[tuple[int, int]] = []
        self._targets: list[Anchor] = []  # anchors from MyST attributes, which belong to the block that follows
        start = front_matter_end(text)
        self._lines = [start, *(match.end() for match in _NEWLINE.finditer(text, start))]

    def blocks(self) -> Iterator[tuple[int, list[Token]]]:
        """Yield (first line, tokens) for parts of the text. A block at the end of a part is in the next part."""
        first = 0
        while first < len(self._lines):
            start = self._offset(first)
            last = max(first + 1, bisect_right(self._lines, start + _AT_ONCE))
            text = self._text[start : self._offset(last)]
            tokens = self._parse(_NEWLINE.sub("\n", text).replace("\0", "\ufffd"))
            tops = [at for at, token in enumerate(tokens) if token.map and token.level == 0]
            if last < len(self._lines) and len(tops) > 1:  # the last block may continue
                last = first + (tokens[tops[-1]].map or [0])[0]
                del tokens[tops[-1] :]
            yield first, tokens
            first = last

    def outline(self, *, headings: bool) -> Outline:
        for line, tokens in self.blocks():
            self._read_tokens(tokens, line)
        links = tuple(sorted(dict.fromkeys(self._links), key=itemgetter(0)))
        fences, ids = tuple(self._fences), tuple(self._heading_ids)
        if not headings:
            return Outline((Section(0, len(self._text)),), None, fences, (), links, ids)
        anchors = tuple(_unique(self._named_anchors, self._slugs))
        if not self._headings:
            return Outline((Section(0, len(self._text)),), None, fences, anchors, links, ids)
        first = self._headings[0]
        title = first.text if first.level == 1 and first.text else None
        sections = tuple(_sections(self._text, self._headings, title))
        return Outline(sections, title, fences, anchors, links, ids)

    def _parse(self, text: str) -> list[Token]:
        tokens: list[Token] = []
        self._parser.block.parse(text, self._parser, self._env, tokens)
        return tokens

    def _read_tokens(self, tokens: Sequence[Token], line: int, depth: int = 0) -> None:
        """Record the headings, anchors, links and code. Only headings outside directives begin sections."""
        for at, token in enumerate(tokens):
            if token.map is None:
                continue
            first = line + token.map[0]
            start, end = self._offset(first), self._offset(line + token.map[1])
            if token.type == "inline":
                self._inline(token.content, first, heading=tokens[at - 1].type == "heading_open")
                continue
            if token.type == "paragraph_open" and (target := _TARGET.fullmatch(tokens[at + 1].content)):
                self._targets.append(Anchor(start, target["name"], explicit=True))
                continue
            if self._targets:
                start = self._targets[0].start
                self._named_anchors += [target._replace(start=start) for target in self._targets]
                self._targets.clear()
            if token.type == "heading_open":
                self._heading(token, tokens[at + 1].content, start, end, section=not depth and token.level == 0)
                self._find_heading_ids(tokens[at + 1].content, first)
            elif token.type == "fence":
                self._fence(token, first, start, end, depth)
            elif token.type == "code_block":
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

    def _heading(self, token: Token, content: str, start: int, body: int, *, section: bool) -> None:
        markup = content[:_LONGEST_HEADING]
        attributes = _ATTRIBUTES.search(markup)
        if attributes:
            markup = markup[: attributes.start()]
        text = _plain_markdown(self._inlines(markup)) if _MARKUP.search(markup) else markup
        text = " ".join(text.split())
        if attributes is None or _IDS.search(attributes[0]) is None:  # otherwise _inline adds the explicit name
            self._slugs.append(Anchor(start, slug(text)))
        if section:
            self._headings.append(_Heading(start, body, int(token.tag[1:]), text))

    def _find_heading_ids(self, content: str, first: int) -> None:
        """Record the attribute list at the end of a heading; other text in braces is ignored."""
        ids = _HEADING_IDS.search(content) if content.endswith("}") else None
        words = ids["attributes"].split() if ids else []
        if ids and any(word[0] == "#" for word in words) and all(map(_ATTRIBUTE.fullmatch, words)):
            start = self._position_mapping(content, first)(ids.start())
            if self._text.startswith(ids[0], start):
                self._heading_ids.append((start, start + len(ids[0])))

    def _fence(self, token: Token, first: int, start: int, end: int, depth: int) -> None:
        directive = _DIRECTIVE.match(token.info)
        name = directive["name"] if directive else ""
        if directive and name in ("include", "literalinclude"):
            self._links.append((start, Link(INCLUDE, directive["argument"].partition(" ")[0])))
        if depth < _MOST_NESTED and (_PROSE.fullmatch(name) or ":" in name):
            self._read_tokens(self._parse(token.content), first + 1, depth + 1)
        elif name == "toctree":
            entries = filter(None, map(_ENTRY.match, token.content.splitlines()))
            links = (Link(PATH, match["target"] or match["plain"], label_of(match["label"] or "")) for match in entries)
            self._links += [(start, link) for link in links]
        else:
            self._fences.append((start, end))

    def _inline(self, content: str, first: int, *, heading: bool) -> None:
        """Record anchors and links. The ids in a heading get the position of the start of line ``first``."""
        if _MAYBE_LINK.search(content) is None:
            return
        place = self._position_mapping(content, first)
        if (target := _TARGET.match(content)) and target.end() < len(content):
            self._named_anchors.append(Anchor(place(0), target["name"], explicit=True))
        for match in _IDS.finditer(content):
            at = self._offset(first) if heading else place(match.start())
            self._named_anchors += [Anchor(at, name, explicit=True) for name in _ID.findall(match[1])]
        for match in _INCLUDE.finditer(content):
            path = next(name for name in match.groups() if name)
            self._links.append((place(match.start()), Link(INCLUDE, path)))
        if "://" in content:
            urls = _URL.finditer(content)
            self._links += [(place(match.start()), Link(PATH, match[0].rstrip(".,;:!?)"))) for match in urls]
        for base in range(0, len(content), _AT_ONCE):
            tokens = self._inlines(content[base : base + _AT_ONCE])
            self._links += [(place(base + at), link) for at, link in _links_in(tokens)]
            for part in tokens:
                if part.type == "html_inline":
                    self._tags(part.content, base + part.meta["at"], place)

    def _inlines(self, content: str) -> list[Token]:
        tokens: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._env, tokens)
        return tokens

    def _tags(self, content: str, base: int, place: Callable[[int], int]) -> None:
        self._links += [
            (place(base + match.start()), Link(PATH, html.unescape(match[1]))) for match in _TAG_LINK.finditer(content)
        ]
        self._named_anchors += [Anchor(place(base + match.start()), match[1]) for match in _TAG_ID.finditer(content)]


def _sections(text: str, headings: Sequence[_Heading], title: str | None) -> Iterator[Section]:
    start, path = 0, list[_Heading]()
    if text[: headings[0].start].strip():
        yield Section(0, headings[0].start)
        start = headings[0].start
    ends = [heading.start for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        path = [above for above in path if above.level < heading.level] + [heading]
        if end < len(text) and not text[heading.body : end].strip():
            continue
        headings_of_section = path[1:] if path[0].text == title else path
        yield Section(start, end, tuple(above.text for above in headings_of_section if above.text))
        start = end


def _unique(named_anchors: Sequence[Anchor], slugs: Sequence[Anchor]) -> Iterator[Anchor]:
    """Yield the anchors in order, without repeated names. Named anchors take precedence over headings (``slugs``)."""
    counts = Counter(anchor.name for anchor in named_anchors)
    slug_counts = Counter(anchor.name for anchor in slugs)
    unique = [anchor for anchor in named_anchors if counts[anchor.name] == 1]
    unique += [
        anchor for anchor in slugs if anchor.name and slug_counts[anchor.name] == 1 and anchor.name not in counts
    ]
    yield from sorted(unique, key=itemgetter(0))


def _plain_markdown(tokens: Iterable[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type == "link":
            parts.append(token.meta["text"])
    return "".join(parts)


def _links_in(tokens: Sequence[Token]) -> Iterator[tuple[int, Link]]:
    depth = 0
    for at, token in enumerate(tokens):
        if token.type == "link":
            yield token.meta["at"], token.meta["link"]
        elif token.type == "link_open":
            depth = at
        elif token.type == "link_close":
            start = tokens[depth]
            yield start.meta["at"], Link(PATH, str(start.attrs["href"]), label_of(_plain_markdown(tokens[depth:at])))
