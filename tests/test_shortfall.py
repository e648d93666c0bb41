"""Lists that fall short of what was asked know it, and say so wherever they are shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit import (
    BeamSearch,
    DiverseBeamSearch,
    DivMBest,
    Hypotheses,
    Hypothesis,
    LateBranching,
    Results,
    Strategy,
    decode,
    reorder,
    select,
)
from beamsplit.comparison import compare_lists
from beamsplit.decoding import groups, steps
from beamsplit.errors import ArgumentError
from beamsplit.recording import Recording, record
from beamsplit.strategies.names import STRATEGIES
from beamsplit.strategies.spec import StrategySpec, Widths
from beamsplit.testing import MarkovModel

SHORT, REPEATED, FULL = ("I see.", "Oh."), ("I see.", "Oh.", "I see."), ("I see.", "Oh.", "No.")


class Words(MarkovModel):
    def to_text(self, tokens: tuple[int, ...]) -> str:
        return " ".join("abc"[token] for token in tokens)


def model() -> MarkovModel:
    """Three tokens, none of which is an end: there are 3 outputs of one token, and 9 of two."""
    return MarkovModel(torch.tensor([[5.0, 4.0, 3.0]]).expand(3, 3))


def saying(*texts: str, asked: int | None = 3) -> Hypotheses:
    return Hypotheses(
        [Hypothesis((place, 2), -1.0 - place, -1.0 - place, text=text) for place, text in enumerate(texts)],
        asked=asked,
    )


@pytest.mark.parametrize(
    ("strategy", "options", "count", "asked"),
    [
        (LateBranching(outputs=6), {}, 3, 6),
        (LateBranching(outputs=3), {}, 3, 3),
        (BeamSearch(beams=5), {}, 3, 5),
        (DiverseBeamSearch(groups=4, strength=0.5), {"unique": True}, 3, 4),
        (DiverseBeamSearch(groups=2, beams_per_group=2, strength=9.0), {"return_per_group": 1}, 2, 2),
        (DiverseBeamSearch(groups=2, strength=9.0, schedule="staggered"), {}, 2, 2),
        (DivMBest(runs=5, beams=2, strength=0.0), {"unique": True}, 2, 5),
    ],
)
def test_a_list_knows_how_many_outputs_were_asked_for(
    strategy: Strategy, options: dict[str, Any], count: int, asked: int
) -> None:
    (found, other) = decode(model(), [0, 1], strategy, max_length=1, **options)
    assert (len(found), found.asked, found.missing, found.repeats) == (count, asked, asked - count, 0)
    assert (other.asked, other.missing) == (asked, asked - count)


@pytest.mark.parametrize(
    "strategy", [LateBranching(outputs=4), BeamSearch(beams=4), DivMBest(runs=4, beams=2)]
)
def test_so_does_an_empty_list(strategy: Strategy) -> None:
    """The only token is an end, which may not come yet."""
    (found,) = decode(MarkovModel(torch.zeros(1, 1)), [0], strategy, max_length=3, min_length=3, end=0)
    assert (len(found), found.asked, found.missing) == (0, 4, 4)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("per_group", [None, 1])
def test_a_strategy_by_its_name_asks_for_as_many(name: str, per_group: int | None) -> None:
    """The commands and experiments know the number by the name and its settings."""
    guided = Words(torch.tensor([[5.0, 4.0, 3.0]]).expand(3, 3))
    guided.language_model = guided  # type: ignore[attr-defined]
    spec = StrategySpec.of_widths(
        name,
        Widths(groups=3, beams_per_group=2, strength=0.5, diversity="hamming"),
        return_per_group=per_group,
    )
    (found,) = decode(spec.guide(guided), [0], spec.make(guided), max_length=4, **spec.decode_options)
    assert found.asked == spec.asked == (3 if per_group else 6)


def test_every_step_and_every_group_knows_it() -> None:
    for strategy in (LateBranching(outputs=6), BeamSearch(beams=6), DivMBest(runs=6, beams=2)):
        assert {step.hypotheses[0].asked for step in steps(model(), [0], strategy, max_length=3)} == {6}
    wide = DiverseBeamSearch(groups=2, beams_per_group=4, strength=0.5)
    following = groups(model(), [0], wide, max_length=1)
    assert [(len(found), found.asked) for (found,), _ in zip(following, range(4), strict=False)] == [
        (3, 4)
    ] * 4


def test_more_groups_ask_for_more() -> None:
    wide = DiverseBeamSearch(groups=2, beams_per_group=4, strength=0.5)
    found = decode(model(), [0], wide, max_length=1, resumable=True)
    assert found[0].asked == 8
    assert found.more(model(), 2)[0].asked == 16


def test_it_is_kept_where_the_list_stays_the_same() -> None:
    found = saying(*REPEATED, asked=4)
    kept = (
        found.distinct(),
        found.with_text(str),
        found.sorted_by([1.0, 2.0, 3.0]),
        reorder(found, "mbr"),
        pickle.loads(pickle.dumps(found)),
    )
    assert [each.asked for each in kept] == [4] * len(kept)
    assert found.distinct().missing == 2
    assert found == saying(*REPEATED, asked=None)  # lists are equal if their outputs are


def test_a_part_of_a_list_is_what_was_cut_and_not_short() -> None:
    found = saying(*FULL, asked=6)
    assert (found[:2].asked, found.only([0]).asked) == (None, None)
    assert (found[:2].missing, found.only([0]).missing) == (0, 0)


def test_choosing_asks_for_a_number_of_its_own() -> None:
    found = saying(*REPEATED, asked=30)
    assert (select(found, 2).asked, select(found, 2).missing) == (2, 0)
    short = select(found, 3, unique=True)
    assert (short.asked, short.missing) == (3, 1)


def test_a_list_says_so_where_it_is_shown() -> None:
    def heads(*texts: str) -> tuple[str, str]:
        found = saying(*texts)
        return repr(found).splitlines()[0], repr(Results([found])).splitlines()[1]

    assert heads(*FULL) == ("Hypotheses: 3 outputs", "  0: 3 outputs, best -1.00 'I see.'")
    assert heads(*SHORT) == (
        "Hypotheses: 2 outputs of the 3 asked for",
        "  0: 2 outputs of the 3 asked for, best -1.00 'I see.'",
    )
    assert heads(*REPEATED) == (
        "Hypotheses: 3 outputs, 2 of them different",
        "  0: 3 outputs, 2 of them different, best -1.00 'I see.'",
    )
    assert heads() == ("Hypotheses: 0 outputs of the 3 asked for", "  0: 0 outputs of the 3 asked for")


def test_a_notebook_says_so_under_the_table() -> None:
    assert saying(*SHORT)._repr_html_().endswith("</table><p>2 outputs of the 3 asked for</p>")
    assert saying(*REPEATED)._repr_html_().endswith("</table><p>3 outputs, 2 of them different</p>")
    assert saying(*FULL)._repr_html_().endswith("</table>")


def test_nothing_is_said_of_a_list_that_nobody_asked_for() -> None:
    assert repr(saying(*REPEATED, asked=None)).startswith("Hypotheses: 3 outputs\n")
    assert saying(asked=None).missing == 0


def test_json_is_what_it_was_and_is_read_with_the_number() -> None:
    found = saying(*SHORT)
    assert found.to_json() == saying(*SHORT, asked=None).to_json()
    assert Hypotheses.from_json(found.to_json()).asked is None
    assert Hypotheses.from_json(found.to_json(), asked=3).missing == 1
    with pytest.raises(ArgumentError, match="asked is '3'"):
        Hypotheses.from_json(found.to_json(), asked="3")  # type: ignore[arg-type]


def test_a_recording_keeps_it_and_older_ones_are_read() -> None:
    (made,) = record(model(), [0], LateBranching(outputs=6), max_length=1)
    assert Recording.from_json(made.to_json()).hypotheses.asked == 6
    older = made.to_json().replace('"asked": 6, ', "")
    assert older != made.to_json()
    assert Recording.from_json(older).hypotheses.asked is None


def test_lists_side_by_side_know_it() -> None:
    short, full = compare_lists([("a", saying(*REPEATED)), ("b", saying(*FULL))])
    assert (short.as_dict()["asked"], short.hypotheses.missing, short.repeats) == (3, 1, 1)
    assert (full.as_dict()["asked"], full.hypotheses.missing, full.repeats) == (3, 0, 0)


def test_models_of_ours_know_it() -> None:
    translator = beamsplit.models.load("en-fr")
    found = translator.translate("I see.", DiverseBeamSearch(groups=3, strength=0.0))
    assert (len(found), found.asked) == (1, 3)
    assert repr(found).startswith("Hypotheses: 1 output of the 3 asked for\n")
