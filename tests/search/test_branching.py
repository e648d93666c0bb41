"""Laws of `LateBranching`: what must hold of its lists, whatever the model."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    AntiLanguageModel,
    ArgumentError,
    BeamSearch,
    FunctionModel,
    Guided,
    Hypotheses,
    LengthNormalised,
    LogProbs,
    ModelError,
    PrefixModel,
    Room,
    Shortlist,
    decode,
    decode_async,
    record,
    steps,
)
from beamsplit.ngrams import ngrams
from beamsplit.strategies.branching import LateBranching
from beamsplit.testing import MarkovModel, PrefixHashModel, exhaustive_search, rescore
from search.cases import law, made_up_model, normal

# Made-up models may list few candidates; one test is about what is said then.
pytestmark = pytest.mark.filterwarnings("ignore:the model listed fewer than")

VOCABULARY = 11
INPUTS = [3, 1, 4, 1]

Content = list[list[tuple[Any, ...]]]


class Around:
    """A model around another, which answers as that one does."""

    keeps_earlier_steps = False

    def __init__(self, model: Any) -> None:
        self._model = model

    def start(self, inputs: Any) -> tuple[Any, Any]:
        answer, state = self._model.start(inputs)
        return self.answer(answer), state

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        answer, state = self._model.step(tokens, state)
        return self.answer(answer), state

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        return self._model.join(states)

    def answer(self, answer: Any) -> Any:
        return answer


class Keeping(Around):
    keeps_earlier_steps = True


class InLogProbs(Around):
    def answer(self, answer: Tensor) -> LogProbs:
        return LogProbs(torch.log_softmax(answer, dim=-1))


class InLists(Around):
    """Lists the best few tokens."""

    width = VOCABULARY

    def answer(self, answer: Tensor) -> Shortlist:
        log_prob, tokens = torch.log_softmax(answer, dim=-1).topk(min(self.width, answer.shape[1]))
        has_all = self.width >= answer.shape[1]
        rest = torch.full((len(tokens),), -torch.inf) if has_all else log_prob.amin(1)
        return Shortlist(tokens, log_prob, rest)


class InShortLists(InLists):
    width = 5


class Spelling(Around):
    """Two tokens read the same, whatever stands beside them."""

    def to_text(self, tokens: tuple[int, ...]) -> str:
        return " ".join(str(token // 2) for token in tokens)


def guided(model: Any) -> AntiLanguageModel:
    return AntiLanguageModel(model, PrefixHashModel(VOCABULARY, seed=77), strength=0.6)


def stops_at_five(_: Tensor, tokens: Tensor) -> Tensor:
    return tokens[:, -1] == 5


KINDS: dict[str, Callable[[Any], Any]] = {
    "plain": Around,
    "keeping": Keeping,
    "guided": guided,
    "guided-keeping": lambda model: guided_keeping(model),
    "log-probs": InLogProbs,
    "lists": InLists,
    "short-lists": InShortLists,
    "spelling": Spelling,
}


def guided_keeping(model: Any) -> Any:
    return AntiLanguageModel(Keeping(model), Keeping(PrefixHashModel(VOCABULARY, seed=77)), strength=0.6)


OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {"max_length": 6, "end": 0},
    "several-ends": {"max_length": 6, "end": [0, 3, 7]},
    "no-end": {"max_length": 4, "end": None},
    "one-token": {"max_length": 1, "end": 0},
    "min-length": {"max_length": 6, "end": [0, 1], "min_length": 4},
    "all-long": {"max_length": 5, "end": [0, 1, 2], "min_length": 5},
    "no-repeats": {"max_length": 9, "end": 0, "no_repeat_ngram": 1},
    "no-repeated-pairs": {"max_length": 9, "end": 0, "no_repeat_ngram": 2},
    "stop": {"max_length": 6, "end": 0, "stop": stops_at_five, "min_length": 3},
    "normalised": {"max_length": 6, "end": 0, "scorer": LengthNormalised(alpha=0.7)},
    "first-stop": {"max_length": 6, "end": 0, "scorer": LengthNormalised(alpha=1.3, stop="first")},
}

kinds = st.sampled_from(list(KINDS))
bounds = st.sampled_from(list(OPTIONS.values()))
bases = st.sampled_from(["smooth", "ties", "markov"])
seeds = st.integers(0, 999)
strategies = st.builds(
    LateBranching,
    outputs=st.integers(1, 12),
    strength=st.sampled_from([0.0, 0.3, 0.8, 5.0]),
    beams=st.integers(1, 12),
    rounds=st.integers(0, 4),
)
several = settings(law, max_examples=25)


def search(model: Any, strategy: Any, inputs: Sequence[int] = INPUTS, **options: Any) -> list[Hypotheses]:
    return decode(model, list(inputs), strategy, **options)


def content(lists: Iterable[Hypotheses]) -> Content:
    return [
        [(h.tokens, h.log_prob, h.score, h.group, h.finished, h.certified) for h in each] for each in lists
    ]


# What a list is


@pytest.mark.filterwarnings("ignore:the model's lists of")
@several
@given(kind=kinds, options=bounds, base=bases, strategy=strategies, seed=seeds)
def test_a_list_is_as_asked_for(
    base: str, kind: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    plain = made_up_model(base, VOCABULARY, seed)
    model = KINDS[kind](plain)
    found = search(model, strategy, **options)
    assert len(found) == len(INPUTS)
    for index, hypotheses in enumerate(found):
        assert 1 <= len(hypotheses) <= strategy.outputs
        assert_differ(hypotheses, model)
        assert_ordered(hypotheses)
        assert_allowed(hypotheses, options)
        for h in hypotheses:
            assert h.log_prob == pytest.approx(rescore(plain, INPUTS, index, h.tokens), rel=1e-5, abs=1e-5)


def assert_differ(hypotheses: Hypotheses, model: Any) -> None:
    assert len({h.tokens for h in hypotheses}) == len(hypotheses)
    if hasattr(model, "to_text") and model.to_text is not None:
        assert len({model.to_text(h.tokens) for h in hypotheses}) == len(hypotheses)


def assert_ordered(hypotheses: Hypotheses) -> None:
    """They stand in the order of choice: after the first, which is beam search's, the best is chosen next."""
    assert [h.group for h in hypotheses] == list(range(len(hypotheses)))
    scores = [h.score for h in hypotheses]
    assert all(map(math.isfinite, scores))
    assert scores[1:] == sorted(scores[1:], reverse=True)


def assert_allowed(hypotheses: Hypotheses, options: dict[str, Any]) -> None:
    ends = {options["end"]} if isinstance(options["end"], int) else set(options["end"] or ())
    if "stop" in options:
        ends |= {5}
    least, n = options.get("min_length", 0), options.get("no_repeat_ngram")
    for h in hypotheses:
        assert least <= len(h.tokens) <= options["max_length"]
        assert h.finished == (h.tokens[-1] in ends)
        assert h.finished or len(h.tokens) == options["max_length"]
        # A `stop` is not asked about outputs that are too short.
        assert not ends & set(h.tokens[max(least - 1, 0) if "stop" in options else 0 : -1])
        if n is not None:
            grams = ngrams([str(token) for token in h.tokens], n)
            assert len(set(grams)) == len(grams)


@pytest.mark.parametrize("least", [0, 2])
@pytest.mark.parametrize("length", [1, 2, 3])
@law
@given(
    kind=kinds.filter(lambda kind: kind not in ("short-lists", "guided", "guided-keeping")),
    vocabulary=st.integers(2, 3),
    seed=seeds,
    beams=st.integers(1, 5),
)
def test_a_list_may_have_all_there_is(
    kind: str, length: int, least: int, vocabulary: int, seed: int, beams: int
) -> None:
    """More outputs are asked for than there are, and every one is found in the end."""
    plain = PrefixHashModel(vocabulary, seed=seed)
    model, least = KINDS[kind](plain), min(least, length)
    strategy = LateBranching(outputs=40, beams=beams, rounds=60)
    options: dict[str, Any] = {"max_length": length, "end": 0, "min_length": least}
    for found, everything in zip(
        search(model, strategy, **options),
        exhaustive_search(plain, INPUTS, max_length=length, end=0),
        strict=True,
    ):
        allowed = {h.tokens for h in everything if len(h.tokens) >= least}
        if kind == "spelling":
            assert len(found) == len({model.to_text(tokens) for tokens in allowed})
        else:
            assert {h.tokens for h in found} == allowed


# The first output


@pytest.mark.filterwarnings("ignore:the model's lists of")
@several
@given(kind=kinds, options=bounds, base=bases, strategy=strategies, seed=seeds)
def test_the_first_output_is_that_of_a_beam_search(
    base: str, kind: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    model = KINDS[kind](made_up_model(base, VOCABULARY, seed))
    alone = search(model, BeamSearch(beams=strategy.plan().beams_per_group), **options)
    for found, expected in zip(search(model, strategy, **options), alone, strict=True):
        (first,), best = found.groups[0], expected.groups[0][0]
        assert replace(first, certified=True) == replace(best, certified=True)


class Roomy(InLists):
    """Lists as many tokens as it is told that a search needs."""

    def start_with_room(self, inputs: Any, room: Room) -> tuple[Any, Any]:
        self.width = room.candidates
        return self.start(inputs)


@pytest.mark.parametrize("beams", [2, 9, 20])
def test_a_model_is_told_how_many_candidates_the_beam_search_needs(beams: int) -> None:
    model = Roomy(PrefixHashModel(60, seed=3))
    (alone,) = search(model, BeamSearch(beams=beams), [1], max_length=5, end=0)
    (found,) = search(model, LateBranching(outputs=6, beams=beams), [1], max_length=5, end=0)
    assert found.groups[0][0] == alone.groups[0][0]
    assert all(h.certified for h in found)


# What may change the speed and nothing else


@pytest.mark.filterwarnings("ignore:the model's lists of")
@several
@given(kind=kinds, options=bounds, base=bases, strategy=strategies, seed=seeds)
def test_a_batch_is_its_inputs_one_by_one_in_any_order(
    base: str, kind: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    model = KINDS[kind](made_up_model(base, VOCABULARY, seed))
    inputs = [5, 2, 9, 2, 7]
    together = content(search(model, strategy, inputs, **options))
    assert together == [content(search(model, strategy, [each], **options))[0] for each in inputs]
    assert content(search(model, strategy, inputs[::-1], **options)) == together[::-1]


@pytest.mark.parametrize("outputs", [6, 7])
def test_scores_do_not_depend_on_how_long_other_outputs_of_the_batch_are(outputs: int) -> None:
    """Prices such as 1 + 5/6 are rounded, so the sum of many must not depend on how many there are."""
    tables = (torch.randn(64, 8, 8, generator=torch.Generator().manual_seed(2)) * 4).round() / 4
    tables[:, :, 0] -= 0.5

    def step(tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return torch.log_softmax(tables[state, tokens].double(), -1).float(), state

    model, strategy, inputs = FunctionModel(step, start=1), LateBranching(outputs=outputs), torch.arange(64)
    together = decode(model, inputs, strategy, max_length=30, end=0)
    for index, found in enumerate(together):
        (alone,) = decode(model, inputs[index : index + 1], strategy, max_length=30, end=0)
        assert [(h.tokens, h.score) for h in alone] == [(h.tokens, h.score) for h in found]


@pytest.mark.parametrize("certain", [False, True])
def test_an_output_that_says_nothing_is_the_first_or_none(certain: bool) -> None:
    """The end alone has 0.9 and is the likeliest output, or 0.1, where the likeliest has 0.54 ** 3."""
    end = 0.9 if certain else 0.1
    table = torch.tensor([end, (1 - end) * 0.6, (1 - end) * 0.4]).log().expand(3, 3)
    model: Any = MarkovModel(table)
    model.to_text = lambda tokens: "".join("ab"[token - 1] for token in tokens if token)
    (found,) = decode(model, [1], LateBranching(outputs=4), max_length=3, end=0)
    assert len(found) == 4
    assert [text == "" for text in found.texts] == [certain, False, False, False]


@pytest.mark.parametrize(("end", "texts"), [(0.3, ("a", "b")), (0.9, ("", "a", "b"))])
def test_an_output_that_says_nothing_is_not_chosen_even_if_the_list_falls_short(
    end: float, texts: tuple[str, ...]
) -> None:
    """Outputs have one token: the end, a or b. Beam search's best comes first, whatever it says."""
    table = torch.tensor([end, (1 - end) * 0.8, (1 - end) * 0.2]).log().expand(3, 3)
    model: Any = MarkovModel(table)
    model.to_text = lambda tokens: "".join("ab"[token - 1] for token in tokens if token)
    (found,) = decode(model, [1], LateBranching(outputs=3), max_length=1, end=0)
    assert found.texts == texts


def test_the_first_search_has_four_beams_unless_lists_are_very_short_or_long() -> None:
    beams = {
        outputs: LateBranching(outputs=outputs).plan().beams_per_group
        for outputs in (1, 2, 3, 4, 6, 20, 24, 30)
    }
    assert beams == {1: 2, 2: 2, 3: 3, 4: 4, 6: 4, 20: 4, 24: 4, 30: 6}


def test_a_strength_beyond_all_bounds_leaves_scores_that_are_numbers() -> None:
    model = PrefixHashModel(VOCABULARY, seed=3)
    (found,) = search(Around(model), LateBranching(outputs=6, strength=1e300), [1], max_length=5, end=0)
    assert len(found) == 6
    assert all(math.isfinite(h.score) for h in found)


@several
@given(options=bounds, base=bases, strategy=strategies, seed=seeds)
def test_keeping_states_changes_nothing(
    base: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    plain = made_up_model(base, VOCABULARY, seed)
    expected = content(search(Around(plain), strategy, **options))
    assert content(search(Keeping(plain), strategy, **options)) == expected
    walked, kept = guided(plain), guided_keeping(plain)
    assert content(search(kept, strategy, **options)) == content(search(walked, strategy, **options))


class Asynchronous(Around):
    async def start(self, inputs: Any) -> tuple[Any, Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().start(inputs)

    async def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().step(tokens, state)


@law
@given(options=bounds, strategy=strategies, seed=seeds)
def test_awaiting_the_model_changes_nothing(
    options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    plain = PrefixHashModel(VOCABULARY, seed=seed)
    found = asyncio.run(decode_async(Asynchronous(plain), INPUTS, strategy, **options))
    assert content(found) == content(search(Around(plain), strategy, **options))


class UsingUp(Keeping):
    """Its steps write into the state that they are given."""

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Any, Any]:
        answer, after = self._model.step(tokens, state)
        state.fill_(-1)
        return answer, after


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_step_may_use_up_the_state_that_it_is_given(keeps: bool, beams: int) -> None:
    plain, strategy = PrefixHashModel(VOCABULARY, seed=4), LateBranching(outputs=6, beams=beams)
    model = UsingUp(plain)
    model.keeps_earlier_steps = keeps
    expected = search(Around(plain), strategy, max_length=8, end=0)
    assert content(search(model, strategy, max_length=8, end=0)) == content(expected)


# The model's rows


class Counted(Around):
    """Notes every prefix that it is asked about; its states are what has been said."""

    def __init__(self, model: PrefixHashModel, *, keeps: bool) -> None:
        super().__init__(model)
        self.keeps_earlier_steps = keeps
        self.asked: list[list[tuple[int, ...]]] = []

    def start(self, inputs: list[int]) -> tuple[Any, Any]:
        answer, state = self._model.start(inputs)
        said: list[tuple[int, ...]] = [(given,) for given in inputs]
        self.asked.append(said)
        return answer, (state, said)

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        inner, said = state
        said = [(*before, token) for before, token in zip(said, tokens.tolist(), strict=True)]
        self.asked.append(said)
        answer, inner = self._model.step(tokens, inner)
        return answer, (inner, said)

    def select(self, state: Any, rows: Tensor) -> Any:
        return self._model.select(state[0], rows), [state[1][row] for row in rows.tolist()]

    def join(self, states: Sequence[Any]) -> Any:
        inner = self._model.join([state for state, _ in states])
        return inner, [each for _, said in states for each in said]


@law
@given(strategy=strategies, seed=seeds, end=st.sampled_from([0, None, [1, 2, 3]]))
def test_a_model_that_keeps_states_is_asked_about_each_prefix_once(
    strategy: LateBranching, seed: int, end: Any
) -> None:
    model = Counted(PrefixHashModel(VOCABULARY, seed=seed), keeps=True)
    search(model, strategy, [3, 1, 4], max_length=6, end=end)
    rows = list(itertools.chain(*model.asked))
    assert len(rows) == len(set(rows))


@law
@given(strategy=strategies, seed=seeds, end=st.sampled_from([0, None, [1, 2, 3]]))
def test_other_models_are_asked_about_each_prefix_once_a_round(
    strategy: LateBranching, seed: int, end: Any
) -> None:
    model = Counted(PrefixHashModel(VOCABULARY, seed=seed), keeps=False)
    search(model, strategy, [3, 1, 4], max_length=6, end=end)
    times = Counter(itertools.chain(*model.asked))
    assert max(times.values()) <= 1 + strategy.rounds
    for rows in model.asked:  # a round has one answer for each length
        assert len(rows) == len(set(rows))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_further_rounds_ask_for_little_more(seed: int, beams: int) -> None:
    """For one and a half rows for each token of a list, and one more branch, or what one round asks for."""
    asked, outputs, length = [], 10, 20
    for rounds in (1, 30):
        model = Counted(PrefixHashModel(VOCABULARY, seed=seed), keeps=True)
        strategy = LateBranching(outputs=outputs, beams=beams, rounds=rounds)
        search(model, strategy, [3], max_length=length, end=None)
        asked.append(sum(map(len, model.asked)))
    assert asked[1] <= max(asked[0], 1.5 * outputs * length) + length


# Truth


@law
@given(vocabulary=st.integers(2, 8), seed=seeds, outputs=st.integers(1, 30))
def test_without_a_price_the_best_of_what_is_known_are_found(
    vocabulary: int, seed: int, outputs: int
) -> None:
    """After one step of as many beams as tokens, all outputs of two tokens are known."""
    plain = PrefixHashModel(vocabulary, seed=seed)
    strategy = LateBranching(outputs=outputs, strength=0.0, beams=vocabulary, rounds=1)
    (found,), (everything,) = (
        search(Around(plain), strategy, [1], max_length=2, end=None),
        exhaustive_search(plain, [1], max_length=2),
    )
    assert [h.tokens for h in found] == [h.tokens for h in everything[:outputs]]
    assert [h.group for h in found] == list(range(len(found)))
    assert all(h.score == h.log_prob for h in found)


@law
@given(vocabulary=st.integers(2, 4), seed=seeds, strength=st.sampled_from([0.0, 0.8]))
def test_a_list_as_long_as_there_are_outputs_has_them_all(
    vocabulary: int, seed: int, strength: float
) -> None:
    plain = PrefixHashModel(vocabulary, seed=seed)
    strategy = LateBranching(outputs=200, strength=strength, beams=2, rounds=200)
    (found,) = search(Keeping(plain), strategy, [1], max_length=4, end=0)
    (everything,) = exhaustive_search(plain, [1], max_length=4, end=0)
    assert {h.tokens for h in found} == {h.tokens for h in everything}
    likeliest_first = sorted((h.log_prob for h in found), reverse=True)
    assert likeliest_first == pytest.approx([h.log_prob for h in everything], abs=1e-5)


def test_a_hand_worked_choice() -> None:
    """Two tokens after any token, of probability 0.6, 0.3 and 0.1, and no end.

    In units of log-probability: a = -0.51, b = -1.20, c = -2.30. The first output is 0 0, of -1.02, so that
    a pair costs 0.51 at a strength of 1 in a list of 20, and in one of 3 at that of the root of 3/20, if
    outputs have 9 tokens, and at 9/2 of that if they have two. Pairs are those of the list so far, with `.`
    before the first token: .0 and 00. So 0 1 is worth -1.71 - 0.51 = -2.23 (its pair .0 is in the list),
    1 0 is worth -1.71, and 1 1 -2.41. The second output is 1 0, and it adds .1 and 10. Then 0 1 is worth
    -2.23 (.0), 1 1 is worth -2.41 - 0.51 = -2.92, 0 2 is worth -2.81 - 0.51 = -3.32, and 2 0 -2.81. The
    third is 0 1.
    """
    table = torch.tensor([0.6, 0.3, 0.1]).log().expand(3, 3)
    strategy = LateBranching(outputs=3, strength=(3 / 20) ** 0.5 * 9 / 2, beams=3, rounds=1)
    (found,) = decode(MarkovModel(table), [0], strategy, max_length=2)
    chosen = [group[0] for group in found.groups]
    assert [h.tokens for h in chosen] == [(0, 0), (1, 0), (0, 1)]
    price = -math.log(0.6)
    assert [h.score for h in chosen] == pytest.approx(
        [2 * math.log(0.6), math.log(0.18), math.log(0.18) - price], abs=1e-5
    )
    assert [h.tokens for h in found] == [(0, 0), (1, 0), (0, 1)]


def test_a_hand_worked_list_of_longer_outputs() -> None:
    """Without a price the second of 0 0 0 is as likely as others; with a price it must say something new.

    Every token has 0.5, 0.3, 0.2. A greedy first output is 0 0 0. At a high price all other outputs must
    have no pair of it: they begin with 1 or 2, and have no 0 0.
    """
    table = torch.tensor([0.5, 0.3, 0.2]).log().expand(3, 3)
    strategy = LateBranching(outputs=2, strength=4.0, beams=1, rounds=1)
    (found,) = decode(MarkovModel(table), [0], strategy, max_length=3)
    first, second = (group[0] for group in found.groups)
    assert first.tokens == (0, 0, 0)
    assert second.tokens == (1, 0, 1)  # likeliest of those without .0 and 00
    assert second.log_prob == pytest.approx(math.log(0.3 * 0.5 * 0.3), abs=1e-5)


def test_an_output_is_worth_no_more_for_ending_early() -> None:
    """Tokens have 0.25 (the end), 0.6 and 0.15. The first output is 1 1 1, of 0.216, and has no end.

    Whoever ends a token or two earlier spares as many tokens of 0.6. They count in the scores: 0.25 * 0.36
    for the end alone, 0.15 * 0.6 for 1 and the end, and 0.09 for 1 1 and the end. All of these are 0.09.
    """
    table = torch.tensor([0.25, 0.6, 0.15]).log().expand(3, 3)
    strategy = LateBranching(outputs=4, strength=0.0, beams=1, rounds=1)
    (found,) = decode(MarkovModel(table), [0], strategy, max_length=3, end=0)
    assert {h.tokens for h in found} == {(1, 1, 1), (0,), (1, 0), (1, 1, 0)}
    assert [group[0].score for group in found.groups[1:]] == pytest.approx([math.log(0.09)] * 3, abs=1e-5)
    assert [h.log_prob for h in found if h.finished] == pytest.approx(
        [math.log(0.25), math.log(0.15), math.log(0.09)], abs=1e-5
    )


def test_branches_of_a_round_keep_from_repeating_each_other() -> None:
    """The first output is 0 0 0 0, and the branches begin with 1 and 2. After 1 the likeliest is 3, then 4.

    The first branch takes 3 after 1. The second comes to 1 a step later, and takes 4.
    """
    table = torch.tensor(
        [
            [0.5, 0.3, 0.19, 0.005, 0.005],
            [0.05, 0.025, 0.025, 0.5, 0.4],
            [0.025, 0.9, 0.025, 0.025, 0.025],
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.2, 0.2, 0.2, 0.2, 0.2],
        ]
    ).log()
    strategy = LateBranching(outputs=3, strength=9 / 4, beams=1, rounds=1)
    (found,) = decode(MarkovModel(table), [0], strategy, max_length=4)
    assert sorted(h.tokens[:3] for h in found) == [(0, 0, 0), (1, 3, 0), (2, 1, 4)]


@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_a_stop_is_asked_from_the_least_length_on(least: int) -> None:
    """Three tokens: 0 is an end, and 1 stops an output that is long enough. All outputs are asked for."""

    def is_over(tokens: tuple[int, ...]) -> bool:
        return tokens[-1] == 0 or (tokens[-1] == 1 and len(tokens) >= least)

    sequences = (each for n in (1, 2, 3, 4) for each in itertools.product(range(3), repeat=n))
    expected = {
        tokens
        for tokens in sequences
        if len(tokens) >= least
        and not any(is_over(tokens[:n]) for n in range(1, len(tokens)))
        and (is_over(tokens) or len(tokens) == 4)
    }
    (found,) = decode(
        PrefixHashModel(3, seed=1),
        [0],
        LateBranching(outputs=99, beams=1, rounds=60),
        max_length=4,
        end=0,
        min_length=least,
        stop=lambda _, tokens: tokens[:, -1] == 1,
    )
    assert {h.tokens for h in found} == expected
    assert all(h.finished == is_over(h.tokens) for h in found)


# Steps and recordings


@pytest.mark.filterwarnings("ignore:the model's lists of")
@several
@given(kind=kinds, options=bounds, strategy=strategies, seed=seeds)
def test_steps_lead_to_the_result(
    kind: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    model = KINDS[kind](PrefixHashModel(VOCABULARY, seed=seed))
    turns, shown = [], []
    for turn in steps(model, INPUTS, strategy, **options):
        turns.append(turn)
        shown.append(content(turn.hypotheses))
        for hypotheses in turn.hypotheses:
            assert len(hypotheses) <= strategy.outputs
            assert sorted(h.group for h in hypotheses) == list(range(len(hypotheses)))
    assert [turn.number for turn in turns] == list(range(len(turns)))
    assert shown[-1] == content(search(model, strategy, **options))
    # A step shows what it showed when it was taken, however far the search has gone since.
    late = list(steps(model, INPUTS, strategy, **options))
    assert [content(turn.hypotheses) for turn in late] == shown


@pytest.mark.filterwarnings("ignore:the model's lists of")
@law
@given(kind=kinds, options=bounds, strategy=strategies, seed=seeds)
def test_a_recording_has_every_output(
    kind: str, options: dict[str, Any], strategy: LateBranching, seed: int
) -> None:
    model = KINDS[kind](PrefixHashModel(VOCABULARY, seed=seed))
    found = search(model, strategy, **options)
    for recording, hypotheses in zip(record(model, INPUTS, strategy, **options), found, strict=True):
        assert content([recording.hypotheses]) == content([hypotheses])
        for end, h in zip(recording.ends, hypotheses, strict=True):
            assert end is not None
            assert spelled(recording.branches, end) == h.tokens
            assert recording.branches[end].fate == ("ended" if h.finished else "lives")
            assert recording.branches[end].log_prob == pytest.approx(h.log_prob, abs=1e-5)
        assert recording.svg().startswith("<svg")


def spelled(branches: Sequence[Any], end: int) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    while end != -1:
        tokens, end = (branches[end].token, *tokens), branches[end].parent
    return tokens


# Dead ends, and models that go wrong


def test_where_nothing_is_allowed_lists_are_empty() -> None:
    """Both tokens are ends, and no output may end before its second token."""
    model, strategy = PrefixHashModel(2), LateBranching(outputs=3)
    assert search(model, strategy, max_length=3, end=[0, 1], min_length=2) == [Hypotheses()] * 4


@pytest.mark.parametrize("keeps", [True, False])
def test_an_input_without_outputs_does_not_disturb_others(keeps: bool) -> None:
    """After a prompt of 0, all but the ends is ruled out, and no output may end before its third token."""

    def answer(prefix: Tensor) -> Guided:
        logits = normal(5, 9, 9)[prefix[:, -1]]
        guidance = torch.zeros_like(logits)
        guidance[prefix[:, 0] == 0, 1:] = -torch.inf
        return Guided(logits, guidance)

    model, strategy = PrefixModel(answer), LateBranching(outputs=5)
    model.keeps_earlier_steps = keeps
    options: dict[str, Any] = {"max_length": 5, "end": 0, "min_length": 3}
    lists = [
        decode(model, [[x] for x in order], strategy, **options)
        for order in ([1, 0, 2], [0, 1, 2], [1, 2, 0])
    ]
    assert content([lists[0][i] for i in (1, 0, 2)]) == content(lists[1])
    assert content([lists[0][i] for i in (0, 2, 1)]) == content(lists[2])
    assert [len(each) for each in lists[0]] == [5, 0, 5]


def test_branches_that_come_to_a_dead_end_are_given_up() -> None:
    """Token 2 may not be followed by any. Nothing ends, so that it may only stand last."""

    def answer(prefix: Tensor) -> Guided:
        logits = torch.tensor([2.0, 1.5, 1.0]).expand(len(prefix), 3)
        return Guided(logits, torch.where(prefix[:, -1:] == 2, -torch.inf, 0.0).expand(-1, 3))

    strategy = LateBranching(outputs=30, rounds=20)
    (found,) = decode(PrefixModel(answer), [[0]], strategy, max_length=3)
    assert {h.tokens for h in found} == {
        (a, b, c) for a, b, c in itertools.product(range(3), repeat=3) if 2 not in (a, b)
    }


class Spoilt(Around):
    """Spoils one row of a late answer."""

    def __init__(self, model: Any, spoil: Callable[[Tensor], Tensor], after: int) -> None:
        super().__init__(model)
        self._spoil, self._left = spoil, after

    def answer(self, answer: Tensor) -> Tensor:
        self._left -= 1
        return self._spoil(answer) if self._left < 0 else answer


def with_nan(answer: Tensor) -> Tensor:
    """Spoil the last row, which is never one that the search walks along again."""
    return answer.index_fill(0, torch.tensor([len(answer) - 1]), torch.nan)


BAD: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "nan": (with_nan, r"NaN at token 0 \(row"),
    "ruled-out": (lambda answer: torch.full_like(answer, -torch.inf), "-inf for every token"),
    "rows": (lambda answer: answer[:-1], "rows when"),
    "vocabulary": (lambda answer: answer[:, :-1], "the vocabulary must not change"),
    "kind": (lambda answer: InLists(None).answer(answer), "Shortlist in some steps"),
}


@pytest.mark.parametrize("after", [0, 1, 3, 6, 9])
@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_answer_is_refused_whenever_it_comes(
    spoil: Callable[[Tensor], Tensor], message: str, after: int
) -> None:
    """The first five answers are the beam search's, and those after it a round's."""
    if not after and message != BAD["nan"][1] and message != BAD["ruled-out"][1]:
        return  # the first answer tells how many rows and tokens there are
    model = Spoilt(PrefixHashModel(9, seed=2), spoil, after)
    with pytest.raises(ModelError, match=message):
        search(model, LateBranching(outputs=6), max_length=6, end=None)


# Doubt


@pytest.mark.filterwarnings("ignore:the model's lists of")
def test_lists_that_are_too_short_leave_doubt() -> None:
    plain, strategy = PrefixHashModel(VOCABULARY, seed=8), LateBranching(outputs=5, beams=2)
    with pytest.warns(UserWarning, match="fewer than the 8 candidates that late branching looks at") as said:
        short = search(InShortLists(plain), strategy, max_length=5, end=0)
    assert len(said) == 1
    long = search(InLists(plain), strategy, max_length=5, end=0)
    assert not any(h.certified for each in short for h in each)
    assert all(h.certified for each in long for h in each)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"outputs": 0}, "outputs"),
        ({"outputs": 2.5}, "outputs"),
        ({"outputs": 4, "strength": -0.1}, "strength"),
        ({"outputs": 4, "strength": math.nan}, "strength"),
        ({"outputs": 4, "strength": math.inf}, "strength"),
        ({"outputs": 4, "beams": 0}, "beams"),
        ({"outputs": 4, "rounds": -1}, "rounds"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        LateBranching(**arguments)


class Fixed(Around):
    fixed_rows = True

    def advance(self, state: Any, parents: Tensor | None, tokens: Tensor) -> tuple[Any, Any]:
        raise AssertionError("is never asked")


def test_a_model_with_fixed_rows_is_refused() -> None:
    with pytest.raises(ArgumentError, match="fixed_rows = True: use DiverseBeamSearch"):
        search(Fixed(PrefixHashModel(9)), LateBranching(outputs=3), max_length=4)


def test_a_group_is_one_output() -> None:
    model, strategy = PrefixHashModel(9), LateBranching(outputs=3)
    with pytest.raises(ArgumentError, match="return_per_group=2, but LateBranching keeps 1 a group"):
        search(model, strategy, max_length=4, return_per_group=2)
    assert search(model, strategy, max_length=4, return_per_group=1) == search(model, strategy, max_length=4)


def test_an_empty_batch_has_no_lists() -> None:
    assert search(PrefixHashModel(9), LateBranching(outputs=3), [], max_length=4) == []
    model = PrefixModel(lambda prefix: torch.zeros(len(prefix), 9))
    assert decode(model, iter([]), LateBranching(outputs=3), max_length=4) == []
