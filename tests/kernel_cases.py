"""What the kernels must do, run by test_kernels.py in a process in which Triton's interpreter is switched on.

On a machine with a GPU the kernels run there for real.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import beamsplit
from beamsplit import (
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    Embedding,
    Guided,
    Hamming,
    ModelError,
    NGram,
    Shortlist,
)
from beamsplit.search.kernels import GAPS, MOVES, Costs, Outcome, advance, choose, shortlist
from beamsplit.search.kernels.sorting import sort_into
from beamsplit.search.shortlist import VocabularyReader
from beamsplit.testing import PrefixHashModel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Elsewhere:
    """A model whose logits come from another device than it computes on, and may be steered."""

    def __init__(self, vocabulary: int, seed: int, guided: bool = False, levels: int | None = None) -> None:
        self._model = PrefixHashModel(vocabulary=vocabulary, seed=seed, levels=levels)
        self._guided = guided

    def start(self, inputs: Tensor) -> tuple[Any, Any]:
        return self._moved(*self._model.start(inputs))

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        return self._moved(*self._model.step(tokens.cpu(), state))

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows.cpu())

    def join(self, states: Any) -> Any:
        return self._model.join(states)

    def _moved(self, logits: Any, state: Any) -> tuple[Any, Any]:
        logits = logits.to(DEVICE)
        if self._guided:
            guidance = -torch.arange(logits.shape[1], device=DEVICE).remainder(3).to(logits.dtype)
            return Guided(logits, guidance.expand_as(logits), bounded=True), state
        return logits, state


def without_kernels(run: Callable[[], Any]) -> Any:
    os.environ["BEAMSPLIT_KERNELS"] = "0"
    try:
        return run()
    finally:
        del os.environ["BEAMSPLIT_KERNELS"]


def assert_same(model: Any, strategy: DiverseBeamSearch, inputs: int = 2, **options: Any) -> None:
    """A decode with the kernels is one without them, to the last bit."""
    decode = functools.partial(beamsplit.decode, model, torch.arange(inputs), strategy, **options)
    assert decode() == without_kernels(decode), (model, strategy, options)


def check_choose() -> None:
    """Whole decodes with the kernel are those without it, to the last bit."""
    calls = 0
    original = choose.choose

    def counted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return original(*arguments)

    choose.choose = counted  # type: ignore[assignment]
    shapes = [(1, 3), (3, 1), (2, 3)]
    ends: list[Any] = [None, 2, [1, 3]]
    cases = list(itertools.product(shapes, ends, [False, True]))
    for number, ((groups, beams), end, guided) in enumerate(cases):
        model = Elsewhere(11, number, guided)
        strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=[0.7, 40.0][number % 2])
        assert_same(model, strategy, max_length=4, end=end, list_width=[None, 1, 4][number % 3])
    assert calls > 3 * len(cases), calls


def check_terms() -> None:
    """Other terms go by tables of what candidates pay for each other, also when some groups are done.

    Lists are short, so that certificates matter, and what any token pays at least.
    """
    vectors = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    vectors[0] = 0.0
    terms: list[Any] = [Cumulative(temperature=2.0), NGram(n=1), NGram(n=2), NGram(n=3)]
    terms += [Embedding(vectors=vectors, of=of) for of in (Hamming(), Cumulative(), NGram(n=2))]
    shapes: list[tuple[int, int, Any]] = [(3, 1, 2.0), (2, 2, 9.0), (3, 2, (0.4, 0.7, 1.5))]
    for number, (term, shape) in enumerate(itertools.product(terms, shapes)):
        groups, beams, strength = shape
        strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=strength, diversity=term)
        options: dict[str, Any] = {
            "end": [None, [2, 3, 5]][number % 3 > 0],
            "list_width": [2, 4, 9][number % 3],
        }
        with counted_tables() as tables:
            assert_same(Elsewhere(30, number, number % 2 == 1), strategy, max_length=6, **options)
        assert tables, (term, shape)


@contextlib.contextmanager
def counted_tables() -> Iterator[list[Any]]:
    """Note the tables that the kernel is given."""
    found: list[Any] = []
    original = choose.choose

    def noted(beams: Any, lists: Any, costs: Any, *rest: Any) -> Any:
        if costs is not None and costs.table is not None:
            found.append(costs.table)
        return original(beams, lists, costs, *rest)

    choose.choose = noted  # type: ignore[assignment]
    try:
        yield found
    finally:
        choose.choose = original


def check_groups_that_end_one_by_one() -> None:
    """Some groups go on for long after others are done, so that beams have to find their rows again."""
    for seed, groups, beams in [(0, 3, 1), (1, 3, 1), (3, 3, 1), (0, 2, 2)]:
        strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=1.0)
        assert_same(Elsewhere(11, seed), strategy, max_length=8, end=2)


def check_staggered() -> None:
    """A group may be done when a later one begins, so that there are no other rows above its own."""
    for seed, inputs, strength in [(1, 1, 0.0), (0, 2, 0.5), (2, 2, 0.5)]:
        strategy = DiverseBeamSearch(groups=3, strength=strength, schedule="staggered")
        assert_same(Elsewhere(11, seed), strategy, inputs, max_length=5, end=list(range(6)))


def check_groups_that_are_added() -> None:
    """The groups before are found by kernels, and those that are added by torch."""
    few, many = (DiverseBeamSearch(groups=n, beams_per_group=2, strength=0.7) for n in (2, 4))
    for seed in range(2):
        model, inputs = Elsewhere(11, seed), torch.arange(2)
        found = beamsplit.decode(model, inputs, few, max_length=5, end=[2, 3], resumable=True)
        expected = beamsplit.decode(model, inputs, many, max_length=5, end=[2, 3])
        assert found.more(model).more(model) == expected


def check_ties() -> None:
    """A candidate that was not listed may tie with the last one picked, and come before it."""
    strategy = DiverseBeamSearch(groups=2, beams_per_group=2, strength=1.0)
    for seed, width in itertools.product(range(2), [1, 3]):
        assert_same(Elsewhere(40, seed, levels=3), strategy, max_length=2, end=2, list_width=width)


def check_ahead() -> None:
    """A search that runs ahead with the kernels finds what one without them finds step by step."""
    check_searches_ahead([(1, 3, 0.0), (4, 1, 0.9), (3, 2, (0.0, 0.4, 2.5))])


def check_wide_ahead() -> None:
    """The same for groups that are too wide for the kernel that picks."""
    choose._MOST_BEAMS = 1
    choose.choose_into = None  # type: ignore[assignment]
    check_searches_ahead([(1, 5, 0.0), (3, 2, (0.0, 0.4, 2.5))])


def check_searches_ahead(shapes: list[tuple[int, int, Any]]) -> None:
    for number, ((groups, beams, strength), end) in enumerate(itertools.product(shapes, [None, [2, 11]])):
        strategy = DiverseBeamSearch(groups=groups, beams_per_group=beams, strength=strength)
        model = PrefixHashModel(vocabulary=70, seed=number, levels=[None, 4][number % 2])
        inputs = torch.tensor([3, 1, 4], device=DEVICE)
        options: dict[str, Any] = {"max_length": 9, "end": end, "list_width": [None, 1, 4][number % 3]}
        decode = functools.partial(beamsplit.decode, model, inputs, strategy, **options)
        os.environ["BEAMSPLIT_GRAPHS"] = "0"
        expected = without_kernels(decode)
        os.environ["BEAMSPLIT_GRAPHS"] = "1"
        with counted_advances() as calls:
            found = decode()
        assert calls, number
        for ours, theirs in zip(found, expected, strict=True):
            assert [each.tokens for each in ours] == [each.tokens for each in theirs], number
            log_probs = [each.log_prob for each in theirs]
            assert [each.log_prob for each in ours] == pytest.approx(log_probs, abs=1e-4)


@contextlib.contextmanager
def counted_advances() -> Iterator[list[Any]]:
    """Note how often the kernel that goes on to the next step is called."""
    found: list[Any] = []
    original = advance.advance_into

    def noted(*arguments: Any) -> None:
        found.append(None)
        original(*arguments)

    advance.advance_into = noted  # type: ignore[assignment]
    try:
        yield found
    finally:
        advance.advance_into = original


def check_shortlist() -> None:
    """Lists are those of torch, but for the last bits of the normaliser."""
    torch.manual_seed(0)
    for rows, vocabulary, width, kind in (
        (3, 100, 5, torch.float32),
        (2, 4099, 9, torch.bfloat16),
        (2, 70, 64, torch.float32),
        (1, 300, 12, torch.float16),
        (2, 2048, 1, torch.float32),
        (1, 150_001, 8, torch.float32),
    ):
        logits = (torch.randn(rows, vocabulary) * 3).to(kind).to(DEVICE)
        assert shortlist.knows(logits)
        made, normaliser = shortlist.shortlist(logits, width)
        expected = VocabularyReader(logits).shortlist(width)
        if kind == torch.float32:  # without ties
            assert torch.equal(made.tokens, expected.tokens)
        assert bool((made.tokens.diff(dim=1) > 0).all())
        torch.testing.assert_close(made.log_prob.sort().values, expected.log_prob.sort().values)
        torch.testing.assert_close(made.rest, expected.rest)
        torch.testing.assert_close(normaliser, logits.float().logsumexp(1))


def check_long_lists() -> None:
    """Lists longer than the kernel makes are those of torch, too."""
    torch.manual_seed(0)
    for rows, vocabulary, width, kind in (
        (3, 300, 100, torch.float32),
        (2, 4099, 260, torch.float32),
        (2, 9000, 70, torch.bfloat16),
        (1, 129, 128, torch.float32),
        (2, 70, 69, torch.float32),
        (2, 3000, 2999, torch.float32),
        (1, 70, 90, torch.float32),
    ):
        logits = (torch.randn(rows, vocabulary) * 3).to(kind).to(DEVICE)
        made = shortlist.KernelReader(logits).shortlist(width)
        expected = VocabularyReader(logits).shortlist(width)
        if kind == torch.float32:
            assert torch.equal(made.tokens, expected.tokens)
        assert bool((made.tokens.diff(dim=1) > 0).all())
        torch.testing.assert_close(made.log_prob.sort().values, expected.log_prob.sort().values)
        torch.testing.assert_close(made.rest, expected.rest)
    logits = torch.full((1, 3000), -torch.inf, device=DEVICE)
    logits[0, [7, 2900]] = torch.tensor([1.0, 2.0], device=DEVICE)
    made = shortlist.KernelReader(logits).shortlist(80)
    real = made.log_prob[0] > -torch.inf
    assert made.tokens[0][real].tolist() == [7, 2900]
    assert int(made.tokens.max()) < 3000
    assert made.rest.item() == -torch.inf


def check_sorting() -> None:
    """What sorting finds in a step is what the kernel finds, to the last bit, and told in the same flags."""
    for number, ((groups, beams), costly, ends, width) in enumerate(
        itertools.product([(1, 5), (4, 1), (3, 4)], [False, True], [0, 2], [1, 3, 8])
    ):
        source = torch.Generator().manual_seed(number)
        score = -torch.randint(6, (5, groups, beams), generator=source).float()
        score = score.sort(2, descending=True).values.masked_fill(score == -5, -torch.inf)
        score[3] = -torch.inf
        tokens = torch.rand(5, groups, beams, 30, generator=source).argsort(3)[..., :width].sort(3).values
        gains = -torch.randint(4, tokens.shape, generator=source).float()
        rest = -torch.randint(3, 9, score.shape, generator=source).float()
        lists = Shortlist(tokens, gains, rest).map(lambda values: values.to(DEVICE))
        strengths = torch.arange(groups, device=DEVICE).float().view(-1, 1, 1) if costly else None
        is_end = (torch.arange(30) < ends).to(DEVICE)
        score = score.to(DEVICE)
        by_kernel, by_sorting = (
            Outcome.like(score, lists.tokens, beams * (1 + ends), beams) for _ in range(2)
        )
        costs = None if strengths is None else Costs(strengths)
        choose.choose_into(by_kernel, score, score * 0.5, lists, costs, is_end)
        sort_into(by_sorting, score, score * 0.5, lists, strengths, is_end)
        # Where there are gaps it does not matter whether beams move: the kernel says so of gaps, too.
        unsaid = torch.where((by_kernel.flags & GAPS) > 0, MOVES, 0)
        assert torch.equal(by_kernel.flags | unsaid, by_sorting.flags | unsaid), number
        for name in ("picked_scores", "live_scores"):
            assert torch.equal(getattr(by_kernel, name)[1], getattr(by_sorting, name)[1]), number
        for scores, values in [("picked_scores", "picked"), ("live_scores", "live")]:
            real = getattr(by_kernel, scores)[1] > -torch.inf
            for each in (scores, values):
                ours, theirs = getattr(by_sorting, each), getattr(by_kernel, each)
                assert torch.equal(ours[:, real], theirs[:, real]), number


def check_masked_rows() -> None:
    """Tokens that are ruled out fill a list up when there is nothing better, each once."""
    logits = torch.full((1, 3000), -torch.inf, device=DEVICE)
    logits[0, [7, 2900]] = torch.tensor([1.0, 2.0], device=DEVICE)
    made, _ = shortlist.shortlist(logits, 4)
    assert {7, 2900} < set(made.tokens[0].tolist())
    assert len(set(made.tokens[0].tolist())) == 4
    assert made.rest.item() == -torch.inf


def check_width_does_not_matter() -> None:
    model = Elsewhere(90, 5)
    lists = [
        beamsplit.decode(model, torch.arange(2), BeamSearch(beams=2), max_length=3, end=3, list_width=width)
        for width in (1, 6, 80, None)
    ]
    assert all(each == lists[0] for each in lists)


def check_errors() -> None:
    """Logits without a distribution are found out."""

    class Broken(Elsewhere):
        def _moved(self, logits: Any, state: Any) -> tuple[Any, Any]:
            logits[0, 5] = torch.nan
            return logits.to(DEVICE), state

    with pytest.raises(ModelError, match="NaN at token 5"):
        beamsplit.decode(Broken(90, 1), torch.arange(1), BeamSearch(beams=2), max_length=3)


if __name__ == "__main__":
    globals()[f"check_{sys.argv[1]}"]()
