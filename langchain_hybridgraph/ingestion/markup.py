"""Conversion of HTML and reStructuredText to Markdown."""

import re
import textwrap
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple

from langchain_hybridgraph.ingestion.markdown import outline, urlsplit_scheme


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _tags("area base br col embed hr img input link meta param source track wbr")
_DROPPED = _tags("script style noscript template svg math iframe object select button head nav footer")
_IN_HEAD = _tags("base basefont bgsound link meta noframes noscript script style template title head")
_BLOCKS = _tags(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure form "
    "header hr html legend li main ol p pre section summary table tbody tfoot thead tr ul h1 h2 h3 h4 h5 h6"
)
_ROWS = frozenset(["li", "tr", "dt", "dd"])
_HEADING_OR_ITEM = re.compile(r"#{1,6} |- ")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACES = re.compile(r"\s+")
# html.parser takes quadratic time for unclosed comments and declarations, and raises errors for some of them.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_OPEN = re.compile(r"<(?=[^<>]*(?:<|\Z)|[!?])")
_BLANK_LINES = re.compile(r" ?\n\s*\n")


class MarkdownText(NamedTuple):
    """Converted text and its title, which may be ""."""

    text: str
    title: str


def from_html(html: str) -> MarkdownText:
    """Convert a page to Markdown that keeps only headings, lists, preformatted text and relative links as markup.

    The title is the ``<title>`` of the page, or its first heading of level 1.

    >>> from_html("<title>T</title><h2>A</h2><p>See <a href='b.html'>B</a> &amp; C.<script>x</script>")
    MarkdownText(text='## A\\n\\nSee [B](b.html) & C.', title='T')
    """
    html = _OPEN.sub("&lt;", _DECLARATION.sub("", _COMMENT.sub("", html)))
    parser = _HTMLReader(html, _DROPPED)
    if parser.dropping not in ([], ["head"]):
        # If an element whose content is left out was never closed, the rest of the page may be missing.
        parser = _HTMLReader(html, frozenset(["script", "style", "head"]))
    text = _BLANK_LINES.sub("\n\n", "".join(parser.parts)).strip()
    return MarkdownText(text, _SPACES.sub(" ", parser.title).strip() or parser.first_heading)


class _HTMLReader(HTMLParser):
    def __init__(self, html: str, dropped: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self.first_heading = ""
        self._dropped = dropped
        self.dropping: list[str] = []  # open elements that are left out
        self._in_title = False
        self._in_pre = 0
        self._pre_start = 0
        self._cell: int | None = None  # start of the last cell of a table
        self._links: list[tuple[int, str]] = []  # start of each open link's text, and its target
        self._heading: int | None = None  # start of the heading's text
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title and self.dropping in ([], ["head"]):
            self._in_title = True
        if self.dropping[:1] == ["head"] and (tag == "body" or (len(self.dropping) == 1 and tag not in _IN_HEAD)):
            self.dropping = []
        is_headerlink = tag == "a" and "headerlink" in (dict(attrs).get("class") or "")
        is_dropped = tag in self._dropped or is_headerlink
        if self.dropping or is_dropped:
            is_outermost = is_dropped and self.dropping in ([], ["head"])
            if tag not in _VOID and (is_outermost or tag == self.dropping[-1]):
                self.dropping.append(tag)
            return
        if tag in ("td", "th", "tr", "table"):
            self._close_cell()
        if tag in _BLOCKS:
            self._break(tag)
        self._open(tag, dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self.dropping:
            if tag == self.dropping[-1]:
                self.dropping.pop()
            return
        if tag in _HEADINGS and self._heading is not None:
            heading = _SPACES.sub(" ", "".join(self.parts[self._heading :])).strip()
            self.parts[self._heading :] = [heading]
            if tag == "h1" and not self.first_heading:
                self.first_heading = heading
            start, self._heading = self._heading, None
            if self._links:  # a link around the heading
                self._close_link(start, self._links.pop()[1])
                self._links.append((start, ""))
        elif tag == "a" and self._links:
            self._close_link(*self._links.pop())
        elif tag == "pre" and self._in_pre:
            self._in_pre -= 1
            if not self._in_pre:
                self.parts[self._pre_start :] = [_fenced("".join(self.parts[self._pre_start + 1 :])), "\n\n"]
        if tag in ("tr", "table"):
            self._close_cell()
        elif tag in ("li", "ol", "ul") and self.parts[-1:] == ["- "]:
            self.parts.pop()  # an empty item
        if tag in _BLOCKS:
            self._break(tag)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif self.dropping:
            return
        elif self._in_pre:
            self.parts.append(data)
        else:
            text = _SPACES.sub(" ", data)
            # Space at the start of a line, an item or a cell belongs to the layout of the source.
            text = text.lstrip() if not self.parts or self.parts[-1][-1:].isspace() else text
            self.parts.extend([text] if text else [])

    def _break(self, tag: str) -> None:
        after_bullet = bool(self.parts) and self.parts[-1] == "- "
        if self._heading is not None or after_bullet or (self._in_pre and tag == "pre"):
            return
        if tag not in _ROWS:
            self.parts.append("\n\n")
        elif not self.parts or not self.parts[-1].endswith("\n"):
            self.parts.append("\n")

    def _open(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag in _HEADINGS:
            self.parts.append("#" * _HEADINGS[tag] + " ")
            self._heading = len(self.parts)
        elif tag == "br":
            self.parts.append("\n" if self._heading is None else " ")
        elif tag == "li":
            self.parts.append("- ")
        elif tag in ("td", "th"):
            if self.parts and not self.parts[-1].endswith("\n"):
                self.parts.append(" | ")
            self._cell = len(self.parts)
        elif tag == "pre" and self._heading is None:
            if not self._in_pre:
                self._pre_start = len(self.parts)
                self.parts.append("```\n")
            self._in_pre += 1
        elif tag == "a":
            self._links.append((len(self.parts), attributes.get("href") or ""))

    def _close_cell(self) -> None:
        """Keep the last cell in the line of its row, if it is one paragraph."""
        cell = "".join(self.parts[self._cell :]).strip() if self._cell is not None else "\n"
        if "\n" not in cell and not _HEADING_OR_ITEM.match(cell):
            self.parts[self._cell :] = [cell] if cell else []
        self._cell = None

    def _close_link(self, start: int, target: str) -> None:
        is_elsewhere = not target or urlsplit_scheme(target) or target.startswith("//")
        if is_elsewhere or self._in_pre or self._heading is not None:
            return
        label = _SPACES.sub(" ", "".join(self.parts[start:]))
        if label.strip() and "[" not in label and "]" not in label:
            target = target.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
            space = " " if label.startswith(" ") else ""
            self.parts[start:] = [f"{space}[{label.strip()}]({target})", " " if label.endswith(" ") else ""]


def _fenced(code: str) -> str:
    """Return code as a block, with a fence that is longer than those in the code."""
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", code))])
    return f"{fence}\n{code}\n{fence}"


# -- reStructuredText ------------------------------------------------------------------------------------------------

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*")
_DIRECTIVE = re.compile(r"\.\. +(?:\|[^|]+\| +)?(?P<domain>(?:[\w.+-]+:)*)(?P<name>[\w.+-]+)::(?:\s+(?P<argument>.*))?")
_OPTION = re.compile(r"\s+:(?P<name>[\w-]+):(?:\s|$)")
_FOOTNOTE = re.compile(r"\.\. (\[[^\]]+\] .*)")
_CHANGES = {"versionadded": "Added in", "versionchanged": "Changed in", "deprecated": "Deprecated since"}
_SHOWN_OPTIONS = _tags("alt caption default header type value")
_SUBSTITUTION = re.compile(r"^\.\. \|([^|\n]+)\| replace:: (.+)$", re.MULTILINE)
_WITHOUT_ARGUMENT = _tags("container cssclass figure only rst-class")
_CODE = _tags("code code-block sourcecode parsed-literal doctest testcode ipython productionlist")
_WITHOUT_TEXT = _tags(
    "image contents highlight index raw meta tabularcolumns sectionauthor moduleauthor default-role role testsetup "
    "testcleanup testoutput graphviz replace unicode module automodule currentmodule program toctree include "
    "literalinclude"
)
# Roles are replaced by their text, and links to documents by links in Markdown.
_INLINE = (
    (re.compile(r"(?<!`):(?!doc:)[a-z:+-]{1,40}:`[~!]?([^`<>]{1,500}?)(?:\s*<[^`<>]{1,500}>)?`"), r"\1"),
    (re.compile(r"(?::doc:)?(?<!`)`([^`<>]{0,500}?)\s{0,99}<([^`<>\s]{1,2000})>`_{0,2}"), r"[\1](\2)"),
    (re.compile(r":doc:`([^`<>]{1,500})`"), r"[\1](\1)"),
)


def from_rst(source: str) -> MarkdownText:
    """Convert the titles, code and links of reStructuredText to Markdown.

    Levels of headings follow the order in which the adornments first appear. Directives are replaced by their argument
    and content; comments, images and most options are dropped.

    >>> from_rst("Guide\\n=====\\n\\nSee :ref:`install` or run::\\n\\n   make\\n")
    MarkdownText(text='# Guide\\n\\nSee install or run:\\n\\n```\\nmake\\n```', title='Guide')
    """
    lines = source.expandtabs().splitlines()
    levels: dict[str, int] = {}
    parts: list[str] = []
    at = 0
    while at < len(lines):
        line, indent = _rst_inline(lines[at].strip()), _indent(lines[at])
        title, style, end = _rst_title(lines, at)
        directive = _DIRECTIVE.fullmatch(line)
        name = directive["name"] if directive else ""
        at += 1
        if title:
            level = levels.setdefault(style, len(levels) + 1)
            parts += ["", "#" * min(level, 6) + " " + _rst_inline(title), ""]
            at = end
        elif directive and name not in _CODE and (name not in _WITHOUT_TEXT or directive["domain"] == "rst:"):
            options, at = _rst_options(lines, at)
            argument = "" if name in _WITHOUT_ARGUMENT else directive["argument"] or ""
            parts += ["", f"{_CHANGES.get(name, '')} {argument}".strip(), "", *options, ""]
        elif footnote := _FOOTNOTE.fullmatch(line):
            parts.append(footnote[1])
        elif line == ".." or line.startswith(".. ") or line.endswith("::"):
            options, at = _rst_options(lines, at) if directive else ([], at)
            start = at
            while at < len(lines) and (not lines[at].strip() or _indent(lines[at]) > indent):
                at += 1
            block = lines[start:at]
            if not line.startswith(".."):
                parts.append(line[:-1] if line != "::" else "")
            if any(block) and (name in _CODE or not line.startswith("..")):
                parts += ["", *options, "", _fenced(textwrap.dedent("\n".join(block)).strip("\n")), ""]
        else:
            parts.append(line)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()
    if substitutions := dict(_SUBSTITUTION.findall(source)):
        text = re.sub(r"\|([^|\n]{1,99})\|", lambda match: substitutions.get(match[1], match[0]), text)
    return MarkdownText(text, outline(text).title or "")


def _rst_options(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """Return the options of a directive that readers see, and the number of the line after all of its options."""
    visible = []
    while at < len(lines) and (option := _OPTION.match(lines[at])):
        value, indent = [lines[at][option.end() :].strip()], _indent(lines[at])
        at += 1
        while at < len(lines) and lines[at].strip() and _indent(lines[at]) > indent:
            value.append(lines[at].strip())
            at += 1
        if option["name"] in _SHOWN_OPTIONS:
            visible += [f"{option['name']}: {_rst_inline(' '.join(value))}", ""]
    return visible, at


def _rst_inline(line: str) -> str:
    for pattern, replacement in _INLINE:
        line = pattern.sub(replacement, line)
    return line


def _rst_title(lines: Sequence[str], at: int) -> tuple[str, str, int]:
    """Return (title, style, number of the line after it), with the title "" if no title starts at this line."""
    line, after, third = (lines[n].rstrip() if n < len(lines) else "" for n in (at, at + 1, at + 2))
    title = after.strip()
    if _ADORNMENT.fullmatch(line) and title and third == line and len(line) >= len(title):
        return title, line[0] * 2, at + 3
    is_text = bool(line) and not line[0].isspace() and not _ADORNMENT.fullmatch(line)
    starts_block = at == 0 or not lines[at - 1].strip()
    if is_text and starts_block and _ADORNMENT.fullmatch(after) and len(after) >= len(line):
        return line, after[0], at + 2
    return "", "", at


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
