"""Text analysis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.text.analyzer import LANGUAGES, Analyzer, language_name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Engines running quickly", ["engin", "run", "quick"]),
        ("don't Ada's we'll Ada’s", ["don", "ada", "we", "ada"]),
        ("C++ and C#", ["c", "and", "c"]),
        ("snake_case_name", ["snake", "case", "name"]),
        ("os.path.join", ["os", "path", "join"]),
        ("TextSplitter", ["textsplitt", "text", "splitter"]),
        ("XMLHttpRequest", ["xmlhttprequest", "xml", "http", "request"]),
        ("URLs iPhone SaaS", ["url", "iphon", "saa"]),
        ("\x00a\x00b\n", ["a", "b"]),
        ("a\ud800b", ["a", "b"]),
        ("❤️ 1️⃣", ["1"]),
        ("", []),
        ("?!*()\"'", []),
    ],
)
def test_english_words(text, words):
    """Text is split into stems of runs of letters and digits, and identifiers also into their parts."""
    assert Analyzer("english").all_words(text) == words


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("数据库", ["数", "据", "库", "数据", "据库"]),
        ("犬とネコ", ["犬", "と", "ネ", "コ", "犬と", "とネ", "ネコ"]),
        ("한국어", ["한", "국", "어", "한국", "국어"]),
        ("รถไฟ", ["รถ", "ถไ", "ไฟ"]),
        ("ก", ["ก"]),
        ("ใช้Python3กับ数", ["ใช้", "python3", "กับ", "数"]),
    ],
)
def test_scripts_without_spaces_are_split_into_characters_and_pairs(language, text, words):
    """Han, kana and Hangul give single characters and pairs; Thai gives pairs of letters with their marks."""
    got = Analyzer(language).all_words(text)
    assert [word for word in got if not word.startswith("python")] == [w for w in words if w != "python3"]


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("english", "cafe\u0301s", "CAFÉS"),
        ("french", "Œuvre", "oeuvre"),
        ("german", "Straße", "Strasse"),
        ("german", "Häuser", "Haus"),
        ("polish fallback", "Łódź", "lodz"),
        ("turkish", "IŞIK", "ışık"),
        ("english", "İstanbul", "Istanbul"),
        ("russian", "ёлка", "елка"),
        ("arabic", "كِتَاب", "كتاب"),
        ("hindi", "हिन्दी", "हिन्दी"),
        ("none", "ＡＢＣ１", "abc1"),
        ("none", "co\u00adoperate", "cooperate"),
        ("none", "ﬁle", "file"),
    ],
)
def test_spellings_of_one_word(language, one, other):
    """Spellings that differ in case, accents, ligatures, width or Unicode composition give the same word."""
    analyzer = Analyzer("none" if "fallback" in language else language)
    assert analyzer.all_words(one) == analyzer.all_words(other)
    assert len(analyzer.all_words(one)) == 1


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [("vietnamese", "má", "ma"), ("none", "край", "краи"), ("hindi", "की", "का"), ("none", "running", "run")],
)
def test_different_words_stay_different(language, one, other):
    """Vietnamese tones, й and Hindi vowel signs distinguish words, as do endings if there is no stemmer."""
    analyzer = Analyzer(language)
    assert analyzer.all_words(one) != analyzer.all_words(other)


def test_questions_omit_stop_words():
    """Stop words are left out of a question unless there are only stop words; other words keep their repetitions."""
    assert Analyzer("english").words("What is the engine of an engine?") == ["engin", "engin"]
    assert Analyzer("english").words("To be or not to be") == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize(
    ("language", "stop_word"), [("german", "welche"), ("french", "quelle"), ("russian", "какой"), ("spanish", "donde")]
)
def test_stop_words_of_other_languages(language, stop_word):
    """Stop words of German, French, Russian and Spanish are left out of questions."""
    assert Analyzer(language).words(f"{stop_word} 1848") == ["1848"]


def test_overlong_words_are_truncated():
    """A very long run of letters is one word, truncated to 128 characters, not thousands of parts."""
    assert [len(word) for word in Analyzer("none").all_words("aBcDeFgHiJkLmNoP" * 10_000)] == [128]


@pytest.mark.parametrize(
    ("spec", "name"),
    [("en", "english"), ("pt_BR", "portuguese"), (" German ", "german"), (None, "none"), ("zh-Hant", "chinese")],
)
def test_language_names(spec, name):
    """A language can be given by name or ISO code, with or without a region, in any case; None means "none"."""
    assert language_name(spec) == name


def test_the_error_of_an_unknown_language_lists_the_languages():
    """The error for an unknown language contains its name and the accepted names."""
    with pytest.raises(ConfigurationError, match=r"'klingon'.*english.*german.*'none'"):
        Analyzer("klingon")
    with pytest.raises(ConfigurationError, match="'germn' is not known; did you mean 'german'"):
        Analyzer("germn")


@given(st.text(), st.sampled_from(LANGUAGES))
def test_any_text_has_words_without_spaces(text, language):
    """Any text can be analyzed, words are non-empty and have no spaces, and the words of a question are a subset of
    them.
    """
    analyzer = Analyzer(language)
    words = analyzer.all_words(text)
    assert all(word and word.split() == [word] for word in words)
    assert set(analyzer.words(text)) <= set(words)
    assert bool(analyzer.words(text)) == bool(words)


@given(st.text(st.characters(codec="ascii")))
def test_the_ascii_shortcut_gives_the_same_words(text):
    """The fast path for ASCII text gives the same words as the general one."""
    analyzer = Analyzer("english")
    assert analyzer.all_words(text) == analyzer.all_words(text + " é")[:-1]
