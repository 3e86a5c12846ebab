"""Names mentioned in a text."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.text.analyzer import function_words
from langchain_hybridgraph.text.names import MOST_WORDS, read, text_words, words_of


def names(*texts):
    """Return the names in all texts of one document, without repeats."""
    return list(dict.fromkeys(name.text for reading in read(texts) for name in reading.names))


# -- capitals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "She met Charles Babbage, Mary Somerville and the mathematician Augustus Morgan in London.",
            ["Charles Babbage", "Mary Somerville", "Augustus Morgan", "London"],
        ),
        ("We went to London and Paris.", ["London", "Paris"]),
        ("It was directed by Nathan H. Juran.", ["Nathan H. Juran", "Nathan Juran"]),
        ("It was won by General Douglas MacArthur.", ["General Douglas MacArthur", "Douglas MacArthur"]),
        ("He was a screenwriter.Films were shown in the U.S. Army.", ["U.S. Army"]),
        ("We saw Schindler's List once.", ["Schindler's List", "Schindler", "List"]),
        # Function words that begin a sentence are not part of a name, in several languages.
        ("In London it was the same for him.", ["London"]),
        ("Der Dichter Goethe war da. Im Weimar der Zeit und mit ihm.", ["Dichter Goethe", "Weimar", "Zeit"]),
        ("En Madrid no hay nada para los niños.", ["Madrid"]),
        ("It was the song of The Beatles in the end.", ["The Beatles", "Beatles"]),
        ("We met Juan of the de la Cruz.", ["Juan", "Cruz"]),
        ("He was in the U.S. The car was green.", ["U.S"]),
        # The first word of a sentence, months, weekdays, numbers, headings and quotations in lower case are not names.
        ("Dogs bark. Loud ones bite. Nobody cares.", []),
        ("It was on Monday, June 17, 1843, and in 1844 again, and it cost 12 to 15.", []),
        (" ".join(["Word"] * (MOST_WORDS + 1)), []),
        ('this is "a so-called word" here', []),
    ],
)
def test_names_of_a_text(text, expected):
    """Runs of capitalised words are names, also without a middle initial or title; other capitals are not."""
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("He left the University of Copenhagen early.", "University of Copenhagen"),
        ("We read the Lord of the Rings there.", "Lord of the Rings"),
        ("Ayer llegó Juan de la Cruz a casa.", "Juan de la Cruz"),
        ("Gisteren sprak Vincent van Gogh met haar.", "Vincent van Gogh"),
        ("They quote Jean-Paul Sartre often.", "Jean-Paul Sartre"),
        ("They quote Patrick O'Brien often.", "Patrick O'Brien"),
        ("We flew with Apollo 11 then.", "Apollo 11"),
        ("We use the iPhone now.", "iPhone"),
        ("This is Johnson & Johnson again.", "Johnson & Johnson"),
        ("We met J. K. Rowling there.", "J. K. Rowling"),
        ("We saw St. Louis once.", "St. Louis"),
        (" ".join(["Word"] * MOST_WORDS), " ".join(["Word"] * MOST_WORDS)),
    ],
)
def test_words_inside_names(text, name):
    """Names may contain small words, hyphens, apostrophes, initials, abbreviations and numbers."""
    assert names(text)[0] == name


def test_the_parts_of_a_long_name_are_names_too():
    """The words on either side of "of" are names, too, with less weight than the full name."""
    (reading,) = read(["He left the University of Arkansas early."])
    assert dict(reading.names) == {"University of Arkansas": 0.8, "University": 0.4, "Arkansas": 0.4}


# -- capitals that mean nothing ----------------------------------------------------------------------------------------


def test_the_first_word_is_a_name_if_the_document_has_it_inside_a_sentence():
    """The first word of a sentence is a name if any chunk of the document has it capitalised inside a sentence."""
    assert names("Lovelace wrote it.", "It was Lovelace.") == ["Lovelace"]
    assert names("Lovelace wrote it.", "It was she.") == []


def test_german_nouns_have_little_weight():
    """In a language that capitalises nouns, a single capitalised word gets little weight and several words get the
    usual one.
    """
    (reading,) = read(["Die Stadt und der Fluss sind nicht mit Karl Friedrich Gauß verbunden."])
    weights = {name.text: name.weight for name in reading.names}
    assert weights["Fluss"] == 0.2
    assert weights["Karl Friedrich Gauß"] == 0.8


# -- quotation marks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('the film "Why is there air?" was late', "Why is there air"),
        ("der Film „Das Boot im See“ kam spät", "Das Boot im See"),
        ("la novela «Cien años de soledad» es larga", "Cien años de soledad"),
        ("他写了《红楼梦》一书。", "红楼梦"),
        ("彼は『吾輩は猫である』を書いた。", "吾輩は猫である"),
    ],
)
def test_a_quoted_title_is_a_name(text, name):
    """A quotation that does not start in lower case is a name, in any script."""
    assert name in names(text)


# -- normal forms ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café Müller", "CAFE MULLER"),
        ("Ada’s", "Ada"),
        ("U.S.", "US"),
        ("J. K. Rowling", "J.K. Rowling"),
        ("Jean-Paul", "Jean Paul"),
        ("ﬁnance", "Finance"),
        ("Straße", "STRASSE"),
        ("القاهرة", "والقاهرة"),
        ("أحمد", "احمد"),
        ("東京・大学", "東京大学"),
        ("हिन्दी", "हिन्दी।"),
        ("Αθήνα", "ΑΘΗΝΑ"),
    ],
)
def test_spellings_of_one_name(one, other):
    """Case, accents, punctuation, possessives and Arabic prefixes do not change a name."""
    assert words_of(one) == words_of(other)


def test_words_between_sentences():
    """The words of a text have an empty word between sentences, so no title can extend over the end of a sentence."""
    assert text_words("It is in Paris. Texas is far") == ["", "it", "is", "in", "paris", "", "texas", "is", "far"]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    """Every name in any text contains a letter or digit, and no word contains a space."""
    (reading,) = read([text])
    assert all(words_of(name.text) and 0 < name.weight <= 1 for name in reading.names)
    assert not any(" " in word for word in reading.words)


def test_the_language_does_not_depend_on_the_order_of_words():
    """If two languages have the same number of words, the order of the words does not matter."""
    words = ["na", "de", "la", "en", "o", "i", "der", "het", "og"]
    for one, other in combinations(words, 2):
        assert function_words([one, other]) == function_words([other, one]), (one, other)


def test_the_language_is_determined_by_function_words():
    """Function words determine the language; without function words the language is unknown."""
    assert "the" in function_words(["the", "engine", "of", "the", "house"]).articles
    assert function_words(["der", "wagen", "und", "die", "kinder"]).capital_nouns
    for word in ("welche", "welcher", "welches", "welchem", "welchen"):
        assert function_words([word, "auto"]).capital_nouns
    assert not function_words(["数", "据"]).words
