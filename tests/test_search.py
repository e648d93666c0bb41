"""The edges: early ends, empty beams, odd vocabularies, odd states, and what the search asks of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    DiverseSiblings,
    DivMBest,
    Earlier,
    FunctionModel,
    Guided,
    Hamming,
    Hypotheses,
    JoinableModel,
    LengthNormalised,
    ModelError,
    PrefixModel,
    StochasticBeamSearch,
    Strategy,
    decode,
    steps,
)
from beamsplit.testing import MarkovModel, PrefixHashModel, exhaustive_search, rescore
from search.cases import MAXIMISING, SAMPLING, STRATEGIES, every_strategy, normal

GUIDABLE = MAXIMISING | SAMPLING
guidable_strategy = pytest.mark.parametrize("strategy", GUIDABLE.values(), ids=GUIDABLE.keys())


def _markov(*rows: Sequence[float]) -> MarkovModel:
    """A model with these probabilities of what follows token 0, token 1, ..."""
    return MarkovModel(torch.tensor(rows).log())


def _tokens(hypotheses: Iterable[Any]) -> list[tuple[int, ...]]:
    return [h.tokens for h in hypotheses]


# Ends


@every_strategy
def test_a_model_that_can_only_end_ends_at_once(strategy: Strategy) -> None:
    model = _markov([1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    for found in decode(model, [1, 2], strategy, max_length=6, end=0):
        assert set(_tokens(found)) == {(0,)}
        assert all(h.finished and h.log_prob == 0.0 for h in found)


def test_an_end_at_the_first_step_leaves_room_for_what_does_not_end() -> None:
    model = _markov([0.6, 0.3, 0.1], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25])
    (found,) = decode(model, [0], BeamSearch(beams=2), max_length=3, end=0)
    assert _tokens(found) == [(0,), (1, 0)]
    assert [h.log_prob for h in found] == pytest.approx([math.log(0.6), math.log(0.3 * 0.5)])


def test_any_of_several_ends_will_do() -> None:
    model = _markov([0.0, 0.3, 0.3, 0.4], [0.25] * 4, [0.25] * 4, [0.1, 0.6, 0.25, 0.05])
    (found,) = decode(model, [0], BeamSearch(beams=4), max_length=2, end=[1, 2])
    assert _tokens(found) == [(1,), (2,), (3, 1), (3, 2)]
    assert all(h.finished for h in found)


@every_strategy
def test_no_end_may_be_none_or_an_empty_list(strategy: Strategy) -> None:
    model = PrefixHashModel(9, seed=1)
    found = decode(model, [0, 1], strategy, max_length=4, end=[])
    assert found == decode(model, [0, 1], strategy, max_length=4, end=None)
    assert all(len(h.tokens) == 4 and not h.finished for each in found for h in each)


@every_strategy
def test_an_end_named_twice_is_one_end(strategy: Strategy) -> None:
    model = PrefixHashModel(9, seed=1)
    once = decode(model, [0, 1], strategy, max_length=4, end=2)
    assert decode(model, [0, 1], strategy, max_length=4, end=[2, 2]) == once


@every_strategy
def test_a_single_step_may_be_all_there_is(strategy: Strategy) -> None:
    for found in decode(PrefixHashModel(9, seed=1), [0, 1], strategy, max_length=1, end=0):
        assert {len(h.tokens) for h in found} == {1}


@pytest.mark.parametrize("width", [1, 2, 3, None])
def test_a_beam_goes_on_when_its_likeliest_tokens_are_all_ends(width: int | None) -> None:
    """A list that holds nothing but ends must not be taken to say that nothing else can follow.

    (0,) has log .35 = -1.05, and (2, 0) has log(.31 * .9) / 2 = -.64 a token.
    """
    model = _markov([0.35, 0.34, 0.31], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05])
    options: dict[str, Any] = {"end": [0, 1], "scorer": LengthNormalised(), "list_width": width}
    (found,) = decode(model, [0], BeamSearch(beams=1), max_length=2, **options)
    assert _tokens(found) == [(2, 0)]


# Vocabularies and spaces that are small


def test_a_vocabulary_smaller_than_the_beam() -> None:
    model = PrefixHashModel(2, seed=3)
    (found,) = decode(model, [0], BeamSearch(beams=5), max_length=3)
    (everything,) = exhaustive_search(model, [0], max_length=3)
    assert len(set(_tokens(found))) == 5
    assert [h.log_prob for h in found] == pytest.approx([h.log_prob for h in everything[:5]])


@pytest.mark.parametrize(
    "strategy",
    [
        BeamSearch(beams=10),
        DiverseBeamSearch(groups=2, beams_per_group=10),
        DiverseBeamSearch(groups=2, beams_per_group=10, schedule="staggered"),
        DiverseSiblings(beams=10, rate=0.1),
        StochasticBeamSearch(beams=10),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_more_beams_than_sequences(strategy: Strategy) -> None:
    (found,) = decode(PrefixHashModel(2, seed=3), [0], strategy, max_length=2, end=0)
    for group in found.groups:
        assert sorted(_tokens(group)) == [(0,), (1, 0), (1, 1)]


@every_strategy
def test_a_vocabulary_of_one(strategy: Strategy) -> None:
    (found,) = decode(PrefixHashModel(1), [0], strategy, max_length=3)
    assert set(_tokens(found)) == {(0, 0, 0)}


@pytest.mark.parametrize("groups", [2, 5])
def test_more_groups_than_tokens(groups: int) -> None:
    strategy = DiverseBeamSearch(groups=groups, beams_per_group=2, strength=5.0)
    (found,) = decode(PrefixHashModel(2, seed=1), [0], strategy, max_length=3)
    assert [len(group) for group in found.groups] == [2] * groups


# Batches


class _Spy:
    """Passes everything on, and checks and counts the rows that are asked for."""

    def __init__(self, model: JoinableModel) -> None:
        self._model = model
        self.prefilled: list[int] = []
        self.stepped: list[int] = []

    def start(self, inputs: Sequence[int]) -> tuple[Any, Any]:
        self.prefilled.append(len(inputs))
        logits, state = self._model.start(inputs)
        return logits, (len(inputs), state)

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        rows, inner = state
        assert tokens.shape == (rows,)
        assert tokens.dtype == torch.long
        assert rows > 0
        assert not torch.is_grad_enabled()
        self.stepped.append(rows)
        logits, inner = self._model.step(tokens, inner)
        return logits, (rows, inner)

    def select(self, state: Any, rows: Tensor) -> Any:
        have, inner = state
        assert rows.dim() == 1
        assert rows.dtype == torch.long
        assert bool(((rows >= 0) & (rows < have)).all())
        return len(rows), self._model.select(inner, rows)

    def join(self, states: Sequence[Any]) -> Any:
        rows, inner = zip(*states, strict=True)
        return sum(rows), self._model.join(inner)


def _countdown(size: int) -> MarkovModel:
    """After k comes k-1, and 0 is the end: an input of k takes k steps."""
    table = torch.full((size, size), -torch.inf)
    table.diagonal(-1).zero_()
    table[0, 0] = 0.0
    return MarkovModel(table)


@every_strategy
def test_inputs_of_a_batch_may_end_at_different_times(strategy: Strategy) -> None:
    found = decode(_countdown(7), [2, 6, 1, 4], strategy, max_length=9, end=0)
    for start, each in zip([2, 6, 1, 4], found, strict=True):
        assert set(_tokens(each)) == {tuple(range(start - 1, -1, -1))}
        assert all(h.finished for h in each)


def test_inputs_that_have_ended_leave_the_batch() -> None:
    spy = _Spy(_countdown(7))
    decode(spy, [1, 3, 5], BeamSearch(beams=2), max_length=9, end=0)
    assert spy.prefilled == [3]
    # The input of 1 ends at the first step, that of 3 at the third, that of 5 at the fifth.
    assert spy.stepped == [2, 2, 1, 1]


@every_strategy
@pytest.mark.parametrize("end", [None, 0, [0, 1, 2]])
def test_the_model_gets_one_row_an_input_and_then_one_a_live_beam(
    strategy: Strategy, end: int | list[int] | None
) -> None:
    spy = _Spy(PrefixHashModel(7, seed=5))
    live = [
        sum(int((move.beam >= 0).sum()) for move in turn.selections)
        for turn in steps(spy, [0, 1, 2, 3], strategy, max_length=6, end=end)
    ]
    runs = strategy.runs if isinstance(strategy, DivMBest) else 1
    assert spy.prefilled == [4] * runs
    assert spy.stepped == [rows for rows in live if rows]


@every_strategy
@pytest.mark.parametrize(
    "inputs", [[], (), torch.empty(0, dtype=torch.long)], ids=["list", "tuple", "tensor"]
)
def test_no_inputs_give_no_results(strategy: Strategy, inputs: Any) -> None:
    assert decode(PrefixHashModel(7), inputs, strategy, max_length=3) == []
    assert list(steps(PrefixHashModel(7), inputs, strategy, max_length=3)) == []


def test_inputs_of_unknown_length_may_turn_out_to_be_none() -> None:
    class Batch:
        """Not sized: only the model can tell how many inputs there are."""

    model = FunctionModel(
        lambda tokens, state: (torch.zeros(len(tokens), 3), state),
        start=lambda _: (torch.zeros(0, 3), None),
    )
    for strategy in (BeamSearch(beams=2), DivMBest(runs=2, beams=2)):
        assert decode(model, Batch(), strategy, max_length=3) == []


# Tokens that cannot be


def _masked_table(size: int) -> Tensor:
    """Random logits in which two thirds of the tokens cannot follow, but two always can."""
    table = normal(4, size, size)
    table[torch.rand(size, size, generator=torch.Generator().manual_seed(2)) < 2 / 3] = -torch.inf
    table[:, 1] = 0.5
    table[torch.arange(size), torch.arange(size)] = 0.3
    return table


@every_strategy
@pytest.mark.parametrize("width", [None, 1])
def test_masked_tokens_are_never_said(strategy: Strategy, width: int | None) -> None:
    table = _masked_table(9)
    found = decode(MarkovModel(table), [2, 3], strategy, max_length=5, end=0, list_width=width)
    for start, each in zip([2, 3], found, strict=True):
        assert each
        for h in each:
            assert math.isfinite(h.log_prob)
            assert all(table[a, b] > -torch.inf for a, b in zip((start, *h.tokens), h.tokens, strict=False))


def test_with_masked_tokens_a_wide_beam_still_finds_all_there_is() -> None:
    model = MarkovModel(_masked_table(5))
    (found,) = decode(model, [2], BeamSearch(beams=200), max_length=3, end=0)
    (everything,) = exhaustive_search(model, [2], max_length=3, end=0)
    assert sorted(_tokens(found)) == sorted(_tokens(everything))


def test_a_strong_penalty_prefers_saying_the_same_to_saying_the_impossible() -> None:
    model = _markov([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
    strategy = DiverseBeamSearch(groups=2, strength=1e6)
    (found,) = decode(model, [0], strategy, max_length=3)
    assert _tokens(found) == [(1, 2, 1), (1, 2, 1)]


@every_strategy
def test_a_beam_that_cannot_go_on_makes_room_for_others(strategy: Strategy) -> None:
    """After 1 only the end can follow, which is too early; beams that said 2 go on alone."""
    model = _markov([0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.3, 0.0, 0.7])
    for seed in range(4):
        (found,) = decode(model, [0], strategy, max_length=3, min_length=3, end=0, seed=seed)
        assert set(_tokens(found)) <= {(2, 2, 0), (2, 2, 2)}
        assert len(found) or strategy in SAMPLING.values() or strategy == BeamSearch(beams=1)


@every_strategy
def test_results_may_be_empty_when_the_only_token_is_ruled_out(strategy: Strategy) -> None:
    model = _markov([1.0, 0.0], [1.0, 0.0])
    found = decode(model, [0, 1], strategy, max_length=3, min_length=2, end=0)
    assert [list(each) for each in found] == [[], []]
    assert found[0].groups == ()
    with pytest.raises(ArgumentError, match="no best hypothesis in an empty list"):
        _ = found[0].best


@every_strategy
def test_an_input_without_results_does_not_harm_its_neighbours(strategy: Strategy) -> None:
    model = _markov([1.0, 0.0, 0.0], [0.2, 0.5, 0.3], [0.4, 0.3, 0.3])
    nothing, something = decode(model, [0, 1], strategy, max_length=3, min_length=2, end=0, seed=[0, 1])
    assert not nothing
    assert [something] == decode(model, [1], strategy, max_length=3, min_length=2, end=0, seed=[1])


@every_strategy
@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([math.nan, 0.0, 0.0], "NaN at token 0"),
        ([0.0, math.inf, 0.0], r"\+inf at token 1"),
        ([-math.inf] * 3, "-inf for every token"),
    ],
)
def test_rows_without_a_distribution_are_the_model_s_fault(
    strategy: Strategy, row: list[float], problem: str
) -> None:
    model = MarkovModel(torch.tensor([[0.0, 0.0, 0.0], row, [0.0, 0.0, 0.0]]))
    with pytest.raises(ModelError, match=problem):
        decode(model, [1], strategy, max_length=3)


# Lengths, and how many to return


@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
@pytest.mark.parametrize("least", [1, 2, 3, 4])
def test_an_end_is_ruled_out_for_beams_too_young_and_for_no_others(schedule: Any, least: int) -> None:
    """Staggered groups are of different age, and those that have not begun are of none."""
    model = _markov([0.9, 0.1], [0.9, 0.1])
    strategy = DiverseBeamSearch(groups=5, strength=0.0, schedule=schedule)
    (found,) = decode(model, [0], strategy, max_length=6, min_length=least, end=0)
    assert _tokens(found) == [(1,) * (least - 1) + (0,)] * 5


@pytest.mark.parametrize("name", ["diverse", "diverse-bigram", "staggered"])
@pytest.mark.parametrize("count", [1, 2])
def test_return_per_group_keeps_the_best_of_each_group(name: str, count: int) -> None:
    model = PrefixHashModel(11, seed=2)
    whole = decode(model, [0, 1], STRATEGIES[name], max_length=4, end=0)
    found = decode(model, [0, 1], STRATEGIES[name], max_length=4, end=0, return_per_group=count)
    for some, every in zip(found, whole, strict=True):
        assert some.groups == tuple(group[:count] for group in every.groups)


def test_unique_passes_on_to_the_next_best_what_groups_have_in_common() -> None:
    model = _markov([0.0, 0.5, 0.3, 0.2], [0.0, 0.5, 0.3, 0.2], [0.0, 0.5, 0.3, 0.2], [0.0, 0.5, 0.3, 0.2])
    strategy = DiverseBeamSearch(groups=3, strength=0.0)
    (found,) = decode(model, [0], strategy, max_length=2, unique=True)
    assert [_tokens(group) for group in found.groups] == [[(1, 1)], [(1, 2)], [(1, 3)]]


# Ties


@pytest.mark.parametrize("width", [None, 1, 2, 5, 40])
def test_siblings_that_tie_rank_by_token_however_short_the_lists(width: int | None) -> None:
    """All tokens are alike, so of a beam's extensions the lowest ids come first."""
    model = MarkovModel(torch.zeros(40, 40))
    strategy = DiverseSiblings(beams=3, rate=0.4, rank_root=True)
    (found,) = decode(model, [0], strategy, max_length=1, list_width=width)
    assert [(h.tokens, round(h.score - h.log_prob, 4)) for h in found.groups[0]] == [
        ((0,), -0.4),
        ((1,), -0.8),
        ((2,), -1.2),
    ]


@pytest.mark.parametrize("width", [None, 1, 2, 5, 40])
@pytest.mark.parametrize("schedule", ["lockstep", "staggered"])
def test_groups_break_ties_by_token_however_short_the_lists(schedule: Any, width: int | None) -> None:
    model = MarkovModel(torch.zeros(40, 40))
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.0, schedule=schedule)
    (found,) = decode(model, [0], strategy, max_length=1, list_width=width)
    assert [_tokens(group) for group in found.groups] == [[(0,), (1,)], [(2,), (3,)], [(4,), (5,)]]


# Scorers


def _short_or_long() -> MarkovModel:
    """log P(0) = log .4 is more than log P(1 0) = log .36, but less a token: -.92 against -.51."""
    return _markov([0.4, 0.6, 0.0], [0.6, 0.0, 0.4], [0.5, 0.0, 0.5])


def test_length_normalisation_changes_the_winner() -> None:
    plain = decode(_short_or_long(), [0], BeamSearch(beams=2), max_length=3, end=0)[0]
    assert plain.best.tokens == (0,)
    assert plain.best.score == pytest.approx(math.log(0.4))
    scorer = LengthNormalised()
    normal = decode(_short_or_long(), [0], BeamSearch(beams=2), max_length=3, end=0, scorer=scorer)[0]
    assert normal.best.tokens == (1, 0)
    assert normal.best.log_prob == pytest.approx(math.log(0.36))
    assert normal.best.score == pytest.approx(math.log(0.36) / 2)


def test_length_normalisation_with_alpha_zero_is_none() -> None:
    model = PrefixHashModel(9, seed=4)
    for strategy in MAXIMISING.values():
        plain = decode(model, [0, 1], strategy, max_length=5, end=0)
        scorer = LengthNormalised(alpha=0.0)
        assert decode(model, [0, 1], strategy, max_length=5, end=0, scorer=scorer) == plain


def test_a_length_scorer_orders_the_list_by_likelihood_a_token_without_penalties() -> None:
    strategy = DiverseBeamSearch(groups=3, beams_per_group=2, strength=2.0)
    scorer = LengthNormalised(alpha=0.8)
    (found,) = decode(PrefixHashModel(9, seed=4), [0], strategy, max_length=5, end=0, scorer=scorer)
    ranks = [h.log_prob / len(h.tokens) ** 0.8 for h in found]
    assert ranks == sorted(ranks, reverse=True)
    assert all(h.score == pytest.approx(rank) for h, rank in zip(found, ranks, strict=True) if not h.group)


def test_the_exact_stop_waits_for_what_the_first_stop_does_not() -> None:
    """A greedy search ends at once with log .6 = -.51. Going on gives log(.4 * .9 * .9) / 3 = -.38."""
    model = _markov([0.6, 0.4], [0.1, 0.9])
    exact, first = (
        decode(model, [0], BeamSearch(beams=1), max_length=3, end=0, scorer=LengthNormalised(stop=stop))[0]
        for stop in ("exact", "first")
    )
    assert _tokens(exact) == [(1, 1, 1)]
    assert exact.best.score == pytest.approx(math.log(0.4 * 0.9 * 0.9) / 3)
    assert not exact.best.finished
    assert _tokens(first) == [(0,)]


# States


def _mean_of_rows(cache: Tensor) -> Tensor:
    """[rows time vocab] -> [rows vocab], with later rows weighing more."""
    weights = torch.arange(1.0, cache.shape[1] + 1).view(1, -1, 1)
    return (cache * weights).sum(1)


def _cached_model(table: Tensor) -> FunctionModel:
    """Like an attention cache: the state has an entry for each token, and the logits depend on all."""

    def step(tokens: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        cache = torch.cat([cache, table[tokens].unsqueeze(1)], dim=1)
        return _mean_of_rows(cache), cache

    return FunctionModel(step, start=lambda prompts: (_mean_of_rows(table[prompts]), table[prompts]))


LOCKSTEP = {name: strategy for name, strategy in STRATEGIES.items() if not name.startswith("staggered")}


@pytest.mark.parametrize("strategy", LOCKSTEP.values(), ids=LOCKSTEP.keys())
def test_a_growing_cache_follows_its_beams(strategy: Strategy) -> None:
    table = normal(8, 7, 7)
    prompts = torch.tensor([[1, 2, 3], [4, 5, 6]])
    whole = PrefixModel(lambda prefix: _mean_of_rows(table[prefix]))
    found = decode(_cached_model(table), prompts, strategy, max_length=5, end=0)
    assert found == decode(whole, prompts, strategy, max_length=5, end=0)


class _Named(NamedTuple):
    hidden: Tensor
    rest: tuple[Any, ...]


def _pack(state: Tensor) -> _Named:
    """The same state in every kind of container, beside things that are to be passed on untouched."""
    return _Named(state, ({"a": state, "b": [state, None]}, (state, "text", 3), torch.tensor(2.5)))


def _unpack(packed: Any) -> Tensor:
    assert isinstance(packed, _Named)
    mapping, (third, text, number), scalar = packed.rest
    second, nothing = mapping["b"]
    assert isinstance(mapping["b"], list)
    assert (text, number, nothing, float(scalar)) == ("text", 3, None, 2.5)
    assert all(torch.equal(packed.hidden, other) for other in (mapping["a"], second, third))
    return packed.hidden


@every_strategy
def test_states_may_be_nested(strategy: Strategy) -> None:
    plain = PrefixHashModel(9, seed=6)

    def start(inputs: Any) -> tuple[Tensor, Any]:
        logits, state = plain.start(inputs)
        return logits, _pack(state)

    def step(tokens: Tensor, packed: Any) -> tuple[Tensor, Any]:
        logits, state = plain.step(tokens, _unpack(packed))
        return logits, _pack(state)

    found = decode(FunctionModel(step, start=start), [0, 1, 2], strategy, max_length=5, end=0)
    assert found == decode(plain, [0, 1, 2], strategy, max_length=5, end=0)


@every_strategy
def test_inputs_may_be_the_state_that_a_begin_token_is_fed_to(strategy: Strategy) -> None:
    table = normal(3, 6, 6)
    model = FunctionModel(lambda tokens, state: (table[tokens], state), start=4)
    expected = decode(MarkovModel(table), [4, 4], strategy, max_length=4, end=0)
    assert decode(model, torch.zeros(2, 3), strategy, max_length=4, end=0) == expected
    assert decode(model, ["a", "b"], strategy, max_length=4, end=0) == expected


@pytest.mark.parametrize("strategy", LOCKSTEP.values(), ids=LOCKSTEP.keys())
def test_a_model_of_prefixes_sees_prompt_and_output(strategy: Strategy) -> None:
    table = normal(3, 6, 6)
    seen = []

    def last_token(prefix: Tensor) -> Tensor:
        seen.append(prefix)
        return table[prefix[:, -1]]

    prompts = torch.tensor([[5, 5, 1], [3, 3, 2]])
    found = decode(PrefixModel(last_token), prompts, strategy, max_length=4, end=0)
    assert found == decode(MarkovModel(table), [1, 2], strategy, max_length=4, end=0)
    assert all(tuple(row[:3].tolist()) in {(5, 5, 1), (3, 3, 2)} for prefix in seen for row in prefix)


# Guidance


def _same_words(found: Sequence[Hypotheses], expected: Sequence[Hypotheses]) -> bool:
    return [_tokens(each) for each in found] == [_tokens(each) for each in expected]


@guidable_strategy
def test_an_anti_language_model_without_strength_changes_nothing(strategy: Strategy) -> None:
    """No end here: a guided group never stops early, and its beams then matter to later groups longer."""
    model, other = PrefixHashModel(9, seed=1), MarkovModel(normal(2, 9, 9))
    plain = decode(model, [0, 1], strategy, max_length=5)
    for guided in (
        AntiLanguageModel(model, other, strength=0.0),
        AntiLanguageModel(model, other, strength=0.7, first=0),
    ):
        assert decode(guided, [0, 1], strategy, max_length=5) == plain


@pytest.mark.parametrize("name", ["greedy", "beam", "siblings", "sampling", "nucleus"])
def test_an_anti_language_model_without_strength_changes_no_ends_either(name: str) -> None:
    model, other = PrefixHashModel(9, seed=1), MarkovModel(normal(2, 9, 9))
    plain = decode(model, [0, 1], STRATEGIES[name], max_length=5, end=[0, 1])
    guided = AntiLanguageModel(model, other, strength=0.0)
    assert decode(guided, [0, 1], STRATEGIES[name], max_length=5, end=[0, 1]) == plain


@guidable_strategy
def test_an_anti_language_model_with_strength_changes_results(strategy: Strategy) -> None:
    model, other = PrefixHashModel(9, seed=1), MarkovModel(normal(2, 9, 9))
    guided = AntiLanguageModel(model, other, strength=0.9)
    plain = decode(model, [0, 1], strategy, max_length=5)
    assert not _same_words(decode(guided, [0, 1], strategy, max_length=5), plain)


@pytest.mark.parametrize("first", [None, 1, 3])
@pytest.mark.parametrize("name", ["greedy", "beam", "sampling"])
def test_the_score_is_log_p_less_the_language_model_s_share(name: str, first: int | None) -> None:
    model, other = PrefixHashModel(9, seed=1), PrefixHashModel(9, seed=2)
    guided = AntiLanguageModel(model, other, strength=0.4, first=first)
    for place, found in enumerate(decode(guided, [0, 1], STRATEGIES[name], max_length=5, end=0)):
        for h in found:
            log_u = rescore(other, [0, 1], place, h.tokens[:first])
            assert h.log_prob == pytest.approx(rescore(model, [0, 1], place, h.tokens), abs=1e-5)
            assert h.score == pytest.approx(h.log_prob - 0.4 * log_u, abs=1e-5)


def test_guidance_may_raise_totals_so_a_search_does_not_stop_early() -> None:
    """(0,) scores log .6 - log .9 = -.41. Each 1 instead adds log .4 - log .1 = 1.39."""
    model = _markov([0.6, 0.4], [0.6, 0.4])
    common = _markov([0.9, 0.1], [0.9, 0.1])
    guided = AntiLanguageModel(model, common, strength=1.0)
    (found,) = decode(guided, [0], BeamSearch(beams=1), max_length=3, end=0)
    assert _tokens(found) == [(1, 1, 1)]
    assert found.best.score == pytest.approx(3 * math.log(4))


# What belongs to the caller


@every_strategy
def test_gradients_are_off_inside_and_on_outside(strategy: Strategy) -> None:
    table = torch.nn.Parameter(normal(1, 6, 6))
    turns = steps(_Spy(MarkovModel(table)), [0, 1], strategy, max_length=4)
    for turn in turns:
        assert torch.is_grad_enabled()
        assert all(len(each) > 0 for each in turn.hypotheses)
    assert torch.is_grad_enabled()


def test_a_search_that_is_given_up_leaves_gradients_on() -> None:
    turns = steps(MarkovModel(normal(1, 6, 6)), [0, 1], BeamSearch(beams=2), max_length=4)
    next(iter(turns))
    del turns
    assert torch.is_grad_enabled()


class _Hoarder:
    """A model that hands out its own tensors and trusts nobody to write to them."""

    def __init__(self, table: Tensor, guidance: Tensor | None) -> None:
        self._table = table
        self._guidance = guidance
        self._handed_out: list[tuple[Tensor, Tensor]] = []

    def start(self, inputs: Tensor) -> tuple[Any, Tensor]:
        return self._answer(inputs), self._note(inputs)

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Any, Tensor]:
        return self._answer(tokens), self._note(tokens.clone())

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return self._note(state[rows])

    def join(self, states: Sequence[Tensor]) -> Tensor:
        return self._note(torch.cat(list(states)))

    def _answer(self, tokens: Tensor) -> Any:
        logits = self._note(self._table[tokens])
        return logits if self._guidance is None else Guided(logits, self._note(self._guidance[tokens]))

    def _note(self, tensor: Tensor) -> Tensor:
        self._handed_out.append((tensor, tensor.clone()))
        return tensor

    def untouched(self) -> bool:
        return all(torch.equal(now, before) for now, before in self._handed_out)


@every_strategy
@pytest.mark.parametrize("dtype", [torch.float32, torch.double, torch.bfloat16])
def test_nothing_the_model_hands_out_is_written_to(strategy: Strategy, dtype: torch.dtype) -> None:
    _assert_read_only(_Hoarder(normal(1, 7, 7).to(dtype), guidance=None), strategy)


@guidable_strategy
def test_nothing_a_guided_model_hands_out_is_written_to(strategy: Strategy) -> None:
    _assert_read_only(_Hoarder(normal(1, 7, 7), guidance=normal(2, 7, 7)), strategy)


def _assert_read_only(model: _Hoarder, strategy: Strategy) -> None:
    inputs = torch.tensor([1, 2, 3])
    decode(model, inputs, strategy, max_length=5, min_length=3, end=[0, 1], unique=True)
    assert model.untouched()
    assert inputs.tolist() == [1, 2, 3]


class _HoardingTerm:
    """The Hamming term, with copies of all it has answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[Tensor, Tensor]] = []

    def penalty(self, tokens: Tensor, prefix: Tensor, earlier: Earlier) -> Tensor:
        answer = Hamming().penalty(tokens, prefix, earlier).float()
        self.answers.append((answer, answer.clone()))
        return answer


def test_nothing_a_term_hands_out_is_written_to() -> None:
    term = _HoardingTerm()
    found = decode(PrefixHashModel(9), [0], DiverseBeamSearch(groups=3, diversity=term), max_length=4)
    assert found == decode(PrefixHashModel(9), [0], DiverseBeamSearch(groups=3), max_length=4)
    assert all(torch.equal(now, before) for now, before in term.answers)


def test_a_nan_is_seen_even_where_min_length_rules_its_token_out() -> None:
    model = MarkovModel(torch.tensor([[math.nan, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    with pytest.raises(ModelError, match="NaN at token 0"):
        decode(model, [0], BeamSearch(beams=2), max_length=3, min_length=3, end=0)
