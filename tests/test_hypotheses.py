"""Lists of outputs as values: slices, equality, files, and how they are shown."""

from __future__ import annotations

import asyncio
import copy
import html
import json
import pickle
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch, FunctionModel, Hypotheses, Hypothesis, Results
from beamsplit.errors import ArgumentError
from beamsplit.hypotheses import blank_sign, text_of
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import load


def said(*texts: str | None, group: int = 0) -> Hypotheses:
    return Hypotheses(
        Hypothesis((7, i), -1.0 - i, -1.0 - i, group, text=text) for i, text in enumerate(texts)
    )


def model() -> FunctionModel:
    """Prefers low tokens, whatever came before; 3 is the end."""
    logits = torch.tensor([3.0, 2.0, 1.0, 2.5])
    return FunctionModel(lambda tokens, state: (logits.expand(len(tokens), 4), state), start=0)


DECODED: dict[str, Any] = {"max_length": 3, "end": 3}
INPUTS = torch.zeros(3, 1)
OUTPUT = '<td style="text-align: left; white-space: pre-wrap">'


# A list of hypotheses


def test_a_slice_is_a_list_of_hypotheses() -> None:
    (found,) = beamsplit.decode(model(), INPUTS[:1], DiverseBeamSearch(groups=3), **DECODED)
    assert type(found[:2]) is Hypotheses
    assert list(found[:2]) == [found[0], found[1]]
    assert found[:2].best is found.best
    assert found[:] == found
    assert found[:1] != found[1:2]
    assert hash(found[:]) == hash(found)


def test_a_slice_keeps_the_ranks_of_equals() -> None:
    equals = [Hypothesis((token,), -1.0, -1.0) for token in range(3)]
    found = Hypotheses.ordered(equals, ranks=[2, 1, 0])
    assert [h.tokens for h in found.groups[0]] == [(2,), (1,), (0,)]
    assert [h.tokens for h in found[:2].groups[0]] == [(1,), (0,)]
    assert [h.tokens for h in found[::-1].groups[0]] == [(2,), (1,), (0,)]


def test_a_list_is_shown_a_line_each() -> None:
    found = Hypotheses(
        [
            Hypothesis((4, 2), -1.234, -1.0, text="Je sais."),
            Hypothesis((2,), -12.0, -13.0, group=1, text=""),
            Hypothesis((9, 9), -13.0, -14.0, group=1, text="a\nb", finished=False),
            Hypothesis((5, 6), -14.0, -14.0, group=2),
        ]
    )
    assert repr(found) == (
        "Hypotheses: 4 outputs\n"
        "   -1.23  group 0  'Je sais.'\n"
        "  -12.00  group 1  ''\n"
        "  -13.00  group 1  'a\\nb'…\n"
        "  -14.00  group 2  tokens 5 6"
    )
    assert repr(Hypotheses()) == "Hypotheses: 0 outputs"
    assert repr(found[:1]).startswith("Hypotheses: 1 output\n")


def test_a_long_list_is_shown_briefly() -> None:
    shown = repr(said(*["word " * 1000] * 1000)).splitlines()
    assert shown[0] == "Hypotheses: 1000 outputs"
    assert shown[-1] == "  ... and 980 more outputs"
    assert len(shown) == 22
    assert max(map(len, shown)) == 79
    assert shown[1].endswith("word word w...")
    assert max(map(len, repr(Hypotheses([Hypothesis((123,) * 999, -1.0, -1.0)])).splitlines())) == 79


def test_a_table_in_a_notebook_counts_groups_as_python_does() -> None:
    found = said("a <b>", "", " ", None, group=2)
    shown = found._repr_html_()
    assert f"<td>-1.00</td><td>2</td>{OUTPUT}a &lt;b&gt;</td>" in shown
    assert f"<td>-2.00</td><td>2</td>{OUTPUT}<i>(empty)</i></td>" in shown
    assert f"<td>-3.00</td><td>2</td>{OUTPUT}<i>(blank)</i></td>" in shown
    assert f"<td>-4.00</td><td>2</td>{OUTPUT}7 3</td>" in shown
    assert found[0] in found.groups[2]


@pytest.mark.parametrize(
    ("text", "shown", "sign"),
    [("", "", "(empty)"), (" \n", " \n", "(blank)"), ("a", "a", ""), (None, "7 0", "")],
)
def test_token_ids_stand_for_a_text_only_where_there_is_none(text: str | None, shown: str, sign: str) -> None:
    (hypothesis,) = said(text)
    assert text_of(hypothesis) == shown
    assert blank_sign(text_of(hypothesis)) == sign
    assert json.loads(Hypotheses([hypothesis]).to_json())[0]["text"] == text


# The lists of several inputs


def entrances() -> dict[str, Results]:
    search = BeamSearch(beams=2)
    *_, last = beamsplit.steps(model(), INPUTS, search, **DECODED)
    translator: Any = load("en-fr")
    return {
        "decode": beamsplit.decode(model(), INPUTS, search, **DECODED),
        "nothing": beamsplit.decode(model(), INPUTS[:0], search, **DECODED),
        "decode_async": asyncio.run(beamsplit.decode_async(model(), INPUTS, search, **DECODED)),
        "nothing async": asyncio.run(beamsplit.decode_async(model(), [], search, **DECODED)),
        "steps": last.hypotheses,
        "decode_in_batches": decode_in_batches(model(), INPUTS, search, batch_size=2, **DECODED),
        "translate": translator.translate(["I see.", "Go."], search, max_length=4),
        "caption": load("captioner").caption(torch.zeros(2, 1280), search, max_length=4),
        "ask": load("questioner").ask(torch.zeros(2, 1280), search, max_length=4),
    }


def test_every_entrance_returns_results() -> None:
    for name, found in entrances().items():
        assert type(found) is Results, name


def test_results_are_a_list() -> None:
    found = Results([said("a"), said("b"), said()])
    assert isinstance(found, list)
    assert found == [said("a"), said("b"), said()]
    assert [said("a"), said("b"), said()] == found
    assert type(found[1:]) is type(found[:0]) is Results
    assert found[1:] == [said("b"), said()]
    assert found[-1] == said()
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found
    assert type(pickle.loads(pickle.dumps(found))) is Results
    assert Results.from_json(found.to_json()) == found
    assert json.loads(found.to_json())[1] == json.loads(found[1].to_json())


@pytest.mark.parametrize("text", ["{", "{}", "[1]", "[[1]]", '[[{"tokens": 1}]]'])
def test_other_json_is_no_results(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"^not a JSON list of lists of hypotheses: .*to_json"):
        Results.from_json(text)


def test_results_are_shown_a_line_each() -> None:
    assert repr(Results([said("a", "b"), said(), said("word " * 100), said(None)])) == (
        "Results: 4 inputs\n"
        "  0: 2 outputs, best -1.00 'a'\n"
        "  1: 0 outputs\n"
        "  2: 1 output, best -1.00 'word word word word word word word word word word...\n"
        "  3: 1 output, best -1.00 tokens 7 0"
    )
    assert repr(Results()) == "Results: 0 inputs"
    many = repr(Results([said("word " * 1000)] * 1000)).splitlines()
    assert many[0] == "Results: 1000 inputs"
    assert many[-1] == "  ... and 980 more inputs"
    assert len("\n".join(many)) < 2000


def test_results_are_tables_in_a_notebook() -> None:
    shown = Results([said("a & b")] * 23)._repr_html_()
    assert shown.count("<table>") == 20
    assert "<p>input 19</p><table>" in shown
    assert "a &amp; b" in shown
    assert shown.endswith("<p>... and 3 more inputs</p></div>")
    assert "more" not in Results([said("a")] * 20)._repr_html_()


def test_lines_of_an_answer_stay_lines_in_a_notebook() -> None:
    """A browser joins lines and Jupyter sets cells to the right, unless told otherwise."""
    assert f"{OUTPUT}one\ntwo</td>" in said("one\ntwo")._repr_html_()


def test_results_that_hold_something_else_can_still_be_shown() -> None:
    """They are a list, and whoever sorts one of its lists in place has a plain list there."""
    found = Results([said("a")])
    found[0] = list(found[0])  # type: ignore[call-overload]
    assert repr(found) == f"Results([{list(said('a'))}])"
    assert found._repr_html_() == f"<pre>{html.escape(repr(found))}</pre>"


def test_types_are_honest() -> None:
    """Checked by mypy, too."""
    found: Results = beamsplit.decode(model(), INPUTS, BeamSearch(beams=2), **DECODED)
    part: Results = found[:1]
    as_list: list[Hypotheses] = part
    outputs: Hypotheses = found[0][:1]
    as_sequence: Sequence[Hypothesis] = outputs
    assert len(as_list) == len(as_sequence) == 1
