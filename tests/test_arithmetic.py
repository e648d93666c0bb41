"""Arithmetic sampling: decodes worked by hand, its laws, and an exact and naive decoder to compare with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import ArithmeticSampling, DiverseArithmeticSampling, FunctionModel, Hypotheses, decode, steps
from beamsplit.search import noise
from beamsplit.search.plan import CodedRule
from beamsplit.strategies.arithmetic import without_dips
from beamsplit.testing import MarkovModel, PrefixHashModel, exhaustive_search
from search.cases import every_schedule, law, normal
from test_strategies import HALVE, SLOPE, alone, assert_follows, by_hand, close, draw, markov


def by_code(
    model: Any, strategy: Any, *, max_length: int, inputs: Sequence[int] = (0,), **options: Any
) -> Tensor:
    """Return what is drawn without ends, code by code: [batch group sample time]."""
    *_, last = steps(model, list(inputs), strategy, max_length=max_length, end=None, **options)
    (selection,) = last.selections
    assert selection.beams_after is not None
    return selection.beams_after.tokens


# By hand


@pytest.fixture
def eighths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every random number be 1/8."""
    monkeypatch.setattr(noise, "uniform", lambda keys: torch.full(keys.shape, 0.125, dtype=torch.double))


@pytest.mark.usefixtures("eighths")
def test_four_codes_worked_by_hand() -> None:
    # First: a up to .5, b up to .8, c up to 1. After a: . up to .1, a up to .2, b up to .8, c.
    # After b: . up to .2, a up to .7, b up to .8, c. After c: . up to .3, a up to .7, b up to .9, c.
    # The gap between codes is 1/4 at first. Where it is 1 or more, the next draw is by a random number.
    #   1/8: a, .125/.5 = .25, gap .5        ab, (.25 - .2)/.6 = .083, gap .83     ab.
    #   3/8: a, .375/.5 = .75, gap .5        ab, (.75 - .2)/.6 = .917, gap .83     abc
    #   5/8: b, .125/.3 = .417, gap .83      ba, gap 1.7: 1/8                      baa
    #   7/8: c, gap 1.25: 1/8                c.
    (found,) = by_hand(ArithmeticSampling(samples=4), max_length=3)
    (expected,) = close(
        [[("ab.", 0.06, 0.06), ("abc", 0.06, 0.06), ("baa", 0.015, 0.015), ("c.", 0.06, 0.06)]]
    )
    assert sorted(found) == expected


@pytest.mark.usefixtures("eighths")
@every_schedule
def test_two_groups_worked_by_hand(schedule: Any) -> None:
    # Both groups have the codes 1/8 and 5/8, and a gap of 1/2, which is 1 or more after the first token.
    # Group 0: 1/8 is a, and then 1/8 is a; 5/8 is b, and then 1/8 is the end.
    # Group 1 finds a and b halved: .25, .15, .2 of .6, that is up to .417, .667, 1. So 1/8 is a, 5/8 is b.
    # Then a and the end are halved. After a: .05, .05, .6, .2 of .9, so 1/8 is b, from .111 to .778.
    # After b: .1, .25, .1, .2 of .65, so 1/8 is the end, up to .154.
    strategy = DiverseArithmeticSampling(groups=2, samples_per_group=2, strength=HALVE, schedule=schedule)
    assert by_hand(strategy, max_length=2) == close(
        [[("b.", 0.06, 0.06), ("aa", 0.05, 0.05)], [("ab", 0.15, 0.30), ("b.", 0.015, 0.06)]]
    )


def drawn_by(code: float, probabilities: Sequence[float]) -> int:
    """Return the token that the rule draws by a code."""
    rule = ArithmeticSampling(samples=1).plan().rule
    assert isinstance(rule, CodedRule)
    order = torch.tensor(probabilities, dtype=torch.double).log().view(1, 1, 1, -1)
    random = torch.tensor([[[code]]], dtype=torch.double)  # which is what a single sample draws by
    return int(rule.holding(rule.root_codes(torch.zeros_like(random), 1), random).pick(order, 1))


@pytest.mark.parametrize(
    ("code", "token"),
    # A token has its part of the interval from where the one before it ends: .25 is where token 2 begins.
    [(0.0, 1), (0.2499, 1), (0.25, 2), (0.7499, 2), (0.75, 4), (1 - 2.0**-53, 4)],
)
def test_tokens_without_probability_have_no_part_of_the_interval(code: float, token: int) -> None:
    assert drawn_by(code, [0, 0.25, 0.5, 0, 0.25, 0]) == token


def test_a_single_token_is_drawn_by_any_code() -> None:
    assert [drawn_by(code, [0, 1.0, 0]) for code in (0.0, 0.5, 1 - 2.0**-53)] == [1, 1, 1]


# The naive decoder: one code after another, in fractions

Weights = Callable[[list[int]], Sequence[float]]


def random_numbers(seed: int, group: int, time: int, count: int) -> list[Fraction]:
    """Return the random numbers of one step of a group; -1 is the time before the first."""
    (key,) = (noise.input_keys([(seed, 0)], torch.device("cpu")),)
    keys = noise.slot_keys(key, range(group, group + 1), time, count)
    return [Fraction(number) for number in noise.uniform(keys).flatten().tolist()]


def codes_of(samples: int, seed: int, group: int = 0) -> list[Fraction]:
    """Return the codes of an input: evenly spread, and shifted by its random number."""
    (shift,) = random_numbers(seed, group, -1, 1)
    return [(Fraction(i, samples) + shift) % 1 for i in range(samples)]


def naive_samples(weights: Weights, samples: int, seed: int, length: int, group: int = 0) -> list[list[int]]:
    """Decode codes without ends, given the weights of the tokens after every prefix."""
    found = []
    for i, code in enumerate(codes_of(samples, seed, group)):
        gap, said = Fraction(1, samples), list[int]()
        for time in range(length):
            if gap >= 1:
                code = random_numbers(seed, group, time, samples)[i]
            exact = [Fraction(weight) for weight in weights(said)]
            until = [each / sum(exact) for each in accumulate(exact)]
            token = next(token for token, bound in enumerate(until) if bound > code)
            share = exact[token] / sum(exact)
            code, gap = (code - until[token] + share) / share, gap / share
            said.append(token)
        found.append(said)
    return found


def markov_weights(table: Tensor, first: int, temperature: float = 1.0) -> Weights:
    """Return the weights of a Markov model whose input is `first`."""
    rows: list[list[float]] = (table / temperature).exp().tolist()
    return lambda said: rows[said[-1] if said else first]


@law
@given(seed=st.integers(0, 9999), samples=st.integers(1, 30), temperature=st.sampled_from([0.5, 1.0, 1.7]))
def test_samples_are_those_of_a_naive_decoder(seed: int, samples: int, temperature: float) -> None:
    table = normal(seed, 5, 5, dtype=torch.double)
    strategy = ArithmeticSampling(samples=samples, temperature=temperature)
    drawn = by_code(MarkovModel(table), strategy, max_length=6, inputs=[3], seed=seed)
    assert drawn[0, 0].tolist() == naive_samples(markov_weights(table, 3, temperature), samples, seed, 6)


# Laws


models = st.builds(PrefixHashModel, st.integers(2, 4), seed=st.integers(0, 9999), scale=st.just(2.0))


@law
@given(model=models, samples=st.sampled_from([1, 2, 3, 7, 20, 64]), seed=st.integers(0, 9999))
def test_every_sequence_is_drawn_as_often_as_it_should_be_rounded_up_or_down(
    model: PrefixHashModel, samples: int, seed: int
) -> None:
    (found,) = decode(model, [1], ArithmeticSampling(samples=samples), max_length=3, end=0, seed=seed)
    (everything,) = exhaustive_search(model, [1], max_length=3, end=0)
    counts = Counter(h.tokens for h in found)
    assert sum(counts.values()) == samples
    assert_counts(counts, {h.tokens: math.exp(h.log_prob) for h in everything}, samples)


def assert_counts(counts: Counter[Any], expected: dict[Any, float], samples: int) -> None:
    """Raise unless each count is its share of the samples, rounded up or down."""
    assert sum(expected.values()) == pytest.approx(1)
    for outcome, p in expected.items():
        assert math.floor(samples * p - 1e-4) <= counts[outcome] <= math.ceil(samples * p + 1e-4), outcome


@law
@given(model=models, seed=st.integers(0, 9999))
def test_a_sequence_of_more_than_one_in_n_is_never_missed(model: PrefixHashModel, seed: int) -> None:
    (found,) = decode(model, [1], ArithmeticSampling(samples=25), max_length=3, end=0, seed=seed)
    (everything,) = exhaustive_search(model, [1], max_length=3, end=0)
    assert {h.tokens for h in everything if math.exp(h.log_prob) > 1 / 25} <= {h.tokens for h in found}


@law
@given(seed=st.integers(0, 9999))
def test_samples_in_the_order_of_their_codes_are_in_the_order_of_their_tokens(seed: int) -> None:
    drawn = by_code(PrefixHashModel(5, seed=seed), ArithmeticSampling(samples=30), max_length=4, seed=seed)
    by_rising_code = sorted(zip(codes_of(30, seed), drawn[0, 0].tolist(), strict=True))
    sequences = [sequence for _, sequence in by_rising_code]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize("sample", range(3))
def test_each_sample_is_a_draw_from_the_model(sample: int) -> None:
    drawn = by_code(
        markov(alone(SLOPE)), ArithmeticSampling(samples=3), max_length=2, inputs=[0] * 2500, seed=4
    )
    expected = {(i, j): SLOPE[i] * SLOPE[j] for i in range(4) for j in range(4)}
    assert_follows([tuple(tokens) for tokens in drawn[:, 0, sample].tolist()], expected)


def test_means_vary_less_than_those_of_independent_samples() -> None:
    # The number of zeros among ten coins has a variance of 2.5; ten spread coins show five zeros always.
    found = draw(ArithmeticSampling(samples=10), alone([0.5, 0.5]), many=100)
    assert {sum(h.tokens == (0,) for h in each) for each in found} == {5}


# Groups


def test_given_the_groups_before_it_a_group_is_spread_over_the_penalised_model() -> None:
    strategy = DiverseArithmeticSampling(groups=3, samples_per_group=4, strength=HALVE)
    drawn = by_code(markov(alone(SLOPE)), strategy, max_length=1, inputs=[0] * 200)[..., 0].tolist()
    for groups in drawn:
        for g, group in enumerate(groups):
            before = Counter(token for earlier in groups[:g] for token in earlier)
            weights = [p / 2 ** before[token] for token, p in enumerate(SLOPE)]
            shares = {token: weight / sum(weights) for token, weight in enumerate(weights)}
            assert_counts(Counter(group), shares, 4)


@pytest.mark.parametrize("sample", range(2))
def test_given_the_groups_before_it_each_sample_is_a_draw_from_the_penalised_model(sample: int) -> None:
    strategy = DiverseArithmeticSampling(groups=2, samples_per_group=2, strength=HALVE)
    drawn = by_code(markov(alone(SLOPE)), strategy, max_length=1, inputs=[0] * 9000)[..., 0].tolist()
    for said in ((0, 1), (0, 2), (1, 3)):  # by group 0
        weights = [p / 2 ** said.count(token) for token, p in enumerate(SLOPE)]
        found = [second[sample] for first, second in drawn if tuple(first) == said]
        assert_follows(found, {token: weight / sum(weights) for token, weight in enumerate(weights)})


def test_without_strength_groups_are_searches_with_shifts_of_their_own() -> None:
    strategy = DiverseArithmeticSampling(groups=2, samples_per_group=8, strength=0.0)
    table = normal(5, 4, 4, dtype=torch.double)
    drawn = by_code(MarkovModel(table), strategy, max_length=5, seed=8)
    for group in range(2):
        assert drawn[0, group].tolist() == naive_samples(markov_weights(table, 0), 8, 8, 5, group)


# Precision: a code is used for as long as samples may share a prefix, and random numbers are used then


def coins(samples: int, length: int, seed: int = 0) -> Tensor:
    """Return fair coins: [sample length]."""
    strategy = ArithmeticSampling(samples=samples)
    return by_code(markov(alone([0.5, 0.5])), strategy, max_length=length, seed=seed)[0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_64_samples_of_six_coins_are_all_there_are(seed: int) -> None:
    assert sorted(coins(64, 6, seed).tolist()) == [[int(bit) for bit in f"{i:06b}"] for i in range(64)]


def test_after_the_bits_of_codes_are_used_up_draws_are_exact_still() -> None:
    # Each coin takes a bit of a code, which has 53.
    late = coins(400, 160)[:, 60:].reshape(-1, 4)
    words = {tuple(int(bit) for bit in f"{i:04b}"): 1 / 16 for i in range(16)}
    assert_follows([tuple(word) for word in late.tolist()], words)


def test_late_coins_have_nothing_in_common() -> None:
    late = coins(400, 160)[:, 60:]
    for one, other in ((late[:-1], late[1:]), (late[:, :-1], late[:, 1:])):
        pairs = torch.stack([one.flatten(), other.flatten()], 1).tolist()
        assert_follows([tuple(pair) for pair in pairs], {(i, j): 0.25 for i in (0, 1) for j in (0, 1)})


def test_sixty_tokens_of_a_large_vocabulary_are_exact_draws() -> None:
    # Each takes 15 bits, so that a code would be used up after four.
    def logits(rows: int) -> Tensor:
        return torch.zeros(rows, 2**15)

    model = FunctionModel(
        lambda tokens, state: (logits(len(tokens)), state),
        start=lambda inputs: (logits(len(inputs)), torch.zeros(len(inputs))),
    )
    drawn = by_code(model, ArithmeticSampling(samples=32), max_length=60)[0, 0]
    # First tokens are 1/32 of the vocabulary apart.
    assert len({int(token) % 1024 for token in drawn[:, 0]}) == 1
    for bits in (0, 6, 11):  # the last, the middle and the first bits of tokens
        late = (drawn[:, 1:].flatten() >> bits) % 16
        assert_follows(late.tolist(), dict.fromkeys(range(16), 1 / 16))


def test_parts_of_the_interval_are_precise_to_a_millionth_of_a_millionth() -> None:
    weights = normal(1, 2**15, dtype=torch.double).exp()
    shares = [float(share) for share in (weights / weights.sum())]
    exact = [Fraction(share) for share in shares]
    until = list(accumulate(exact))
    for token in range(0, 2**15, 1500):
        begin, end = (until[token] - exact[token]) / until[-1], until[token] / until[-1]
        assert drawn_by(float(begin) + 1e-12, shares) == token
        assert drawn_by(float(end) - 1e-12, shares) == token


def test_the_models_rounding_errors_do_not_grow_from_token_to_token() -> None:
    # They differ with the batch, and stretched a hundredfold at each of 12 tokens they would be all there is.
    class Rounded(PrefixHashModel):
        def _logits(self, state: Tensor) -> Tensor:
            return super()._logits(state) * (1 + 1e-7)

    strategy = ArithmeticSampling(samples=20)
    drawn = [
        by_code(model(100), strategy, max_length=12, inputs=range(20)) for model in (PrefixHashModel, Rounded)
    ]
    assert torch.equal(*drawn)


def test_sums_that_rounding_has_bent_are_mended() -> None:
    # In thousandths. The third token has no weight, and the fourth's sum is less than the second's.
    weight, until = torch.tensor([[100, 300, 0, 1, 599], [100, 400, 402, 399, 1000]])
    assert without_dips(until, weight).tolist() == [100, 400, 400, 400, 1000]


# Random numbers


def test_uniform_numbers_are_uniform() -> None:
    keys = noise.slot_keys(torch.arange(50), range(10), 3, 10)
    numbers = noise.uniform(keys)
    assert numbers.dtype == torch.double
    assert numbers.shape == keys.shape
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    assert_follows((numbers.flatten() * 20).long().tolist(), dict.fromkeys(range(20), 1 / 20))
    # Also in their last bits, which is what fresh bits of codes are made of.
    assert_follows(
        (numbers.flatten() * 2**53).long().remainder(16).tolist(), dict.fromkeys(range(16), 1 / 16)
    )


def test_it_works_in_half_precision() -> None:
    class Half(PrefixHashModel):
        def _logits(self, state: Tensor) -> Tensor:
            return super()._logits(state).to(torch.bfloat16)

    found: list[Hypotheses] = decode(Half(9), [0, 1], ArithmeticSampling(samples=5, top_p=0.9), max_length=4)
    assert [len(each) for each in found] == [5, 5]
