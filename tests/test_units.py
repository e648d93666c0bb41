"""The small parts: noise, hypotheses, scoring, models made of functions, and the public surface."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import beamsplit
from beamsplit import (
    AntiLanguageModel,
    BeamSearch,
    FunctionModel,
    Guided,
    Hypotheses,
    Hypothesis,
    LengthNormalised,
    LogProb,
    PrefixModel,
    Scorer,
    decode,
)
from beamsplit.functions import join_tensors, map_tensors
from beamsplit.model import Answer
from beamsplit.search.noise import gumbel, slot_keys
from beamsplit.testing import MarkovModel, PrefixHashModel

# Noise

EULER = 0.5772156649015329
GUMBEL_VARIANCE = math.pi**2 / 6


def keys_of(seeds: Sequence[int], groups: int = 1, time: int = 0, beams: int = 1) -> Tensor:
    return slot_keys(torch.tensor(seeds), range(groups), time, beams)


def uniform(noise: Tensor) -> Tensor:
    """What standard Gumbel noise is in (0, 1), by its distribution function."""
    return torch.exp(-torch.exp(-noise.double()))


def kolmogorov(sample: Tensor) -> float:
    """sqrt(n) times the largest gap between a sample's distribution and the uniform one."""
    ranked = sample.flatten().sort().values
    n = len(ranked)
    steps = torch.arange(n + 1, dtype=torch.double) / n
    gap = torch.maximum((ranked - steps[:-1]).max(), (steps[1:] - ranked).max())
    return float(gap) * math.sqrt(n)


def correlation(left: Tensor, right: Tensor) -> float:
    """Times sqrt(n), so that independent samples give about one."""
    pair = torch.stack([left.flatten(), right.flatten()]).double()
    return float(torch.corrcoef(pair)[0, 1]) * math.sqrt(pair.shape[1])


# A value of 2.2 or more has a chance of about one in ten thousand (twice exp(-2 * 2.2 ** 2)).
UNLIKELY_GAP = 2.2
UNLIKELY_CORRELATION = 4.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_has_the_gumbel_distribution(dtype: torch.dtype) -> None:
    noise = gumbel(keys_of(range(200)).flatten(), 500, dtype)
    assert noise.dtype == dtype
    assert noise.shape == (200, 500)
    assert bool(noise.isfinite().all())
    error = math.sqrt(GUMBEL_VARIANCE / noise.numel())
    assert float(noise.mean()) == pytest.approx(EULER, abs=4 * error)
    assert float(noise.var()) == pytest.approx(GUMBEL_VARIANCE, rel=0.03)
    assert kolmogorov(uniform(noise)) < UNLIKELY_GAP


def test_the_test_for_a_distribution_can_fail() -> None:
    noise = gumbel(keys_of(range(200)).flatten(), 500, torch.float64)
    assert kolmogorov(uniform(noise + 0.03)) > UNLIKELY_GAP
    assert abs(correlation(noise[:-1], noise[1:] + 0.05 * noise[:-1])) > UNLIKELY_CORRELATION


@pytest.mark.parametrize("axis", ["seed", "time", "group", "beam", "token"])
def test_noise_is_uniform_along_every_axis(axis: str) -> None:
    # One token of one slot, while one of the five things it depends on counts up.
    count = 20_000
    match axis:
        case "seed":
            noise = gumbel(keys_of(range(count)).flatten(), 1, torch.float64)
        case "time":
            keys = torch.cat([keys_of([3], time=t).flatten() for t in range(2_000)])
            noise = gumbel(keys, 1, torch.float64)
        case "group":
            noise = gumbel(keys_of([3], groups=count).flatten(), 1, torch.float64)
        case "beam":
            noise = gumbel(keys_of([3], beams=count).flatten(), 1, torch.float64)
        case _:
            noise = gumbel(keys_of([3]).flatten(), count, torch.float64)
    sample = uniform(noise).flatten()
    assert kolmogorov(sample) < UNLIKELY_GAP
    assert abs(correlation(sample[:-1], sample[1:])) < UNLIKELY_CORRELATION


def noise_of(seeds: Sequence[int], time: int, groups: int = 3, beams: int = 3, size: int = 40) -> Tensor:
    """[seed group beam token]"""
    keys = keys_of(seeds, groups=groups, time=time, beams=beams)
    return uniform(gumbel(keys.flatten(), size, torch.float64)).view(*keys.shape, size)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        pytest.param(noise_of(range(100), 0)[:-1], noise_of(range(100), 0)[1:], id="seeds"),
        pytest.param(noise_of(range(100), 0), noise_of(range(100), 1), id="times"),
        pytest.param(noise_of(range(100), 0)[:, :-1], noise_of(range(100), 0)[:, 1:], id="groups"),
        pytest.param(noise_of(range(100), 0)[:, :, :-1], noise_of(range(100), 0)[:, :, 1:], id="beams"),
        pytest.param(noise_of(range(100), 0)[..., :-1], noise_of(range(100), 0)[..., 1:], id="tokens"),
        # Counting up one thing and down another must not lead to the same place.
        pytest.param(noise_of(range(1, 101), 0), noise_of(range(100), 1), id="seed against time"),
        pytest.param(
            noise_of(range(100), 0)[:, 1:, :-1], noise_of(range(100), 0)[:, :-1, 1:], id="group against beam"
        ),
        pytest.param(
            noise_of(range(100), 0)[:, :, 1:, :-1],
            noise_of(range(100), 0)[:, :, :-1, 1:],
            id="beam against token",
        ),
    ],
)
def test_neighbours_have_nothing_in_common(left: Tensor, right: Tensor) -> None:
    assert abs(correlation(left, right)) < UNLIKELY_CORRELATION
    assert not bool((left == right).any())


def test_keys_do_not_collide() -> None:
    keys = torch.cat([keys_of(range(-50, 50), groups=8, time=t, beams=8).flatten() for t in range(10)])
    assert len(set(keys.tolist())) == 100 * 8 * 8 * 10


def test_noise_depends_on_its_key_and_token_alone() -> None:
    keys = keys_of([5, 6, 7], groups=2, beams=2).flatten()
    together = gumbel(keys, 30, torch.float32)
    for row, key in enumerate(keys):
        alone = gumbel(key.view(1), 30, torch.float32)[0]
        assert torch.equal(alone, together[row])
    # Neither on how many tokens there are, nor on the order of the rows.
    assert torch.equal(gumbel(keys, 7, torch.float32), together[:, :7])
    assert torch.equal(gumbel(keys.flip(0), 30, torch.float32), together.flip(0))


def test_keys_depend_on_the_slot_alone() -> None:
    together = slot_keys(torch.tensor([5, 6, 7]), range(4), time=2, beams=3)
    assert together.shape == (3, 4, 3)
    # One input of the batch, some of the groups (as a staggered group has it), fewer beams.
    part = slot_keys(torch.tensor([6]), range(2, 4), time=2, beams=2)
    assert torch.equal(part, together[1:2, 2:4, :2])
    assert not bool((slot_keys(torch.tensor([5, 6, 7]), range(4), time=3, beams=3) == together).any())


# Hypotheses

SHORT = Hypothesis((5, 2), log_prob=-1.5, score=-1.5)
LONG = Hypothesis((4, 3, 2), log_prob=-0.5, score=-2.0, group=1)
CUT = Hypothesis((4, 4, 4), log_prob=-3.0, score=-1.0, group=1, finished=False)
THREE = Hypotheses([SHORT, CUT, LONG])


def test_hypotheses_come_likeliest_first() -> None:
    assert list(THREE) == [LONG, SHORT, CUT]
    assert THREE.best is LONG


def test_of_equally_likely_hypotheses_the_first_given_comes_first() -> None:
    twin = Hypothesis((9,), log_prob=-1.5, score=0.0)
    assert list(Hypotheses([SHORT, twin])) == [SHORT, twin]
    assert list(Hypotheses([twin, SHORT])) == [twin, SHORT]


def test_a_list_may_be_given_an_order() -> None:
    assert list(Hypotheses.ordered([CUT, LONG, SHORT])) == [CUT, LONG, SHORT]


def test_groups_come_by_score() -> None:
    assert THREE.groups == ((SHORT,), (CUT, LONG))


def test_a_group_without_hypotheses_is_empty() -> None:
    assert Hypotheses([CUT]).groups == ((), (CUT,))
    assert Hypotheses().groups == ()


def test_hypotheses_are_a_sequence() -> None:
    assert len(THREE) == 3
    assert THREE[0] is LONG
    assert THREE[-1] is CUT
    assert THREE[1:] == Hypotheses.ordered([SHORT, CUT])
    assert THREE[::-1] == Hypotheses.ordered([CUT, SHORT, LONG])
    assert SHORT in THREE
    assert list(reversed(THREE)) == [CUT, SHORT, LONG]
    assert THREE.index(CUT) == 2
    assert not Hypotheses()
    with pytest.raises(IndexError):
        THREE[3]


def test_hypotheses_are_equal_if_their_members_are_in_order() -> None:
    same = Hypotheses([LONG, CUT, SHORT])
    assert same == THREE
    assert hash(same) == hash(THREE)
    assert Hypotheses.ordered([CUT, LONG, SHORT]) != THREE
    assert Hypotheses([LONG, SHORT]) != THREE
    assert THREE != (LONG, SHORT, CUT)
    assert len({same, THREE}) == 1


def test_hypotheses_can_be_copied_and_pickled() -> None:
    assert copy.deepcopy(THREE) == THREE
    assert pickle.loads(pickle.dumps(THREE)) == THREE


def test_text_is_filled_in_from_the_tokens() -> None:
    written = Hypotheses.ordered([CUT, SHORT]).with_text(lambda tokens: "-".join(map(str, tokens)))
    assert written.texts == ("4-4-4", "5-2")
    assert [h.tokens for h in written] == [(4, 4, 4), (5, 2)]
    assert THREE.texts == (None, None, None)


@pytest.mark.parametrize(
    "words", ["plain", "Zürich, 東京 🐈", 'quotes " and \\ and\nlines\t\x00', "\u2028", ""]
)
def test_json_brings_everything_back(words: str) -> None:
    written = THREE.with_text(lambda tokens: f"{words}{len(tokens)}")
    assert Hypotheses.from_json(written.to_json()) == written
    assert Hypotheses.from_json(written.to_json(ensure_ascii=False, indent=2)) == written


def test_json_keeps_the_order_even_if_it_is_not_by_log_prob() -> None:
    ranked = Hypotheses.ordered([CUT, LONG, SHORT])
    assert Hypotheses.from_json(ranked.to_json()) == ranked


def test_json_is_plain() -> None:
    assert json.loads(Hypotheses([CUT]).to_json()) == [
        {
            "tokens": [4, 4, 4],
            "log_prob": -3.0,
            "score": -1.0,
            "group": 1,
            "finished": False,
            "text": None,
            "certified": True,
        }
    ]
    assert Hypotheses.from_json("[]") == Hypotheses()


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(
            Hypothesis,
            st.lists(st.integers(0, 2**40)).map(tuple),
            finite,
            finite,
            st.integers(0, 5),
            st.booleans(),
            st.none() | st.text(),
        )
    )
)
def test_json_brings_back_any_list(hypotheses: list[Hypothesis]) -> None:
    made = Hypotheses(hypotheses)
    assert Hypotheses.from_json(made.to_json()) == made


def test_what_a_decode_returns_goes_through_json() -> None:
    # Plain numbers, not tensors.
    (found,) = decode(MarkovModel(torch.zeros(4, 4)), [0], BeamSearch(beams=3), max_length=2, end=0)
    assert Hypotheses.from_json(found.to_json()) == found


# Scoring


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.double)


def test_the_log_prob_is_itself() -> None:
    assert float(LogProb().final(number(-6.0), 3)) == -6
    assert float(LogProb().bound(number(-6.0), 3, 10)) == -6


@pytest.mark.parametrize(
    ("alpha", "length", "score"),
    # -6 divided by length ** alpha
    [(0.0, 4, -6.0), (0.5, 4, -3.0), (1.0, 4, -1.5), (1.0, 1, -6.0), (2.0, 4, -0.375)],
)
def test_normalisation_divides_by_a_power_of_the_length(alpha: float, length: int, score: float) -> None:
    assert float(LengthNormalised(alpha=alpha).final(number(-6.0), length)) == pytest.approx(score)


def test_lengths_may_be_a_tensor() -> None:
    totals, lengths = torch.tensor([-6.0, -6.0, -6.0]), torch.tensor([1, 2, 3])
    assert LengthNormalised().final(totals, lengths).tolist() == [-6, -3, -2]


@pytest.mark.parametrize("alpha", [0.3, 0.7, 1.0, 1.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_length_in_a_tensor_scores_as_the_number_does(alpha: float, dtype: torch.dtype) -> None:
    # A group is ranked by the one and the whole list by the other.
    scorer = LengthNormalised(alpha=alpha)
    totals = torch.linspace(-9, -1, 7, dtype=dtype)
    for length in range(1, 30):
        one_by_one = scorer.final(totals, length)
        assert torch.equal(scorer.final(totals, torch.full((7,), length)), one_by_one)


def test_the_bound_is_what_the_longest_or_the_shortest_would_have() -> None:
    scorer = LengthNormalised()
    assert float(scorer.bound(number(-6.0), 2, 4)) == -1.5  # as if nothing were lost up to length 4
    assert float(scorer.bound(number(6.0), 2, 4)) == 3.0  # as if it ended now


def test_stopping_at_the_first_knows_no_hope() -> None:
    assert float(LengthNormalised(stop="first").bound(number(-6.0), 2, 4)) == -math.inf


@settings(derandomize=True, max_examples=300, deadline=None)
@given(
    scorer=st.one_of(
        st.just(LogProb()), st.builds(LengthNormalised, alpha=st.floats(0, 3, allow_subnormal=False))
    ),
    total=st.floats(-200, 50),
    loss=st.floats(0, 100),
    length=st.integers(1, 60),
    grown=st.integers(0, 60),
    room=st.integers(0, 60),
)
def test_no_continuation_beats_the_bound(
    scorer: Scorer, total: float, loss: float, length: int, grown: int, room: int
) -> None:
    # A beam of this length and total may become any hypothesis that is no shorter and has no more.
    bound = float(scorer.bound(number(total), length, length + grown + room))
    reached = float(scorer.final(number(total - loss), length + grown))
    assert reached <= bound + 1e-12 * abs(bound)


# Models made of functions

TABLE = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [0.5, 0.2, 0.1]])


def bigram(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
    return TABLE[tokens], state


def plain(logits: Answer) -> Tensor:
    assert isinstance(logits, Tensor)
    return logits


def test_a_function_model_starts_from_a_token_with_the_inputs_as_state() -> None:
    inputs = torch.arange(6.0).view(2, 3)
    logits, state = FunctionModel(bigram, start=1).start(inputs)
    assert torch.equal(plain(logits), TABLE[[1, 1]])
    assert state is inputs


def test_a_function_model_counts_a_list_of_inputs() -> None:
    logits, _ = FunctionModel(bigram, start=2).start(["one", "two", "three"])
    assert torch.equal(plain(logits), TABLE[[2, 2, 2]])


def test_a_function_model_may_start_by_a_function() -> None:
    model = FunctionModel(bigram, start=lambda inputs: (TABLE[inputs], torch.zeros(len(inputs), 1)))
    logits, state = model.start([0, 2])
    assert torch.equal(plain(logits), TABLE[[0, 2]])
    assert state.shape == (2, 1)


def test_a_function_model_steps_and_selects() -> None:
    model = FunctionModel(lambda tokens, state: (TABLE[tokens], state + 1), start=0)
    logits, state = model.step(torch.tensor([2, 0]), torch.tensor([[10], [20]]))
    assert torch.equal(plain(logits), TABLE[[2, 0]])
    assert state.tolist() == [[11], [21]]
    assert model.select(state, torch.tensor([1, 1, 0])).tolist() == [[21], [21], [11]]


class Pair(NamedTuple):
    hidden: Tensor
    name: str


def nested(rows: int, offset: int = 0) -> dict[str, Any]:
    column = torch.arange(offset, offset + rows).unsqueeze(1)
    return {
        "plain": column,
        "tuple": (column + 100, [column + 200]),
        "named": Pair(column + 300, "lstm"),
        "scalar": torch.tensor(7),
        "other": None,
    }


def test_states_may_be_nested() -> None:
    model = FunctionModel(bigram, start=0)
    state = model.select(nested(3), torch.tensor([2, 0]))
    assert state["plain"].tolist() == [[2], [0]]
    assert state["tuple"][0].tolist() == [[102], [100]]
    assert state["tuple"][1][0].tolist() == [[202], [200]]
    assert isinstance(state["named"], Pair)
    assert state["named"].hidden.tolist() == [[302], [300]]
    assert state["named"].name == "lstm"
    assert int(state["scalar"]) == 7
    assert state["other"] is None


def test_mapping_tensors_keeps_the_nesting() -> None:
    doubled = map_tensors(lambda leaf: leaf * 2, nested(2, offset=1))
    assert doubled["plain"].tolist() == [[2], [4]]
    assert isinstance(doubled["tuple"], tuple)
    assert isinstance(doubled["tuple"][1], list)
    assert isinstance(doubled["named"], Pair)
    assert int(doubled["scalar"]) == 7  # no rows, so left alone


def test_joining_puts_rows_below_each_other() -> None:
    joined = join_tensors([nested(2), nested(1, offset=9)])
    assert joined["plain"].tolist() == [[0], [1], [9]]
    assert joined["tuple"][1][0].tolist() == [[200], [201], [209]]
    assert joined["named"].hidden.tolist() == [[300], [301], [309]]
    assert joined["named"].name == "lstm"
    assert FunctionModel(bigram, start=0).join([torch.zeros(2, 1), torch.ones(1, 1)]).tolist() == [
        [0],
        [0],
        [1],
    ]


def test_a_prefix_model_is_called_on_prompt_and_output() -> None:
    seen: list[list[list[int]]] = []

    def function(prefix: Tensor) -> Tensor:
        seen.append(prefix.tolist())
        return TABLE[prefix[:, -1]]

    model = PrefixModel(function)
    prompt = torch.tensor([[0, 1], [2, 0]])
    logits, state = model.start(prompt)
    assert torch.equal(plain(logits), TABLE[[1, 0]])
    state = model.select(state, torch.tensor([1, 0, 1]))
    logits, state = model.step(torch.tensor([2, 1, 0]), state)
    assert torch.equal(plain(logits), TABLE[[2, 1, 0]])
    assert seen == [[[0, 1], [2, 0]], [[2, 0, 2], [0, 1, 1], [2, 0, 0]]]


def test_anti_language_models_join_what_they_carry() -> None:
    model = AntiLanguageModel(PrefixHashModel(5), PrefixHashModel(5, seed=1), strength=0.5, first=1)
    logits, young = model.start([3])
    old_logits, old = model.step(torch.tensor([2]), model.select(young, torch.tensor([0])))
    joined = model.join([young, old])
    after, _ = model.step(torch.tensor([1, 1]), joined)
    young_after, _ = model.step(torch.tensor([1]), young)
    old_after, _ = model.step(torch.tensor([1]), old)
    assert isinstance(logits, Guided)
    assert bool((logits.guidance > 0).all())
    assert bool((old_logits.guidance == 0).all())  # its first token is behind it
    assert torch.equal(after.logits, torch.cat([young_after.logits, old_after.logits]))
    assert torch.equal(after.guidance, torch.cat([young_after.guidance, old_after.guidance]))


# The public surface

PUBLIC = [
    "AntiLanguageModel",
    "ArgumentError",
    "ArithmeticSampling",
    "BeamSearch",
    "BeamsplitError",
    "Cumulative",
    "DecodeOptions",
    "DivMBest",
    "DiverseArithmeticSampling",
    "DiverseBeamSearch",
    "DiverseChunks",
    "DiverseSampling",
    "DiverseSiblings",
    "Diversity",
    "Earlier",
    "Embedding",
    "EngineError",
    "FunctionModel",
    "Guided",
    "Hamming",
    "Hypotheses",
    "Hypothesis",
    "JoinableModel",
    "LateBranching",
    "LengthNormalised",
    "LogProb",
    "LogProbs",
    "ModelError",
    "NGram",
    "Picks",
    "Plan",
    "PrefixModel",
    "Ranked",
    "Recorder",
    "Recording",
    "Results",
    "Room",
    "Rule",
    "Sampling",
    "Scorer",
    "Selection",
    "Shortlist",
    "Step",
    "StepModel",
    "StochasticBeamSearch",
    "Strategy",
    "TermError",
    "decode",
    "decode_async",
    "groups",
    "groups_async",
    "record",
    "reorder",
    "select",
    "steps",
    "steps_async",
]


def test_the_public_names_are_these() -> None:
    assert beamsplit.__all__ == PUBLIC
    assert sorted(PUBLIC) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_explains_itself(name: str) -> None:
    thing = getattr(importlib.import_module("beamsplit"), name)
    assert thing.__doc__
    assert thing.__name__ == name
    assert thing.__module__.startswith("beamsplit.")


def test_names_are_looked_up_where_type_checkers_find_them() -> None:
    """The imports that only type checkers see, and the homes that names have at run time, are the same."""
    seen: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(beamsplit.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("beamsplit."):
            seen |= {name.name: node.module.removeprefix("beamsplit.") for name in node.names}
    assert seen == beamsplit._HOME
    assert sorted(seen) == beamsplit.__all__


def test_modules_are_found_and_what_is_nowhere_is_not() -> None:
    program = "import beamsplit; print(beamsplit.metrics.DistinctN.__name__, 'torch' in dir(beamsplit))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "DistinctN False\n"
    with pytest.raises(AttributeError, match="module 'beamsplit' has no attribute 'nonsense'"):
        _ = beamsplit.nonsense


def test_dir_lists_our_names_alone() -> None:
    packages = (
        "diversity engines evaluation huggingface metrics models similarity strategies study testing tree web"
    ).split()
    assert dir(beamsplit) == sorted([*PUBLIC, *packages, "__version__"])
    for package in packages:
        assert importlib.util.find_spec(f"beamsplit.{package}") is not None
    for lazy in (beamsplit.strategies, beamsplit.diversity, beamsplit.similarity):
        assert dir(lazy) == sorted(lazy.__all__)
        assert all(getattr(lazy, name) is not None for name in lazy.__all__)


NEWLY_IMPORTED = """
import sys, torch
before = set(sys.modules)
import beamsplit
beamsplit.decode, beamsplit.record
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_importing_beamsplit_imports_no_package_beyond_torch() -> None:
    # In a process of its own: this one has imported all sorts of things.
    ran = subprocess.run(
        [sys.executable, "-c", NEWLY_IMPORTED], capture_output=True, text=True, check=True, timeout=60
    )
    packages = set(ran.stdout.split())
    assert "beamsplit" in packages
    assert packages - set(sys.stdlib_module_names) == {"beamsplit"}
