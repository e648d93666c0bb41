"""The diversity terms by name: the one list that all read, from the command line to `generate`.

A new term is a file beside this one and a line in `TERMS`. Terms are written as text or as a table:

    cumulative                      {"term": "cumulative"}
    cumulative:temperature=2        {"term": "cumulative", "temperature": 2}
    embedding:of=ngram              {"term": "embedding", "of": "ngram"}

Nothing here needs torch until a term's class is looked up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from beamsplit import checks
from beamsplit.errors import ArgumentError
from beamsplit.lazy import import_object

if TYPE_CHECKING:
    from beamsplit.diversity.term import Diversity

__all__ = [
    "TERMS",
    "TermEntry",
    "make_term",
    "needs_word_vectors",
    "quick_terms",
    "read_term",
    "term_class",
    "term_defaults",
    "write_term",
]


@dataclass(frozen=True)
class TermEntry:
    """What there is to know of a term before it is used."""

    home: str | type
    """The class, or the dotted path of its class, which is imported when it is first needed."""
    title: str
    """Its name for people."""
    pays_for: str
    """What raises the penalty of a word, for people."""
    example: str = ""
    """Settings that the web page offers it with, as text."""
    tuned: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The settings that `tune` searches, each with its least and its most; whole numbers stay whole."""
    slow: bool = False
    """Whether `tune` leaves it out unless it is asked for."""


TERMS: dict[str, TermEntry] = {
    "hamming": TermEntry(
        "beamsplit.diversity.hamming.Hamming",
        "Hamming",
        "each earlier beam that says it at the same step",
    ),
    "cumulative": TermEntry(
        "beamsplit.diversity.cumulative.Cumulative",
        "Cumulative",
        "each earlier beam that says it at the same step, less as they drift apart",
        example="temperature=2",
        tuned={"temperature": (0.2, 10.0)},
    ),
    "ngram": TermEntry(
        "beamsplit.diversity.ngram.NGram",
        "Pairs of words",
        "each time an earlier group has it after the same word",
        example="n=2",
        tuned={"n": (1, 4)},
    ),
    "embedding": TermEntry(
        "beamsplit.diversity.embedding.Embedding",
        "Similar words",
        "each earlier beam that says something of similar meaning",
        slow=True,  # where it is strong nearly all tokens pay much, and lists get long
    ),
}

_VECTORS = "vectors"  # a term with this setting is given the model's word vectors
_OF = "of"  # a term with this setting is made of another term


def quick_terms() -> list[str]:
    """Return the names of the terms that are not slow."""
    return [name for name, entry in TERMS.items() if not entry.slow]


def term_class(name: str) -> Any:
    """Return the class of a term."""
    home = TERMS[name].home
    return import_object(home) if isinstance(home, str) else home


def needs_word_vectors(name: str) -> bool:
    """Return whether a term is given the model's word vectors."""
    return _VECTORS in {each.name for each in fields(term_class(name))}


def term_defaults(name: str) -> dict[str, Any]:
    """Return the settings that a term has where none are given, without those that are made for each term."""
    known = _settings(name)
    return {
        each.name: each.default
        for each in fields(term_class(name))
        if each.name in known and each.default is not MISSING
    }


def read_term(term: object, where: str = "diversity", known: Collection[str] | None = None) -> dict[str, Any]:
    """Return the table of a term that is given as text or as a table. Raise if it cannot be made.

    >>> read_term("cumulative:temperature=2")
    {'term': 'cumulative', 'temperature': 2}
    """
    table = _table_of_text(term, where) if isinstance(term, str) else term
    name = table.get("term") if isinstance(table, Mapping) else table
    known = TERMS if known is None else known
    if not isinstance(name, str) or name not in known:
        hint = checks.nearest(str(name), known, f"there are {', '.join(known)}")
        raise ArgumentError(f"{where} is {checks.short_repr(name)}, and there is no such term: {hint}")
    assert isinstance(table, Mapping)
    settings = {key: value for key, value in table.items() if key != "term"}
    _check_settings(name, settings, where)
    return {"term": name, **settings}


def make_term(table: Mapping[str, Any], model: object, where: str = "diversity") -> Diversity:
    """Make the term of a table that `read_term` returned, with the model's `word_vectors` if it needs any."""
    settings = {key: value for key, value in table.items() if key != "term"}
    if needs_word_vectors(table["term"]):
        settings[_VECTORS] = _word_vectors(model, table["term"], where)
    if _OF in settings:
        settings[_OF] = make_term(read_term(settings[_OF]), model, where)
    made: Diversity = term_class(table["term"])(**settings)
    return made


def write_term(table: Mapping[str, Any]) -> str:
    """Return the text of a term that is given as a table.

    >>> write_term({"term": "cumulative", "temperature": 2})
    'cumulative:temperature=2'
    """
    settings = ",".join(f"{key}={_write_value(value)}" for key, value in table.items() if key != "term")
    return f"{table['term']}:{settings}" if settings else str(table["term"])


def _write_value(value: Any) -> str:
    return write_term(value) if isinstance(value, Mapping) else str(value)


def _settings(name: str) -> set[str]:
    """Return the names of the settings that one may give."""
    return {each.name for each in fields(term_class(name)) if each.init} - {_VECTORS}


def _table_of_text(text: str, where: str) -> dict[str, Any]:
    name, _, rest = text.partition(":")
    table: dict[str, Any] = {"term": name}
    for each in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in each.partition("="))
        if not (key and equals and value):
            raise ArgumentError(
                f"{where} is {text!r}: give one such as cumulative, or cumulative:temperature=2"
            )
        if key == "term":
            raise ArgumentError(f"{where} is {text!r}, with a second term: leave it out")
        table[key] = _value(value)
    return table


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_settings(name: str, settings: Mapping[str, Any], where: str) -> None:
    known = _settings(name)
    for key in settings:
        if key not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "leave it out"
            raise ArgumentError(f"{where}: {name} has no setting {key!r}: {checks.nearest(key, known, has)}")
    if _OF in settings:
        read_term(settings[_OF], f"{where}.{_OF}", [each for each in TERMS if not needs_word_vectors(each)])
    elif not needs_word_vectors(name):
        try:
            term_class(name)(**settings)
        except (ArgumentError, TypeError) as error:
            raise ArgumentError(f"{where}: {error}") from error


def _word_vectors(model: object, name: str, where: str) -> Any:
    from beamsplit.model import word_vectors_of

    vectors = word_vectors_of(model)
    if vectors is None:
        raise ArgumentError(
            f"{where} is {name!r}, which needs word vectors, and {type(model).__name__} has no word_vectors: "
            "give another term"
        )
    return vectors
