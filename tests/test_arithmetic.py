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
from beamsplit.testing import MarkovModel, PrefixHashModel, exhaustive_search
from search.cases import every_schedule, law, normal
from test_strategies import HALVE, SLOPE, alone, assert_follows, by_hand, close, draw, markov

Sequences = list[tuple[int, ...]]


# By hand


@pytest.fixture
def eighths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every random number be 1/8."""
    monkeypatch.setattr(noise, "uniform", lambda keys: torch.full(keys.shape, 0.125, dtype=torch.double))


@pytest.mark.usefixtures("eighths")
def test_four_codes_worked_by_hand() -> None:
    # First: a up to .5, b up to .8, c up to 1. After a: . up to .1, a up to .2, b up to .8, c.
    # After b: . up to .2, a up to .7, b up to .8, c. After c: . up to .3, a up to .7, b up to .9, c.
    #   1/8: a, .125/.5 = .25      ab, (.25 - .2)/.6 = .083      ab.
    #   3/8: a, .375/.5 = .75      ab, (.75 - .2)/.6 = .917      abc
    #   5/8: b, .125/.3 = .417     ba, (.417 - .2)/.5 = .433     bab
    #   7/8: c, .075/.2 = .375     ca, (.375 - .3)/.4 = .188     caa
    (found,) = by_hand(ArithmeticSampling(samples=4), max_length=3)
    (expected,) = close(
        [[("ab.", 0.06, 0.06), ("abc", 0.06, 0.06), ("bab", 0.09, 0.09), ("caa", 0.008, 0.008)]]
    )
    assert sorted(found) == expected


@pytest.mark.usefixtures("eighths")
@every_schedule
def test_two_groups_worked_by_hand(schedule: Any) -> None:
    # Both groups have the codes 1/8 and 5/8. Group 0:
    #   .125: a, .25               ab
    #   .625: b, .125/.3 = .417    ba
    # Group 1 finds a and b halved at both steps. First: .25, .15, .2 of .6, that is up to .417, .667, 1.
    #   .125: a, .125/.417 = .3
    #   .625: b, .208/.25 = .833
    # Then, after a: .1, .05, .3, .2 of .65, so b goes from .231 to .692: ab.
    # After b: .2, .25, .05, .2 of .7, so c goes from .714 to 1: bc.
    strategy = DiverseArithmeticSampling(groups=2, samples_per_group=2, strength=HALVE, schedule=schedule)
    assert by_hand(strategy, max_length=2) == close(
        [[("ab", 0.30, 0.30), ("ba", 0.15, 0.15)], [("ab", 0.075, 0.30), ("bc", 0.03, 0.06)]]
    )


def drawn_by(code: float, probabilities: Sequence[float]) -> int:
    """Return the token that the rule draws by a code."""
    rule = ArithmeticSampling(samples=1).plan().rule
    assert isinstance(rule, CodedRule)
    order = torch.tensor(probabilities, dtype=torch.double).log().view(1, 1, 1, -1)
    held = torch.tensor([[[code]]], dtype=torch.double)
    return int(rule.holding(held, torch.zeros_like(held)).pick(order, 1))


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


def codes_of(samples: int, seed: int, group: int = 0) -> list[Fraction]:
    """Return the codes of an input: evenly spread, and shifted by its random number."""
    keys = noise.slot_keys(noise.input_keys([(seed, 0)], torch.device("cpu")), range(group, group + 1), -1, 1)
    shift = Fraction(noise.uniform(keys).item())
    return [(Fraction(i, samples) + shift) % 1 for i in range(samples)]


def naive_decoder(
    weights: Callable[[tuple[int, ...]], Sequence[float]], code: Fraction, max_length: int, end: int | None
) -> tuple[int, ...]:
    """Decode a code, given the weights of the tokens after every prefix."""
    said: tuple[int, ...] = ()
    while len(said) < max_length and end not in said:
        exact = [Fraction(weight) for weight in weights(said)]
        until = list(accumulate(exact))
        token = next(token for token, sum_ in enumerate(until) if sum_ > code * until[-1])
        code = (code * until[-1] - until[token] + exact[token]) / exact[token]
        said = (*said, token)
    return said


def naive_samples(
    weights: Callable[[tuple[int, ...]], Sequence[float]], samples: int, seed: int, **limits: Any
) -> Sequences:
    return [naive_decoder(weights, code, **limits) for code in codes_of(samples, seed)]


@law
@given(seed=st.integers(0, 9999), samples=st.integers(1, 9), temperature=st.sampled_from([0.5, 1.0, 1.7]))
def test_samples_are_those_of_a_naive_decoder(seed: int, samples: int, temperature: float) -> None:
    table = normal(seed, 7, 7, dtype=torch.double)
    strategy = ArithmeticSampling(samples=samples, temperature=temperature)
    limits = {"max_length": 6, "end": 0}
    found = decode(MarkovModel(table), [3], strategy, seed=seed, **limits)[0]  # type: ignore[arg-type]

    def weights(said: tuple[int, ...]) -> list[float]:
        row: list[float] = (table[said[-1] if said else 3] / temperature).exp().tolist()
        return row

    naive = naive_samples(weights, samples, seed, **limits)
    assert sorted(h.tokens for h in found) == sorted(naive)


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


def by_code(
    model: Any, strategy: Any, *, max_length: int, inputs: Sequence[int] = (0,), **options: Any
) -> Tensor:
    """Return what is drawn without ends, code by code: [batch group sample time]."""
    *_, last = steps(model, list(inputs), strategy, max_length=max_length, end=None, **options)
    (selection,) = last.selections
    assert selection.beams_after is not None
    return selection.beams_after.tokens


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


def test_without_strength_groups_are_searches_with_other_seeds() -> None:
    strategy = DiverseArithmeticSampling(groups=2, samples_per_group=3, strength=0.0)
    table = normal(5, 6, 6, dtype=torch.double)
    drawn = by_code(MarkovModel(table), strategy, max_length=4, seed=8)

    def weights(said: tuple[int, ...]) -> list[float]:
        row: list[float] = table[said[-1] if said else 0].exp().tolist()
        return row

    for group in range(2):
        codes = codes_of(3, 8, group)
        naive = [list(naive_decoder(weights, code, max_length=4, end=None)) for code in codes]
        assert drawn[0, group].tolist() == naive


# Precision: codes never run out of bits


def coins(samples: int, length: int, seed: int = 0) -> Tensor:
    """Return [sample length] fair coins: each takes one bit of a code, of which there are 53."""
    return by_code(
        markov(alone([0.5, 0.5])), ArithmeticSampling(samples=samples), max_length=length, seed=seed
    )[0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_a_code_is_followed_to_its_last_bits(seed: int) -> None:
    # Rounding may change the last bit, which rarely matters to the 45th coin.
    naive = naive_samples(lambda _: [0.5, 0.5], 3, seed, max_length=45, end=None)
    assert [tuple(each) for each in coins(3, 45, seed).tolist()] == naive


def test_after_the_last_bit_of_a_code_draws_are_exact_still() -> None:
    late = coins(400, 160)[:, 60:].reshape(-1, 4)
    words = {tuple(int(bit) for bit in f"{i:04b}"): 1 / 16 for i in range(16)}
    assert_follows([tuple(word) for word in late.tolist()], words)


def test_late_bits_of_samples_have_nothing_in_common() -> None:
    late = coins(400, 160)[:, 60:]
    for one, other in ((late[:-1], late[1:]), (late[:, :-1], late[:, 1:])):
        pairs = torch.stack([one.flatten(), other.flatten()], 1).tolist()
        assert_follows([tuple(pair) for pair in pairs], {(i, j): 0.25 for i in (0, 1) for j in (0, 1)})


def test_sixty_tokens_of_a_large_vocabulary_are_exact_draws() -> None:
    # Each takes 15 bits, so that a code is used up after four.
    model = FunctionModel(
        lambda tokens, state: (torch.zeros(len(tokens), 2**15), state),
        start=lambda x: (torch.zeros(len(x), 2**15), x),
    )
    drawn = by_code(model, ArithmeticSampling(samples=32), max_length=60, inputs=torch.zeros(1, 1))[0, 0]
    # The first token: the middles of 32 parts, moved by the same shift.
    assert len({int(token) % 1024 for token in drawn[:, 0]}) == 1
    for bits in (0, 6, 11):  # the last, the middle and the first bits of tokens
        late = (drawn[:, 4:].flatten() >> bits) % 16
        assert_follows(late.tolist(), dict.fromkeys(range(16), 1 / 16))


def test_parts_of_the_interval_are_precise_to_a_millionth_of_a_millionth() -> None:
    weights = normal(1, 2**15, dtype=torch.double).exp()
    shares = [float(share) for share in (weights / weights.sum())]
    exact = [Fraction(share) for share in shares]
    until = list(accumulate(exact))
    for token in range(0, 2**15, 1500):
        begin, end_ = (until[token] - exact[token]) / until[-1], until[token] / until[-1]
        assert drawn_by(float(begin) + 1e-12, shares) == token
        assert drawn_by(float(end_) - 1e-12, shares) == token


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
