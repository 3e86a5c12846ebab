"""BM25 by Tantivy, on disk or in memory."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from langchain_hybridgraph.errors import HybridGraphError, ReadOnlyError, StoreError, StoreLockedError
from langchain_hybridgraph.execution.processes import ordered_map
from langchain_hybridgraph.stores.bm25 import Field, KeywordIndex, Question, Term, idf
from langchain_hybridgraph.stores.row_table import UNPACKED, RowNumbers
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import AROUND, FEW, compounds, name_of

if TYPE_CHECKING:
    import tantivy

    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.stores.bm25 import IndexedText, Rows, Scores


_BROKEN_FILE = re.compile(r'(?:kind: (?:InvalidData|UnexpectedEof)|FileDoesNotExist).*?(\w+\.\w+)"')


@contextlib.contextmanager
def tantivy_errors(what: str) -> Iterator[None]:
    """Convert exceptions of Tantivy, including panics (BaseException), to StoreError.

    If another writer holds Tantivy's lock, the error is StoreLockedError.
    """
    try:
        yield
    except HybridGraphError:
        raise
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            wrapper = StoreLockedError if "LockBusy" in str(error) else StoreError
            file = _BROKEN_FILE.search(str(error))
            raise wrapper(f"{what}: {f'the file {file[1]} is damaged or missing' if file else error}") from error
        raise


_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")


def link_files(original: Path, folder: Path) -> None:
    """Add links to the new files of an index without write permission to a folder in which Tantivy can lock it."""
    for file in original.iterdir():
        if file.name not in _LOCKS and not (folder / file.name).is_symlink():
            (folder / file.name).symlink_to(file.resolve())


def best_rows(
    searcher: tantivy.Searcher,
    query: tantivy.Query,
    n: int,
    fetch: int,
    allowed_rows: Mask | None,
    *,
    numbers: RowNumbers = UNPACKED,
) -> list[tuple[int, float]]:
    """Return the ``n`` best allowed rows with their scores, best first, ties by row.

    It searches for ``fetch`` hits, then for more, until all rows that tie with the last are included.
    """
    while True:
        fetch = max(1, min(fetch, searcher.num_docs))
        rows, scores = ranked_rows(searcher, query, fetch)
        worst = scores[-1] if len(scores) else 0.0
        is_all = len(rows) < fetch or fetch == searcher.num_docs
        if allowed_rows is not None:
            is_allowed = numbers.are_allowed(rows, allowed_rows)
            rows, scores = rows[is_allowed], scores[is_allowed]
        if is_all or (len(rows) >= n and scores[n - 1] > worst):
            break
        fetch *= 4
    order = np.lexsort((rows, -scores))[:n]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def ranked_rows(searcher: tantivy.Searcher, query: tantivy.Query, n: int) -> tuple[Rows, Scores]:
    """Return the rows of the ``n`` best hits and their scores, best first."""
    hits: list[tuple[Any, tantivy.DocAddress]] = searcher.search(query, n, count=False).hits
    scores, addresses = zip(*hits, strict=True) if hits else ((), ())
    rows = searcher.fast_field_values("row", list(addresses))
    return np.array(rows, dtype=np.int64), np.array(scores, dtype=np.float64)


_ANALYZED = 1_000  # number of texts analysed in one batch
_CACHE_SIZE = 1 << 18  # runs of characters between spaces
_LONGEST_CACHED = 64  # a longer run, such as a sentence without spaces, is not worth caching
_STEMS = "stems"  # name of the tokenizer
_WITH_EMPTY_STEMS = ("arabic", "greek")  # languages in which the stems of a few words are empty
_MARK_ROW = -1
_FOOTER_MAGIC = 1337
_CHECKED = (".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term")  # files of a segment, each with a footer


def _listed_files(folder: Path) -> set[str]:
    """Return the names of the files of the last commit; others are left over from earlier or interrupted ones."""
    names = set()
    for segment in json.loads((folder / "meta.json").read_bytes())["segments"]:
        stem, deletes = segment["segment_id"].replace("-", ""), segment["deletes"]
        names |= {f"{stem}{suffix}" for suffix in _CHECKED}
        if deletes is not None:
            names.add(f"{stem}.{deletes['opstamp']}.del")
    return names


def _is_intact(path: Path) -> bool:
    """Return whether a file has the CRC-32 in its footer: JSON, its length and a number that marks a footer."""
    try:
        raw = np.memmap(path, np.uint8, mode="r")
        length, magic = struct.unpack("<II", raw[-8:].tobytes())
        footer = json.loads(raw[-8 - length : -8].tobytes())
        return bool(magic == _FOOTER_MAGIC and footer["crc"] == zlib.crc32(raw[: -8 - length].data))
    except FileNotFoundError:  # another process has merged it into another file
        return True
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return False


def schema() -> tantivy.Schema:
    """Return the schema of the index."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("row", indexed=True, fast=True)
    # Words, joined by spaces. Tantivy reduces them to stems while Python prepares the next texts.
    for field in ("text", "headings"):
        builder.add_text_field(field, tokenizer_name=_STEMS, index_option="freq")
    for field in ("compounds", "name"):
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="basic")
    builder.add_boolean_field("mark", indexed=True)  # True for the one document that has the next two fields
    builder.add_integer_field("version", stored=True)
    builder.add_text_field("analysis", stored=True, tokenizer_name="raw", index_option="basic")
    return builder.build()


def register_stemmer(index: tantivy.Index, language: str) -> None:
    """Register the tokenizer of the schema. Without it, a writer of the index fails."""
    import tantivy

    tokenizer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    if Analyzer(language).stems:
        tokenizer = tokenizer.filter(tantivy.Filter.stemmer(language))
        if language in _WITH_EMPTY_STEMS:
            tokenizer = tokenizer.filter(tantivy.Filter.custom_stopword([""]))
    index.register_tokenizer(_STEMS, tokenizer.build())


def analyze(language: str, texts: Sequence[IndexedText]) -> list[dict[str, Any]]:
    """Return the fields of each text that are not empty, as words that are not stemmed."""
    split = _splitter(language)
    documents: list[dict[str, Any]] = []
    for row, text, *headings in texts:
        words, forms = split(text)
        fields = {
            "text": words,
            "headings": split("".join(headings))[0] if any(headings) else "",
            "compounds": forms,
            "name": name_of(text),
        }
        documents.append({"row": int(row), "mark": False, **{name: value for name, value in fields.items() if value}})
    return documents


_WORD = re.compile(f"[{re.escape(AROUND)}]{{0,9}}(?:[A-Za-z][a-z]{{1,99}}|[a-z])[{re.escape(AROUND)}]{{0,9}}")
_NOTHING = re.compile("(?!)")


class _Splitter:
    """Splits texts into words and compounds as ``Analyzer`` and ``compounds`` do, but faster.

    Runs of ASCII letters and punctuation need no analysis; the others are analysed once each.
    """

    def __init__(self, language: str) -> None:
        self.analyzer = Analyzer(language)
        self._is_word = _WORD.fullmatch if self.analyzer.is_plain("word") else _NOTHING.fullmatch
        self._plain: set[str] = set()
        self._forms: dict[str, tuple[str | None, str]] = {}

    def __call__(self, text: str) -> tuple[str, str]:
        """Return the words that are not stemmed yet and the distinct compounds of a text, each joined by spaces."""
        runs = text.split()
        forms = {run: self._forms.get(run) or self._read(run) for run in set(runs) - self._plain}
        words = {run: words for run, (words, _) in forms.items() if words is not None}
        if words:
            text = " ".join([run for run in runs if run not in words])
        others = [words[run] for run in runs if run in words] if words else []
        return " ".join([self.analyzer.ascii_words(text), *others]), " ".join([forms for _, forms in forms.values()])

    def _read(self, run: str) -> tuple[str | None, str]:
        """Return the words of a run, or None if they need no analysis, and its compounds."""
        if len(self._plain) + len(self._forms) >= _CACHE_SIZE:
            self._plain, self._forms = set(), {}
        if self._is_word(run):  # nearly all runs
            self._plain.add(run)
            return None, ""
        terms = None if self.analyzer.is_plain(run) else self.analyzer.unstemmed_words(run), " ".join(compounds(run))
        if terms == (None, ""):
            self._plain.add(run)
        elif len(run) <= _LONGEST_CACHED:
            self._forms[run] = terms
        return terms


_splitter = functools.cache(_Splitter)


# Heap sizes in bytes. One thread indexes while Python analyses texts; more threads are not faster. With the large heap,
# 64,000 texts take 5 s of processor time and give one segment; with 15 MB, they give eleven segments. A writer is
# opened for each call to apply, and opening takes 5 ms with the small heap but 30 with the large one, so the small heap
# is used for few texts.
_HEAP, _SMALL_HEAP = 50_000_000, 15_000_000
_FEW_TEXTS = 2_000
_THREADS = 1

_ROW_COST = 8  # a row in a query takes as long (1.7 µs) as this number of hits of an unlimited search
# Maximum number of texts fetched for a term before disallowed rows are dropped. Terms with a larger document frequency,
# which includes removed texts until Tantivy merges their segment, are skipped.
_MOST_POSTINGS = 8 * FEW
_MOST_QUESTIONS = 32  # number of questions whose statistics are cached, for searches at the same time
_MOST_FREQUENCIES = 1 << 16  # number of document frequencies that are cached
_TERMS_PER_SEARCH = 20  # a 32-bit float holds 24 bits
_SPARE = 16  # number of extra hits fetched; they make a second search for ties with the last hit rare


class TantivyIndex(KeywordIndex):
    """:class:`~langchain_hybridgraph.stores.bm25.KeywordIndex` in a folder, or in memory if ``path`` is None.

    With ``writable``, :meth:`apply` is allowed and a missing index is created. Any number of processes may read while
    one writes; they see its commits after :meth:`reload`.

    Scores are Robertson's BM25 with k1 1.2, b .75 and the idf ln(1 + (N − d + .5)/(d + .5)), never negative, for a word
    in d of N texts. A repeated word in a question counts twice; only the 128 most informative words of a very long one
    are used. Scores depend on neither the number of results nor ``allowed_rows``. They are inexact: lengths over 40
    words are rounded down by up to a ninth, and removed rows count in N and d until a merge.

    Raises StoreError if there is no index and none may be created, if it cannot be opened, or for another language.

    >>> index = TantivyIndex(None)
    >>> index.apply(1, [(0, "Ada wrote the first program"), (1, "Charles built engines")], [])
    >>> [row for row, score in index.search("who built the engine?", 10)]
    [1]
    """

    quick_rows = 200_000  # a search takes 0.2 ms with 63,666 chunks, 0.9 ms with 400,000

    def __init__(self, path: Path | None = None, language: str | None = "english", *, writable: bool = False) -> None:
        super().__init__(language)
        self._path = path
        self._writable = writable or path is None
        self._mirror: tempfile.TemporaryDirectory[str] | None = None
        self._writing, self._reloading = threading.Lock(), threading.Lock()
        self._searcher: tantivy.Searcher | None = None
        with tantivy_errors(f"cannot open the keyword index {path}"):
            self._schema = schema()
            self._index = self._open()
            register_stemmer(self._index, self.analyzer.language)
            # Otherwise, a thread of Tantivy would reload the index at each commit. It may still do so once, just after
            # opening, even if the index was closed in the meantime; this only creates an empty .tantivy-meta.lock.
            self._index.config_reader("manual")
        self.reload()

    @override
    def question(self, text: str) -> Question:
        self._open_searcher()
        with tantivy_errors("the keyword search failed"):
            return self._question(text)

    @override
    def search(
        self, text: str, n: int, allowed_rows: Mask | None = None, numbers: RowNumbers = UNPACKED
    ) -> list[tuple[int, float]]:
        question, searcher = self.question(text), self._open_searcher()
        with tantivy_errors("the keyword search failed"):
            query = self._query_of(question)
            if query is None or n < 1:
                return []
            fetch = n + _SPARE
            if allowed_rows is not None:
                admitted = int(np.count_nonzero(allowed_rows))
                if admitted < len(allowed_rows):
                    fetch = math.ceil(1.25 * n * len(allowed_rows) / max(1, admitted)) + _SPARE
                if _ROW_COST * admitted <= fetch:
                    query = self._among(query, numbers.of(np.flatnonzero(allowed_rows)).tolist())
                    fetch, allowed_rows = admitted + 1, None
            return best_rows(searcher, query, n, fetch, allowed_rows, numbers=numbers)

    @override
    def scores(self, text: str, rows: Sequence[int], *, headings: bool = True) -> dict[int, float]:
        question, searcher = self.question(text), self._open_searcher()
        with tantivy_errors("the keyword scores failed"):
            query = self._query_of(question, headings=headings)
            row_set = set(map(int, rows))
            if query is None or not row_set:
                return {}
            if _ROW_COST * len(row_set) <= searcher.num_docs:
                hit_rows, scores = ranked_rows(searcher, self._among(query, row_set), len(row_set))
                return dict(zip(hit_rows.tolist(), scores.tolist(), strict=True))
            hit_rows, scores = ranked_rows(searcher, query, searcher.num_docs)
            every = zip(hit_rows.tolist(), scores.tolist(), strict=True)
            return {row: score for row, score in every if row in row_set}

    def postings(self, terms: Sequence[Term]) -> dict[Term, list[int]]:
        """Return the rows of each rare term; up to 20 share one search, in which the i-th scores 2^i."""
        import tantivy

        with tantivy_errors("the search for identifiers failed"):
            searcher = self._open_searcher()
            few = [term for term in dict.fromkeys(terms) if 0 < self._frequency(*term) <= _MOST_POSTINGS]
            postings: dict[Term, list[int]] = {}
            for start in range(0, len(few), _TERMS_PER_SEARCH):
                batch = few[start : start + _TERMS_PER_SEARCH]
                bits = []
                for place, (field, word) in enumerate(batch):
                    option = "freq" if field == "text" else "basic"
                    query = tantivy.Query.term_query(self._schema, field, word, option)
                    bits.append((tantivy.Occur.Should, tantivy.Query.const_score_query(query, float(1 << place))))
                most = sum(self._frequency(*term) for term in batch)
                rows, scores = ranked_rows(searcher, tantivy.Query.boolean_query(bits), most)
                for place, term in enumerate(batch):
                    postings[term] = rows[scores.astype(np.int64) >> place & 1 == 1].tolist()
            return postings

    def apply(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        """Raise ReadOnlyError if the index is not writable, and StoreLockedError while something else writes to it."""
        if not self._writable:
            raise ReadOnlyError(
                f"the keyword index {self._path} is open for reading only: open it for writing, if the folder's "
                "permissions allow it"
            )
        with self._writing:
            self._commit(version, add, remove)
            self.reload()

    def __len__(self) -> int:
        return max(0, int(self._open_searcher().num_docs) - (1 if self.applied_version else 0))

    @override
    def rows(self) -> set[int]:
        import tantivy

        with tantivy_errors("the keyword index cannot be read"):
            searcher = self._open_searcher()
            texts = tantivy.Query.term_query(self._schema, "mark", False)
            return set(ranked_rows(searcher, texts, max(1, searcher.num_docs))[0].tolist())

    @override
    def damaged_files(self) -> list[str]:
        if self._path is None:
            return []
        try:
            names = _listed_files(self._path)
        except (OSError, ValueError, LookupError, TypeError):
            return ["meta.json"]
        return [name for name in sorted(names) if not _is_intact(self._path / name)]

    @override
    def reload(self) -> None:
        # Otherwise, a slow thread could put an older searcher next to the version of a newer one.
        with self._reloading, tantivy_errors(f"cannot read the keyword index {self._path}"):
            if self._mirror is not None:
                assert self._path is not None
                link_files(self._path, Path(self._mirror.name))
            self._index.reload()
            searcher = self._index.searcher()
            self.applied_version = self._read_mark(searcher)
            texts = searcher.doc_freq("mark", False) + searcher.doc_freq("mark", True)
            # Each document frequency is looked up once per commit.
            self._frequency = frequency = functools.lru_cache(_MOST_FREQUENCIES)(searcher.doc_freq)
            read = partial(Question, analyzer=self.analyzer, texts=texts, frequency=frequency, idf=partial(idf, texts))
            self._question = functools.lru_cache(_MOST_QUESTIONS)(read)
            self._searcher = searcher

    @override
    def close(self) -> None:
        with self._writing:
            self._searcher = None
            if self._mirror is not None:
                self._mirror.cleanup()

    def _open(self) -> tantivy.Index:
        import tantivy

        if self._path is None:
            return tantivy.Index(self._schema)
        if self._writable:
            self._path.mkdir(parents=True, exist_ok=True)
        is_locked_out = not os.access(self._path, os.W_OK)
        self._writable = self._writable and not is_locked_out
        if not self._writable and not (self._path / "meta.json").exists():
            raise StoreError(f"there is no keyword index in {self._path}; opening it for writing creates one")
        if is_locked_out:
            self._mirror = tempfile.TemporaryDirectory(prefix="hybridgraph-")
            link_files(self._path, Path(self._mirror.name))
        return tantivy.Index(self._schema, self._mirror.name if self._mirror else str(self._path))

    def _open_searcher(self) -> tantivy.Searcher:
        if self._searcher is None:
            raise StoreError(f"the keyword index {self._path or 'in memory'} is closed")
        return self._searcher

    def _query_of(self, question: Question, *, headings: bool = True) -> tantivy.Query | None:
        """Return the query (built from objects, never parsed) for texts and headings, or None without known words."""
        import tantivy

        # Tantivy adds 32-bit scores in the order of the clauses. As this order is fixed, equal texts have equal scores
        # for any n. (This holds since Tantivy 0.27; with 0.26, the last digit of one score in 150 differs.)
        weights: dict[Field, float] = {"text": 1.0, "headings": question.headings_weight} if headings else {"text": 1.0}
        clauses = []
        for field, weight in weights.items():
            weights_of_terms = question.information[field]
            for term, count in question.terms:
                if term in weights_of_terms:
                    query = tantivy.Query.term_query(self._schema, field, term, "freq")
                    if count * weight != 1:
                        query = tantivy.Query.boost_query(query, float(count * weight))
                    clauses.append((tantivy.Occur.Should, query))
        return tantivy.Query.boolean_query(clauses) if clauses else None

    def _among(self, query: tantivy.Query, rows: Iterable[int]) -> tantivy.Query:
        """Return the query restricted to these rows, with unchanged scores."""
        import tantivy

        # A set query for the same rows takes more than twice as long.
        must, should, term_query = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Query.term_query
        among = tantivy.Query.boolean_query([(should, term_query(self._schema, "row", row)) for row in rows])
        return tantivy.Query.boolean_query([(must, tantivy.Query.const_score_query(among, 0.0)), (must, query)])

    def _commit(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        import tantivy

        writing = partial(tantivy_errors, f"cannot write to the keyword index {self._path or 'in memory'}")
        document = partial(tantivy.Document.from_dict, schema=self._schema)
        texts = iter(add)
        batches = iter(lambda: list(islice(texts, _ANALYZED)), [])
        documents = chain.from_iterable(ordered_map(partial(analyze, self.analyzer.language), batches))
        first = list(islice(documents, _FEW_TEXTS + 1))
        with writing():
            writer = self._index.writer(_SMALL_HEAP if len(first) <= _FEW_TEXTS else _HEAP, _THREADS)
        # The writer is closed even if this call fails: otherwise its lock would block other processes, its threads
        # would die in a fork, and an aborted batch would be part of the next commit.
        try:
            with writing():
                self._delete_leftovers()
                for row in remove:
                    writer.delete_documents_by_term("row", int(row))
            # A new index in memory has no rows to replace, and each deletion would make it a ninth slower.
            last = -1 if self._path is None and not self.applied_version else math.inf
            for fields in chain(first, documents):
                with writing():
                    if fields["row"] <= last:
                        writer.delete_documents_by_term("row", fields["row"])
                    writer.add_document(document(fields))
                last = max(last, fields["row"])
            with writing():
                writer.delete_documents_by_term("mark", True)
                mark = {"row": _MARK_ROW, "mark": True, "version": version, "analysis": self.analyzer.name}
                writer.add_document(document(mark))
                writer.commit()
        except BaseException:
            with contextlib.suppress(StoreError):  # a failed writer raises the same error again
                self._close_writer(writer)
            raise
        self._close_writer(writer)
        if self._path is not None:
            # Let readers of the folder read Tantivy's lists of files, which it creates for the owner alone.
            with contextlib.suppress(OSError):
                may_read = self._path.stat().st_mode & 0o444
                for name in ("meta.json", ".managed.json"):
                    (self._path / name).chmod(0o600 | may_read)

    def _delete_leftovers(self) -> None:
        """Delete files of earlier commits, and of a killed process, which would make the next commit fail.

        Tantivy deletes only files that this process knows, so those of other writers would accumulate.
        """
        if self._path is not None:
            listed_files = _listed_files(self._path)
            for file in self._path.glob("[0-9a-f]" * 32 + ".*"):
                if file.name not in listed_files:
                    file.unlink(missing_ok=True)

    def _close_writer(self, writer: tantivy.IndexWriter) -> None:
        """Wait for the writer's merges, discard uncommitted changes, and close the writer."""
        with tantivy_errors(f"cannot close the writer of the keyword index {self._path or 'in memory'}"):
            writer.wait_merging_threads()  # releases the lock, even if it fails

    def _read_mark(self, searcher: tantivy.Searcher) -> int:
        import tantivy

        marks = searcher.search(tantivy.Query.term_query(self._schema, "mark", True), 1, count=False).hits
        if not marks:
            return 0
        mark = searcher.doc(marks[0][1])
        analysis = mark.get_first("analysis")
        if analysis != self.analyzer.name:
            raise StoreError(
                f"the keyword index {self._path} contains words analysed as {analysis!r}, not as "
                f"{self.analyzer.name!r}: open it with its own language, or rebuild it from the texts"
            )
        return int(str(mark.get_first("version")))
