"""Methods as experiments write them: settings that vary together, files of lists, and what is refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import pytest
import torch

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    Embedding,
    Hypotheses,
    Hypothesis,
    NGram,
)
from beamsplit.cli import program
from beamsplit.diversity.names import TERMS, term_class
from beamsplit.evaluation.methods import SIMILARITIES, Method, Saved, Selection, read_methods
from beamsplit.models import Captioner, PictureSizes
from beamsplit.models.text import Vocabulary
from beamsplit.ordering import SELECTIONS
from beamsplit.strategies.names import STRATEGIES
from evaluation.small import figures_of, numbers, write_numbers

DIVERSE = {"strategy": "dbs", "groups": 2}


def made(**table: Any) -> list[Method]:
    """The methods that one table stands for."""
    return [each for each in read_methods({"M": table}, "it") if isinstance(each, Method)]


def captioner() -> Captioner:
    return Captioner(Vocabulary(["a", "cat", "dog"]), PictureSizes(features=2, embedding=4, hidden=4))


# What varies


def test_lists_are_gone_through_side_by_side() -> None:
    found = made(strategy="dbs", strength=0.3, vary={"groups": [1, 2, 4], "beams_per_group": [4, 2, 1]})
    assert [each.name for each in found] == ["M groups=1", "M groups=2", "M groups=4"]
    assert [each.spec.make(numbers()) for each in found] == [
        DiverseBeamSearch(groups=1, beams_per_group=4, strength=0.3),
        DiverseBeamSearch(groups=2, beams_per_group=2, strength=0.3),
        DiverseBeamSearch(groups=4, beams_per_group=1, strength=0.3),
    ]
    assert {each.family for each in found} == {"M"}
    assert [each.varied for each in found] == [
        {"groups": 1, "beams_per_group": 4},
        {"groups": 2, "beams_per_group": 2},
        {"groups": 4, "beams_per_group": 1},
    ]


def test_what_varies_goes_before_what_is_the_same_for_all() -> None:
    (only,) = made(**DIVERSE, strength=0.3, vary={"strength": [0.7]})
    assert only.spec.make(numbers()) == DiverseBeamSearch(groups=2, strength=0.7)


def test_a_method_that_varies_nothing_is_of_no_family() -> None:
    (only,) = made(**DIVERSE)
    assert (only.name, only.family, only.varied) == ("M", "", {})


def test_results_tell_what_varied(tmp_path: Path) -> None:
    tables = {"BS": {"strategy": "bs", "beams": 2}, "DBS": {**DIVERSE, "vary": {"strength": [0.5, 1]}}}
    content = {"task": write_numbers(tmp_path), "model": "mine", "max_length": 2, "methods": tables}
    found = figures_of(tmp_path, {**content, "lists": ["unique"]}, numbers())["methods"]
    assert list(found) == ["BS", "DBS strength=0.5", "DBS strength=1"]
    assert (found["BS"]["family"], found["BS"]["varied"]) == ("", {})
    assert found["DBS strength=1"] == {
        "strategy": "dbs",
        "settings": {"groups": 2, "strength": 1},
        "diversity": None,
        "mmi": None,
        "family": "DBS",
        "varied": {"strength": 1},
    }


def test_tables_of_mmi_may_vary() -> None:
    found = made(strategy="bs", beams=2, vary={"mmi": [{"strength": 0.1}, {"strength": 0.2, "first": 3}]})
    assert [each.name for each in found] == ["M strength=0.1", "M strength=0.2 first=3"]
    assert [each.spec.mmi for each in found] == [{"strength": 0.1}, {"strength": 0.2, "first": 3}]
    assert [each.spec.settings for each in found] == [{"beams": 2}] * 2
    assert all(isinstance(each.spec.guide(captioner()), AntiLanguageModel) for each in found)


def test_terms_may_vary() -> None:
    found = made(**DIVERSE, vary={"diversity": ["ngram", {"term": "cumulative", "temperature": 2.0}]})
    assert [each.name for each in found] == ["M diversity=ngram", "M term=cumulative temperature=2.0"]
    strategies = [each.spec.make(numbers()) for each in found]
    assert strategies == [
        DiverseBeamSearch(groups=2, diversity=term) for term in (NGram(), Cumulative(temperature=2.0))
    ]


def test_where_the_first_setting_does_not_tell_them_apart_all_are_named() -> None:
    found = made(strategy="dbs", vary={"groups": [2, 2, 4], "strength": [0.1, 0.2, 0.1]})
    assert [each.name for each in found] == [
        "M groups=2 strength=0.1",
        "M groups=2 strength=0.2",
        "M groups=4 strength=0.1",
    ]


# Options


def test_the_same_output_comes_once_if_asked_so(tmp_path: Path) -> None:
    # Of one token, three can be said, and 32 samples say each of them.
    samples = {"strategy": "sampling", "samples": 32}
    tables = {"all": samples, "each": {**samples, "unique": True}}
    content = {"task": write_numbers(tmp_path), "model": "mine", "max_length": 1, "methods": tables}
    found = figures_of(tmp_path, {**content, "lists": ["unique"], "show": 1}, numbers())
    assert found["figures"]["unique"]["each"]["value"] == 1.0
    assert found["figures"]["unique"]["all"]["value"] == pytest.approx(3 / 32)
    (shown,) = found["examples"]
    assert sorted(line["text"] for line in shown["lists"]["each"]) == ["0", "1", "2"]


def test_a_description_says_unique_only_if_so() -> None:
    # Caches know methods by their descriptions, and know those from before.
    assert "unique" not in made(strategy="bs", beams=2, unique=False)[0].description
    assert made(strategy="bs", beams=2, unique=True)[0].description["unique"] is True


def test_a_description_says_a_temperature_of_the_model_only_if_there_is_one() -> None:
    assert "model_temperature" not in made(strategy="bs", beams=2, model_temperature=1.0)[0].description
    found = made(strategy="bs", beams=2, vary={"model_temperature": [1.5, 2.0]})
    assert [each.name for each in found] == ["M model_temperature=1.5", "M model_temperature=2.0"]
    assert [each.description["model_temperature"] for each in found] == [1.5, 2.0]


def test_a_method_may_have_a_temperature_of_the_model(tmp_path: Path) -> None:
    """Its lists are those of a stronger penalty, if each group has one beam."""
    tables = {
        "plain": {**DIVERSE, "beams_per_group": 1, "strength": 0.3},
        "soft": {**DIVERSE, "beams_per_group": 1, "strength": 0.3, "model_temperature": 8.0},
        "strong": {**DIVERSE, "beams_per_group": 1, "strength": 2.4},
    }
    content = {"task": write_numbers(tmp_path), "model": "mine", "max_length": 3, "methods": tables}
    found = figures_of(tmp_path, {**content, "lists": ["unique"], "show": 3}, numbers())
    lists = {name: [each["lists"][name] for each in found["examples"]] for name in tables}
    texts = {name: [[line["text"] for line in each] for each in of] for name, of in lists.items()}
    assert texts["soft"] == texts["strong"] != texts["plain"]


def test_settings_of_the_evaluation_are_not_given_to_the_strategy() -> None:
    (only,) = made(strategy="bs", beams=2, unique=True, mmi={"strength": 0.1})
    assert only.spec.make(numbers()) == BeamSearch(beams=2)


def test_what_the_embedding_is_of_may_be_a_table() -> None:
    (only,) = made(**DIVERSE, diversity={"term": "embedding", "of": {"term": "ngram", "n": 3}})
    model = captioner()
    term = only.spec.make(model).diversity  # type: ignore[attr-defined]
    assert isinstance(term, Embedding)
    assert term.of == NGram(n=3)
    assert torch.equal(term.vectors, model.word_vectors)


def test_lists_in_a_file_are_looked_for_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "lists.jsonl").touch()
    (only,) = read_methods({"theirs": {"file": "lists.jsonl"}}, "it", tmp_path)
    assert only == Saved(name="theirs", file=tmp_path / "lists.jsonl")
    assert only.description == {"file": str(tmp_path / "lists.jsonl")}


def test_lists_that_are_not_in_the_folder_are_in_the_current_one(tmp_path: Path) -> None:
    (tmp_path / "lists.jsonl").mkdir()  # which is no file of lists
    (only,) = read_methods({"theirs": {"file": "lists.jsonl"}}, "it", tmp_path)
    assert only == Saved(name="theirs", file=Path("lists.jsonl"))


# Refused

HERE = "methods.M in it"
TABLE = "must be a table with a strength, such as { strength = 0.3 }"
LISTS = "must be lists by setting, such as { strength = [0.2, 0.5] }"
REFUSED: list[tuple[dict[str, Any], str]] = [
    (
        {**DIVERSE, "vary": {"strength": [0.1, 0.2], "groups": [2, 4, 8]}},
        f"{HERE}: vary has lists of 2 and 3 values: they must be of one length",
    ),
    ({**DIVERSE, "vary": {"strength": 0.5}}, f"{HERE}: vary {LISTS}"),
    ({**DIVERSE, "vary": {"strength": []}}, f"{HERE}: vary {LISTS}"),
    ({**DIVERSE, "vary": [0.5]}, f"{HERE}: vary {LISTS}"),
    ({**DIVERSE, "vary": {}}, f"{HERE}: vary {LISTS}"),
    (
        {**DIVERSE, "vary": {"strenght": [0.5]}},
        f"{HERE}: vary has a key 'strenght': did you mean 'strength'?",
    ),
    ({**DIVERSE, "vary": {"groups": [2, 0]}}, f"{HERE}: groups must be a whole number of at least 1, not 0"),
    ({"strategy": "bs", "beams": 2, "vary": {"mmi": [0.1]}}, f"{HERE}: mmi {TABLE}"),
    (
        {**DIVERSE, "vary": {"strength": [0.5, 0.5]}},
        "methods in it has 'M strength=0.5' twice: give each a name of its own",
    ),
    ({"strategy": "bs", "beams": 2, "mmi": 0.3}, f"{HERE}: mmi {TABLE}"),
    ({"strategy": "bs", "beams": 2, "mmi": {"first": 3}}, f"{HERE}: mmi {TABLE}"),
    (
        {"strategy": "bs", "beams": 2, "mmi": {"strength": 0.3, "frist": 3}},
        f"{HERE}: mmi has a key 'frist': did you mean 'first'?",
    ),
    (
        {"strategy": "bs", "beams": 2, "mmi": {"strength": 0.3, "language_model": 3}},
        f"{HERE}: mmi has a key 'language_model': known are first, strength",
    ),
    (
        {"strategy": "bs", "beams": 2, "mmi": {"strength": -1}},
        f"{HERE}: mmi: strength must be a finite number of 0 or more, not -1",
    ),
    ({"strategy": "bs", "beams": 2, "unique": 1}, f"{HERE}: unique must be true or false, not 1"),
    (
        {"strategy": "bs", "beams": 2, "model_temperature": 0},
        f"{HERE}: model_temperature must be a finite number above 0, not 0",
    ),
    (
        {"strategy": "stochastic", "beams": 2, "model_temperature": 2},
        f"{HERE}: stochastic draws the model's own samples, which model_temperature=2 would change: leave it "
        "out, or use sampling",
    ),
    ({"strategy": "greedy"}, f"{HERE}: there is no strategy 'greedy': there are {', '.join(STRATEGIES)}"),
    ({"strategy": ["bs"]}, f"{HERE}: there is no strategy ['bs']: there are {', '.join(STRATEGIES)}"),
    (
        {"strategy": "greedy", "vary": {"strength": [0.5]}},
        f"{HERE}: there is no strategy 'greedy': there are {', '.join(STRATEGIES)}",
    ),
    ({}, f"{HERE} has no 'strategy': give one of {', '.join(STRATEGIES)}; or a 'file' of lists"),
    ({"file": 3}, f"{HERE} has no path under 'file': give that of a file of lists"),
    ({"file": "a", "strategy": "bs"}, f"{HERE} has a key 'strategy': known are file"),
    # What files said before.
    ({"kind": "beam", "beams": 2}, f'{HERE} has kind = "beam": write strategy = "bs"'),
    ({"kind": "diverse", "groups": 2}, f'{HERE} has kind = "diverse": write strategy = "dbs"'),
    ({"kind": "siblings", "beams": 2}, f'{HERE} has kind = "siblings": write strategy = "siblings"'),
    (
        {"kind": "lists", "file": "a"},
        f"{HERE} has kind = \"lists\": leave it out, since a 'file' is enough",
    ),
    (
        {**DIVERSE, "diversity": {"term": "embedding", "of": "haming"}},
        f"{HERE}: diversity.of is 'haming', and there is no such term: did you mean 'hamming'?",
    ),
    (
        {**DIVERSE, "diversity": {"term": "embedding", "of": {"term": "ngram", "m": 2}}},
        f"{HERE}: diversity.of: ngram has no setting 'm': it has n",
    ),
    (
        {**DIVERSE, "diversity": {"term": "embedding", "of": "embedding"}},
        f"{HERE}: diversity.of is 'embedding', and there is no such term: "
        "there are hamming, cumulative, ngram",
    ),
    (
        {**DIVERSE, "diversity": {"term": "embedding", "vectors": []}},
        f"{HERE}: diversity: embedding has no setting 'vectors': it has of",
    ),
    (
        {**DIVERSE, "diversity": ["hamming"]},
        f"{HERE}: diversity is ['hamming'], and there is no such term: did you mean 'hamming'?",
    ),
    (
        {**DIVERSE, "diversity": {"term": "ngram", "n": 0}},
        f"{HERE}: diversity: n must be a whole number of at least 1, not 0",
    ),
]


@pytest.mark.parametrize(("table", "message"), REFUSED)
def test_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        read_methods({"M": table}, "it")
    assert str(caught.value) == message


@pytest.mark.parametrize("term", TERMS)
def test_all_terms_can_be_named(term: str) -> None:
    (only,) = made(**DIVERSE, diversity=term)
    assert type(only.spec.make(captioner()).diversity) is term_class(term)  # type: ignore[attr-defined]


# Choosing


def test_of_a_longer_list_some_are_chosen(tmp_path: Path) -> None:
    content: dict[str, Any] = {
        "task": write_numbers(tmp_path),
        "model": "numbers",
        "lists": ["unique", "length"],
        "max_length": 3,
        "methods": {
            "BS 8": {"strategy": "bs", "beams": 8},
            "some": {
                "strategy": "bs",
                "beams": 8,
                "vary": {"select": [{"count": 3, "by": "mbr"}, {"count": 5}]},
            },
        },
    }
    found = figures_of(tmp_path, content, numbers())
    assert found["lengths"] == {
        "BS 8": {"fewest": 8, "most": 8},
        "some count=3 by=mbr": {"fewest": 3, "most": 3},
        "some count=5": {"fewest": 5, "most": 5},
    }
    about = found["methods"]["some count=5"]
    assert about["select"] == {
        "count": 5,
        "by": "diverse-mbr",
        "diversity": 0.5,
        "similarity": "words",
        "unique": True,
    }
    assert found["widths"] == {"BS 8": 8, "some count=3 by=mbr": 8, "some count=5": 8}  # the model's cost
    del content["methods"]["some"]
    assert "widths" not in figures_of(tmp_path, content, numbers())


def test_what_is_chosen_is_in_the_order_of_the_list_and_no_text_comes_twice() -> None:
    texts = [("b c", -1.0), ("b c", -1.5), ("x", -2.0), ("b d", -3.0)]
    found = Hypotheses([Hypothesis((i,), p, p, text=text) for i, (text, p) in enumerate(texts)])
    for by in SELECTIONS:
        assert Selection(count=9, by=by).of_list(found).texts == ("b c", "x", "b d")
    assert Selection(count=9, unique=False).of_list(found) == found
    assert len(Selection(count=2, similarity="vectors").of_list(found)) == 2


def test_methods_that_choose_share_the_lists_of_the_search() -> None:
    plain, chosen = made(**DIVERSE)[0], made(**DIVERSE, select={"count": 2})[0]
    assert plain.spec == chosen.spec
    assert chosen.description == plain.description | {"select": asdict(Selection(count=2))}


@pytest.mark.parametrize(
    ("select", "line"),
    [
        (2, 'select must be a table such as { count = 20, by = "dpp" }'),
        ({"by": "dpp"}, 'select must be a table such as { count = 20, by = "dpp" }'),
        ({"count": 2, "bye": "dpp"}, "select has a key 'bye': did you mean 'by'?"),
        ({"count": 0}, "select: count must be a whole number of at least 1, not 0"),
        ({"count": 2, "by": "dppp"}, "select: there is no selection 'dppp': did you mean 'dpp'?"),
        ({"count": 2, "diversity": 7}, "select: diversity is 7: give a number from 0"),
        ({"count": 2, "unique": 1}, "select: unique must be True or False, not 1"),
        (
            {"count": 2, "similarity": "letters"},
            "select: there is no similarity 'letters': there are words, ",
        ),
    ],
)
def test_mistakes_in_a_choice(select: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        made(**DIVERSE, select=select)
    assert str(raised.value).startswith(f"methods.M in it: {line}")


def test_the_command_line_has_the_same_similarities() -> None:
    [option] = [each for each in program.commands["select"].params if each.name == "similarity"]
    assert isinstance(option, click.Option)
    assert all(name in str(option.help) for name in SIMILARITIES)
