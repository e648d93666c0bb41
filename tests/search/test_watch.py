"""Log-probabilities of part of a vocabulary that are handed over as logits: found out, or left alone."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from beamsplit import (
    BeamSearch,
    DiverseBeamSearch,
    DivMBest,
    FunctionModel,
    Guided,
    LogProbs,
    PrefixModel,
    Shortlist,
    decode,
    decode_async,
)
from beamsplit.testing import rescore

VOCABULARY, END, TOP = 50, 0, 5
Make = Callable[[Tensor], Any]  # logits [rows vocab] -> an answer

TABLE = torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0)) * 2


def top(logits: Tensor) -> Tensor:
    """The best few log-probabilities of each row, and -inf for the rest: what many write for an engine."""
    log_prob = torch.log_softmax(logits, -1)
    best = log_prob.topk(TOP)
    return torch.full_like(log_prob, -torch.inf).scatter(1, best.indices, best.values)


def function_model(make: Make) -> Any:
    return FunctionModel(
        lambda tokens, state: (make(TABLE[tokens]), state),
        start=lambda inputs: (make(TABLE[torch.tensor(inputs)]), torch.zeros(len(inputs), 1)),
    )


def prefix_model(make: Make) -> Any:
    class FromNumbers(PrefixModel):
        def start(self, inputs: Any) -> Any:
            return super().start(torch.tensor(inputs).unsqueeze(1))

    return FromNumbers(lambda prefix: make(TABLE[prefix[:, -1]]))


class Own:
    def __init__(self, make: Make) -> None:
        self._make = make

    def start(self, inputs: list[int]) -> Any:
        return self._make(TABLE[torch.tensor(inputs)]), None

    def step(self, tokens: Tensor, state: Any) -> Any:
        return self._make(TABLE[tokens]), state

    def select(self, state: Any, rows: Tensor) -> Any:
        return state


MODELS: dict[str, Callable[[Make], Any]] = {"function": function_model, "prefix": prefix_model, "own": Own}


def shortlist(logits: Tensor) -> Shortlist:
    best = torch.log_softmax(logits, -1).topk(TOP)
    return Shortlist(best.indices, best.values)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "make", [shortlist, lambda logits: LogProbs(top(logits))], ids=["lists", "log-probs"]
)
def test_honest_answers_keep_the_true_log_probability(kind: str, make: Make) -> None:
    whole = Own(lambda logits: logits)
    (found,) = decode(MODELS[kind](make), [7], BeamSearch(beams=3), max_length=6, end=END)
    for hypothesis in found:
        assert hypothesis.log_prob == pytest.approx(rescore(whole, [7], 0, hypothesis.tokens), abs=1e-4)


@pytest.mark.parametrize("kind", MODELS)
def test_part_of_a_distribution_as_logits_is_warned_about(kind: str) -> None:
    """And rightly so: the log-probabilities that come out are not the model's."""
    model = MODELS[kind](top)
    with pytest.warns(UserWarning, match="look like log-probabilities of part of a vocabulary") as caught:
        (found,) = decode(model, [7], BeamSearch(beams=3), max_length=6, end=END)
    assert len(caught) == 1
    said = str(caught[0].message)
    assert said.startswith(f"{type(model).__name__} returns logits that look like")
    assert f"{TOP} of {VOCABULARY} tokens are above -inf, none is above 0" in said
    assert "return LogProbs(logits), or a Shortlist" in said
    truth = rescore(Own(lambda logits: logits), [7], 0, found.best.tokens)
    assert found.best.log_prob > truth + 0.5


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_whatever_the_type_and_the_batch(kind: torch.dtype) -> None:
    with pytest.warns(UserWarning, match="look like log-probabilities"):
        decode(Own(lambda logits: top(logits).to(kind)), list(range(20)), BeamSearch(beams=2), max_length=3)


@pytest.mark.parametrize(
    ("fill", "shown"), [(-1e9, "-1e+09"), (torch.finfo(torch.float32).min, "-3.40282e+38"), (-100.0, "-100")]
)
def test_whatever_stands_for_the_rest(fill: float, shown: str) -> None:
    """Many fill up with a number, since -inf minus -inf is none."""
    with pytest.warns(UserWarning, match=re.escape(f"{TOP} of {VOCABULARY} tokens are above {shown}, none")):
        decode(Own(lambda logits: top(logits).clamp(min=fill)), [7], BeamSearch(beams=2), max_length=3)


def test_arrays_are_looked_at_too() -> None:
    with pytest.warns(UserWarning, match="look like log-probabilities"):
        decode(Own(lambda logits: np.asarray(top(logits))), [7], BeamSearch(beams=2), max_length=3)


@pytest.mark.parametrize(
    "strategy",
    [
        DivMBest(runs=3, beams=2),
        DiverseBeamSearch(groups=3, schedule="staggered"),
        DiverseBeamSearch(groups=3),
    ],
    ids=["several runs", "staggered", "lockstep"],
)
def test_it_is_said_once_a_search(strategy: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decode(function_model(top), [7, 8], strategy, max_length=5, end=END)
    assert len(caught) == 1


def test_whoever_awaits_is_told_as_well() -> None:
    with pytest.warns(UserWarning, match="look like log-probabilities"):
        asyncio.run(decode_async(Own(top), [7], BeamSearch(beams=2), max_length=3))


def test_a_first_token_that_is_sure_hides_nothing() -> None:
    """Lists that add up to 1 are no harm, but those after them may be."""
    sure = torch.full((1, VOCABULARY), -20.0)
    sure[0, 3] = 20.0
    model = FunctionModel(
        lambda tokens, state: (top(TABLE[tokens]), state), start=lambda inputs: (top(sure), [])
    )
    with pytest.warns(UserWarning, match="look like log-probabilities"):
        decode(model, [0], BeamSearch(beams=2), max_length=4, end=END)


# Silence


def masked(logits: Tensor, kept: int = 10) -> Tensor:
    """Logits of a model that may use a few tokens alone."""
    allowed = torch.zeros(VOCABULARY, dtype=torch.bool)
    allowed[torch.arange(kept) * 3] = True
    return logits.masked_fill(~allowed, -torch.inf)


def forced(logits: Tensor) -> Tensor:
    return masked(logits - 5.0, kept=1)


SILENT: dict[str, Make] = {
    "logits": lambda logits: logits,
    "logits below 0": lambda logits: logits - 50.0,
    "masked": masked,
    "masked, below 0": lambda logits: masked(logits - 30.0),
    "masked, just below 0": lambda logits: masked(-logits.abs()),
    "distances": lambda logits: -((logits - logits.amax(1, keepdim=True)) ** 2) * 100.0 - 1.0,
    "most tokens alike": lambda logits: (1.5 * (logits - logits.amax(1, keepdim=True)) - 2).clamp(-6),
    "one token allowed": forced,
    "one token allowed, at 0": lambda logits: torch.zeros_like(logits).masked_fill(
        masked(logits, 1) == -torch.inf, -torch.inf
    ),
    "log_softmax": lambda logits: torch.log_softmax(logits, -1),
    "log_softmax without special tokens": lambda logits: torch.log_softmax(logits, -1).index_fill(
        1, torch.arange(1, 4), -torch.inf
    ),
    "normalised over what is allowed": lambda logits: torch.log_softmax(masked(logits), -1),
    "the same in half precision": lambda logits: torch.log_softmax(masked(logits), -1).half(),
    "the same in bfloat16": lambda logits: torch.log_softmax(masked(logits), -1).bfloat16(),
    "guided": lambda logits: Guided(logits, torch.zeros_like(logits)),
    "guided by a mask": lambda logits: Guided(
        torch.log_softmax(logits, -1), masked(torch.zeros_like(logits))
    ),
    "guided and normalised": lambda logits: Guided(top(logits), torch.zeros_like(logits), normalised=True),
    "log-probabilities": lambda logits: LogProbs(top(logits)),
    "lists": shortlist,
}


@pytest.mark.filterwarnings("ignore:the model's lists of 5 candidates")
@pytest.mark.parametrize("name", SILENT)
@pytest.mark.parametrize("inputs", [[7], [1, 2, 3, 4, 5, 6]])
def test_nothing_is_said_of_anything_else(name: str, inputs: list[int]) -> None:
    """Warnings are errors here."""
    decode(Own(SILENT[name]), inputs, BeamSearch(beams=3), max_length=5)


def test_one_row_that_is_no_list_is_enough_for_silence() -> None:
    def answer(logits: Tensor) -> Tensor:
        return torch.cat([top(logits[:1]), logits[1:]])

    decode(Own(answer), [7, 8], BeamSearch(beams=2), max_length=1)


def test_only_first_answers_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of ordinary logits pays for one look."""
    from beamsplit.search import watch

    looks = 0

    def counted(logits: Tensor) -> float | None:
        nonlocal looks
        looks += 1
        return share(logits)

    share = watch._share_listed
    monkeypatch.setattr(watch, "_share_listed", counted)
    decode(Own(lambda logits: logits), [7], BeamSearch(beams=3), max_length=20)
    assert looks == 1
    decode(Own(SILENT["normalised over what is allowed"]), [7], BeamSearch(beams=3), max_length=20)
    assert looks == 1 + 8
