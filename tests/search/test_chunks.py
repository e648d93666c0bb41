"""Laws of `DiverseChunks`: what must hold of a chunk-wise search, whatever the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    DiverseChunks,
    DiverseSampling,
    FunctionModel,
    Guided,
    Hypothesis,
    LengthNormalised,
    LogProb,
    PrefixModel,
    Recording,
    Results,
    Shortlist,
    decode,
    decode_async,
    groups,
    record,
    steps,
)
from beamsplit.model import Drawing, Drawn
from beamsplit.search.chunks.boundaries import make_ends
from beamsplit.similarity import TextsAlike
from beamsplit.testing import MarkovModel, PrefixHashModel, rescore
from search.cases import law, normal

VOCABULARY = 9
SIGNS = "#abcdef.!"  # token 0 is the end
LENGTH = 14


def to_text(tokens: tuple[int, ...]) -> str:
    return "".join(SIGNS[token] for token in tokens if token)


class Speaking(PrefixHashModel):
    """A model whose tokens are letters and marks, and which counts what it computes."""

    to_text = staticmethod(to_text)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(VOCABULARY, seed=seed)
        self.calls: list[int] = []  # the rows of each step

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        self.calls.append(len(tokens))
        return super().step(tokens, state)


class Unjoined(Speaking):
    """The same, but states cannot be put together."""

    join = None  # type: ignore[assignment]


def letters_shared(first: str, second: str) -> float:
    one, other = set(first), set(second)
    return len(one & other) / len(one | other) if one | other else 1.0


ALIKE = TextsAlike(letters_shared)
PROPOSING = ("samples", "beams")


def chunks(**settings: Any) -> DiverseChunks:
    usual = {
        "groups": 3,
        "proposals": 3,
        "similarity": ALIKE,
        "strength": 1.0,
        "temperature": 1.0,
        "top_p": None,
    }
    return DiverseChunks(**{**usual, **settings})


def search(model: Any, strategy: DiverseChunks, inputs: Any = (1, 2), **options: Any) -> Results:
    return decode(model, list(inputs), strategy, **{"max_length": LENGTH, "end": 0, **options})


def tokens_of(found: Results) -> list[list[tuple[int, ...]]]:
    return [[each.tokens for each in of_input] for of_input in found]


strategies = st.builds(
    chunks,
    groups=st.integers(1, 4),
    proposals=st.integers(1, 4),
    strength=st.sampled_from([0.0, 0.5, 3.0]),
    chunk=st.sampled_from(["sentence", "line", 1, 3]),
    longest=st.integers(1, 8),
    propose=st.sampled_from(PROPOSING),
)


# A slow, simple search to test against: it knows prefixes alone, and asks for proposals anew each time


class Continuing:
    """The same model, where every input goes on from a prefix of its own."""

    def __init__(self, model: Speaking, inputs: Sequence[int], prefixes: Sequence[tuple[int, ...]]) -> None:
        self._model, self._inputs, self._prefixes = model, inputs, prefixes

    def start(self, inputs: Sequence[int]) -> tuple[Tensor, Tensor]:
        found = []
        for index in inputs:
            logits, state = self._model.start([self._inputs[index]])
            for token in self._prefixes[index]:
                logits, state = self._model.step(torch.tensor([token]), state)
            found.append((logits, state))
        return torch.cat([logits for logits, _ in found]), torch.cat([state for _, state in found])

    def step(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return self._model.step(tokens, state)

    def select(self, state: Tensor, rows: Tensor) -> Tensor:
        return self._model.select(state, rows)


def slow_search(
    model: Speaking, inputs: Sequence[int], strategy: DiverseChunks, scorer: Any
) -> list[list[Hypothesis]]:
    """Search by beams: each group in turn, each chunk by a search of its own."""
    assert strategy.propose == "beams"
    return [_slow_search_one(model, each, strategy, scorer) for each in inputs]


def _slow_search_one(model: Speaking, of: int, strategy: DiverseChunks, scorer: Any) -> list[Hypothesis]:
    count = strategy.proposals
    paths = [Hypothesis((), 0.0, 0.0, finished=False) for _ in range(strategy.groups)]
    first = _proposals(model, of, (), strategy, strategy.groups * count)
    for number in range(LENGTH):
        taken: list[tuple[int, ...]] = []
        for group, path in enumerate(paths):
            if path.finished or len(path.tokens) == LENGTH:
                continue
            own = _proposals(model, of, path.tokens, strategy, count)
            options = own if number else first[: (group + 1) * count]
            left = [each for each in options if number or each.tokens not in taken]
            options = left or options
            scored = []
            for each in options:
                tokens, log_prob = path.tokens + each.tokens, path.log_prob + each.log_prob
                score = float(scorer.final(torch.tensor(log_prob, dtype=torch.double), len(tokens)))
                like = [letters_shared(to_text(tokens), to_text(said.tokens)) for said in paths[:group]]
                cost = float(strategy.strength) * max(like, default=0.0)  # type: ignore[arg-type]
                scored.append(Hypothesis(tokens, log_prob, score - cost, group, finished=tokens[-1] == 0))
            best = max(range(len(scored)), key=lambda place: scored[place].score)
            taken.append(options[best].tokens)
            paths[group] = scored[best]
        if all(path.finished or len(path.tokens) == LENGTH for path in paths):
            break
    return paths


def _proposals(
    model: Speaking, of: int, prefix: tuple[int, ...], strategy: DiverseChunks, count: int
) -> list[Hypothesis]:
    if len(prefix) == LENGTH or (prefix and prefix[-1] == 0):
        return []
    ends = make_ends(strategy.chunk, to_text)
    (found,) = decode(
        Continuing(model, [of], [prefix]),
        [0],
        DiverseBeamSearch(groups=count, beams_per_group=1, strength=1.0),
        max_length=min(strategy.longest, LENGTH - len(prefix)),
        end=0,
        stop=lambda _, tokens: torch.tensor([ends(each) for each in tokens.tolist()]),
    )
    return sorted(found, key=lambda each: each.group)


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_a_slow_simple_search_finds_the_same(strategy: DiverseChunks, seed: int) -> None:
    strategy = replace(strategy, propose="beams")
    for scorer in (LengthNormalised(), LogProb()):
        found = search(Speaking(seed), strategy, scorer=scorer)
        slow = slow_search(Speaking(seed), (1, 2), strategy, scorer)
        assert tokens_of(found) == [[each.tokens for each in of_input] for of_input in slow]
        for fast, plain in zip(found, slow, strict=True):
            assert [h.log_prob for h in fast] == pytest.approx([h.log_prob for h in plain], abs=1e-5)
            assert [h.score for h in fast] == pytest.approx([h.score for h in plain], abs=1e-5)
            assert [h.finished for h in fast] == [h.finished for h in plain]


# What it is where there is nothing to choose


@pytest.mark.parametrize("chunk", ["sentence", 1, 4])
def test_one_proposal_by_beams_is_greedy(chunk: Any) -> None:
    strategy = chunks(groups=1, proposals=1, propose="beams", chunk=chunk)
    greedy = decode(Speaking(), [1, 2], BeamSearch(beams=1), max_length=LENGTH, end=0)
    assert tokens_of(search(Speaking(), strategy)) == tokens_of(greedy)


def test_a_chunk_that_is_the_whole_output_is_one_of_as_many_samples() -> None:
    strategy = chunks(chunk=LENGTH, temperature=0.8, top_p=0.9, strength=0.0)
    sampled = DiverseSampling(groups=3, samples_per_group=3, strength=0.0, temperature=0.8, top_p=0.9)
    options: dict[str, Any] = {"max_length": LENGTH, "end": 0, "seed": 5, "scorer": LengthNormalised()}
    for chosen, samples in zip(
        decode(Speaking(), [1, 2], strategy, **options),
        decode(Speaking(), [1, 2], sampled, **options),
        strict=True,
    ):
        best = [max(h.score for h in samples if h.group == group) for group in range(3)]
        assert chosen[0].score == pytest.approx(best[0])
        # A later group has what the others left, too.
        assert all(h.score >= low - 1e-6 for h, low in zip(chosen, best, strict=True) if h.group == 1)
        assert {h.tokens for h in chosen} <= {h.tokens for h in samples}
        assert len({h.tokens for h in chosen}) == 3


# Who depends on whom


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_no_group_depends_on_a_later_one(strategy: DiverseChunks, seed: int) -> None:
    whole = search(Speaking(seed), replace(strategy, groups=4))
    for count in (1, 2, 3):
        few = search(Speaking(seed), replace(strategy, groups=count))
        assert [list(each) for each in few] == [list(each)[:count] for each in whole]


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_an_input_does_not_depend_on_its_batch(strategy: DiverseChunks, seed: int) -> None:
    whole = search(Speaking(seed), strategy, inputs=(1, 2, 3), seed=seed)
    for place in range(3):
        (alone,) = search(Speaking(seed), strategy, inputs=(place + 1,), seed=seed, numbers=[place])
        assert alone == whole[place]


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_a_model_whose_states_cannot_be_joined_finds_the_same(strategy: DiverseChunks, seed: int) -> None:
    assert search(Unjoined(seed), strategy) == search(Speaking(seed), strategy)


def test_states_that_grow_are_gone_on_with_one_after_another() -> None:
    """A PrefixModel has a `join` that refuses rows of different lengths."""

    def logits(prefixes: Tensor) -> Tensor:
        model = Speaking(3)
        found, state = model.start([0] * len(prefixes))
        for column in prefixes.T[1:]:
            found, state = model.step(column, state)
        return found

    model = PrefixModel(logits)
    model.to_text = to_text  # type: ignore[attr-defined]
    strategy = chunks()
    found = search(model, strategy, inputs=[[0], [0]], seed=[7, 8])
    assert found == search(Speaking(3), strategy, inputs=(0, 0), seed=[7, 8])


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_more_groups_are_those_of_one_search(strategy: DiverseChunks, seed: int) -> None:
    whole = search(Speaking(seed), replace(strategy, groups=4))
    model = Speaking(seed)
    found = search(model, replace(strategy, groups=2), resumable=True)
    assert found.more(model, 2) == whole
    assert found.more(model, 1).more(model, 1) == whole


def test_groups_come_one_after_another() -> None:
    whole = search(Speaking(), chunks(groups=4))
    each = groups(Speaking(), [1, 2], chunks(groups=1), max_length=LENGTH, end=0)
    for group in range(4):
        assert [list(found) for found in next(each)] == [[found[group]] for found in whole]


# What its results say


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_outputs_are_what_they_say(strategy: DiverseChunks, seed: int) -> None:
    for place, found in enumerate(search(Speaking(seed), strategy)):
        assert [each.group for each in found] == list(range(strategy.groups))
        assert found.missing == 0
        for each in found:
            assert each.log_prob == pytest.approx(
                rescore(Speaking(seed), [1, 2], place, each.tokens), abs=1e-4
            )
            assert len(each.tokens) <= LENGTH
            assert each.finished == (each.tokens[-1] == 0)
            assert each.finished or len(each.tokens) == LENGTH
            assert 0 not in each.tokens[:-1]
            assert each.text == to_text(each.tokens)
            assert each.certified


@law
@given(strategy=strategies, seed=st.integers(0, 99), least=st.integers(2, 9), n=st.integers(1, 3))
def test_limits_hold_across_chunks(strategy: DiverseChunks, seed: int, least: int, n: int) -> None:
    options: dict[str, Any] = {"no_repeat_ngram": n, "min_length": least, "max_length": 9}
    for place, found in enumerate(search(Speaking(seed), strategy, **options)):
        for each in found:
            grams = [each.tokens[at : at + n] for at in range(len(each.tokens) - n + 1)]
            assert len(set(grams)) == len(grams)
            assert least <= len(each.tokens) <= 9 or (n == 1 and not each.finished)
            assert each.log_prob == pytest.approx(
                rescore(Speaking(seed), [1, 2], place, each.tokens), abs=1e-4
            )


@pytest.mark.parametrize("propose", PROPOSING)
def test_stop_is_asked_about_whole_outputs(propose: Any) -> None:
    asked: list[tuple[int, tuple[int, ...]]] = []

    def stop(inputs: Tensor, tokens: Tensor) -> Tensor:
        asked.extend(zip(inputs.tolist(), map(tuple, tokens.tolist()), strict=True))
        return (tokens == 3).sum(1) >= 2

    found = search(Speaking(1), chunks(propose=propose, chunk=2), stop=stop, min_length=3)
    for index, of_input in enumerate(found):
        for each in of_input:
            assert each.tokens[2:-1].count(3) + each.tokens[:2].count(3) <= 2
            if each.tokens.count(3) >= 2 and len(each.tokens) >= 3:
                assert each.finished
                assert (index, each.tokens) in asked
    assert {index for index, _ in asked} == {0, 1}
    assert min(len(tokens) for _, tokens in asked) >= 3


def test_unique_leaves_out_what_an_earlier_group_has_found() -> None:
    table = torch.full((VOCABULARY, VOCABULARY), -9.0)
    table[:, 0], table[:, 1] = 0.0, -0.5
    model = MarkovModel(table)
    model.to_text = to_text  # type: ignore[attr-defined]
    strategy = chunks(groups=2, proposals=2, strength=0.0, propose="beams", chunk=2)
    assert len({each.tokens for each in search(model, strategy, unique=True)[0]}) == 2


# What it costs


@pytest.mark.parametrize("propose", PROPOSING)
def test_the_model_computes_the_tokens_of_proposals_alone_and_one_for_each_chunk(propose: Any) -> None:
    model, rows, longest = Speaking(2), 0, 0
    strategy = chunks(groups=3, proposals=2, propose=propose)
    for step in steps(model, [1, 2], strategy, max_length=LENGTH, end=0):
        (selection,) = step.selections
        chunks_of = selection.chunks
        assert chunks_of is not None
        own = (selection.picks.score > -torch.inf).sum(2).clamp(max=2)
        lengths = (chunks_of >= 0).sum(3)
        if step.number:
            rows += int((own > 0).sum()) + int((lengths - 1).clamp(min=0).sum())
            longest += int(lengths.max())
        else:
            longest += int(lengths.max()) - 1
    first_rows = sum(model.calls) - rows
    assert 0 < first_rows <= 2 * 3 * 2 * (LENGTH - 1)
    # All groups of all inputs are one batch: as many calls as the longest chunk of each round has tokens.
    assert len(model.calls) <= longest + LENGTH


def test_all_proposals_of_a_round_are_one_batch() -> None:
    model = Speaking()
    found = list(steps(model, [1, 2, 3], chunks(chunk=3, groups=4, proposals=2), max_length=9, end=None))
    assert len(found) == 3
    assert model.calls == [24, 24, 12, 24, 24, 12, 24, 24]


# Steps, recordings, other doors


@pytest.mark.parametrize("propose", PROPOSING)
def test_steps_lead_to_the_result(propose: Any) -> None:
    strategy = chunks(propose=propose)
    *_, last = seen = list(steps(Speaking(), [1, 2], strategy, max_length=LENGTH, end=0))
    assert last.hypotheses == search(Speaking(), strategy)
    assert [step.number for step in seen] == list(range(len(seen)))
    texts = [[h.text or "" for h in step.hypotheses[0]] for step in seen]
    for before, after in pairwise(texts):
        assert all(new.startswith(old) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("propose", PROPOSING)
def test_a_recording_has_every_proposal_and_leads_to_the_result(propose: Any) -> None:
    strategy = chunks(propose=propose, chunk=3)
    recordings = record(Speaking(), [1, 2], strategy, max_length=LENGTH, end=0)
    for recording, found in zip(recordings, search(Speaking(), strategy), strict=True):
        assert recording.hypotheses == found
        assert None not in recording.ends
        for end, each in zip(recording.ends, found, strict=True):
            assert end is not None
            place, tokens = end, tuple[int, ...]()
            while place != -1:
                branch = recording.branches[place]
                assert branch.fate != "dropped"
                assert branch.text == to_text(branch.added)
                place, tokens = branch.parent, branch.added + tokens
            assert tokens == each.tokens
            assert recording.branches[end].score == pytest.approx(each.score)
            assert recording.branches[end].log_prob == pytest.approx(each.log_prob)
        dropped = [branch for branch in recording.branches if branch.fate == "dropped"]
        assert dropped
        assert Recording.from_json(recording.to_json()) == recording
        assert "<svg" in recording.svg()


def test_the_first_group_pays_nothing_and_the_others_what_they_share() -> None:
    (recording,) = record(Speaking(), [1], chunks(strength=2.0, chunk=3), max_length=LENGTH, end=0)
    first = {
        branch.time: branch for branch in recording.branches if branch.group == 0 and branch.fate != "dropped"
    }
    assert all(branch.cost == 0 for branch in first.values())
    for branch in recording.branches:
        if branch.group == 1 and branch.time == 0:
            expected = 2.0 * letters_shared(branch.text, first[0].text)
            assert branch.cost == pytest.approx(expected)


def test_an_asynchronous_model_finds_the_same() -> None:
    class Asynchronous:
        end = 0
        to_text = staticmethod(to_text)

        def __init__(self) -> None:
            self._model = Speaking()

        async def start(self, inputs: Any) -> Any:
            return self._model.start(inputs)

        async def step(self, tokens: Tensor, state: Tensor) -> Any:
            return self._model.step(tokens, state)

        async def select(self, state: Tensor, rows: Tensor) -> Tensor:
            return self._model.select(state, rows)

        async def join(self, states: Sequence[Tensor]) -> Tensor:
            return self._model.join(states)

    found = asyncio.run(decode_async(Asynchronous(), [1, 2], chunks(), max_length=LENGTH))
    assert found == search(Speaking(), chunks())


class Listing(Speaking):
    """Answers with lists of all its candidates, or of the likeliest."""

    def __init__(self, width: int) -> None:
        super().__init__(0)
        self.width = width

    def _logits(self, state: Tensor) -> Any:
        log_prob, tokens = super()._logits(state).log_softmax(-1).topk(self.width)
        rest = log_prob[:, -1] if self.width < VOCABULARY else torch.full_like(log_prob[:, -1], -torch.inf)
        return Shortlist(tokens, log_prob, rest)


@pytest.mark.parametrize("propose", PROPOSING)
@pytest.mark.parametrize("options", [{}, {"no_repeat_ngram": 2, "min_length": 4}])
def test_lists_of_candidates_do_as_well(propose: Any, options: dict[str, Any]) -> None:
    strategy = chunks(propose=propose, chunk=3)
    found, plain = search(Listing(VOCABULARY), strategy, **options), search(Speaking(), strategy, **options)
    assert tokens_of(found) == tokens_of(plain)
    for one, other in zip(found, plain, strict=True):
        assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], abs=1e-5)
        assert all(h.certified for h in one)


def test_lists_that_are_too_short_leave_doubt() -> None:
    with pytest.warns(UserWarning, match="too short|list"):
        found = search(Listing(2), chunks(propose="beams", proposals=4, chunk=3))
    assert not all(h.certified for of_input in found for h in of_input)


@law
@given(strategy=strategies, seed=st.integers(0, 99))
def test_guidance_has_its_say_and_log_prob_stays_the_models(strategy: DiverseChunks, seed: int) -> None:
    class Guiding(Speaking):
        def _logits(self, state: Tensor) -> Any:
            logits = super()._logits(state)
            guidance = torch.zeros_like(logits)
            guidance[:, 3] = -50.0
            return Guided(logits, guidance, bounded=True)

    for place, found in enumerate(search(Guiding(seed), strategy)):
        for each in found:
            assert 3 not in each.tokens
            assert each.log_prob == pytest.approx(
                rescore(Speaking(seed), [1, 2], place, each.tokens), abs=1e-4
            )


def test_a_softened_model_keeps_its_own_log_prob() -> None:
    for place, found in enumerate(search(Speaking(), chunks(), model_temperature=3.0)):
        for each in found:
            assert each.log_prob == pytest.approx(rescore(Speaking(), [1, 2], place, each.tokens), abs=1e-4)


# Models that draw chunks by themselves


class DrawnModel(Speaking):
    """Draws chunks by itself, and cannot be asked step by step."""

    def __init__(self, *chunks_of: str) -> None:
        super().__init__()
        self.asked: list[tuple[Sequence[int], Sequence[tuple[int, ...]], Drawing]] = []
        self._chunks = [tuple(SIGNS.index(sign) for sign in chunk) for chunk in chunks_of]

    def step(self, tokens: Tensor, state: Tensor) -> Any:
        raise AssertionError("it is not asked step by step")

    def draw(
        self, state: Any, rows: Sequence[int], prefixes: Sequence[tuple[int, ...]], drawing: Drawing
    ) -> list[list[Drawn]]:
        self.asked.append((rows, prefixes, drawing))
        found = []
        for prefix, seed in zip(prefixes, drawing.seeds, strict=True):
            places = [(len(prefix) + seed + each) % len(self._chunks) for each in range(drawing.count)]
            drawn = [self._chunks[place] for place in places]
            found.append([Drawn(tokens, tuple(-float(token + 1) for token in tokens)) for tokens in drawn])
        return found


def test_a_model_that_draws_by_itself_is_asked_once_a_round() -> None:
    model = DrawnModel("abcd.", "ef!", "a#", "cc.")
    found = search(model, chunks(temperature=0.7, top_p=0.9, longest=6))
    assert len(model.asked) == len(list(steps(model, [1, 2], chunks(longest=6), max_length=LENGTH, end=0)))
    rows, prefixes, drawing = model.asked[0]
    assert (list(rows), set(prefixes)) == ([0, 0, 0, 1, 1, 1], {()})
    assert (drawing.count, set(drawing.most), drawing.ends, drawing.least) == (3, {6}, (0,), 4)
    assert (drawing.temperature, drawing.top_p, drawing.top_k, drawing.min_p) == (0.7, 0.9, None, None)
    assert set(drawing.marks) == set(".!?…。！？\n")
    assert len(set(drawing.seeds)) == 6
    for of_input in found:
        for each in of_input:
            assert each.log_prob == pytest.approx(-sum(token + 1 for token in each.tokens))
            assert each.finished == (each.tokens[-1] == 0)
            assert len(each.tokens) <= LENGTH


def test_what_was_drawn_is_cut_where_it_may_not_go_on() -> None:
    model = DrawnModel("abab.", "abc#")
    strategy = chunks(groups=1, proposals=2, strength=0.0)
    ((each,),) = search(model, strategy, inputs=[1], no_repeat_ngram=2, max_length=6)
    grams = list(zip(each.tokens, each.tokens[1:], strict=False))
    assert len(set(grams)) == len(grams)
    ((each,),) = search(DrawnModel("a#"), strategy, inputs=[1], min_length=4, max_length=6)
    assert (each.text, each.finished) == ("aaa", True)


def test_a_model_that_draws_is_asked_step_by_step_where_it_cannot_know() -> None:
    class Both(Speaking):
        def draw(self, *arguments: Any) -> Any:
            raise AssertionError("it is not asked to draw")

    cases: list[tuple[DiverseChunks, dict[str, Any]]] = [
        (chunks(propose="beams"), {}),
        (chunks(chunk=lambda text: text.endswith("a")), {}),
        (chunks(), {"stop": lambda inputs, tokens: tokens[:, -1] == 3}),
        (chunks(), {"model_temperature": 2.0}),
    ]
    for strategy, options in cases:
        assert tokens_of(search(Both(), strategy, **options)) == tokens_of(
            search(Speaking(), strategy, **options)
        )


# Edges, and bad input


def test_the_term_keeps_groups_apart() -> None:
    def shared(found: Results) -> float:
        texts = [h.text or "" for h in found[0]]
        pairs = [(one, other) for at, one in enumerate(texts) for other in texts[:at]]
        return sum(letters_shared(*pair) for pair in pairs) / len(pairs)

    model = Speaking()
    options: dict[str, Any] = {"inputs": [1], "max_length": 6}
    close, apart = (
        shared(search(model, chunks(groups=4, proposals=8, strength=strength), **options))
        for strength in (0.0, 9.0)
    )
    assert apart < close


@pytest.mark.parametrize("propose", PROPOSING)
def test_a_dead_end_is_the_end(propose: Any) -> None:
    table = torch.full((VOCABULARY, VOCABULARY), -torch.inf)
    table[0, 1] = table[1, 2] = table[2, 3] = 0.0
    table[3, 4] = 0.0
    model = MarkovModel(table)
    model.to_text = to_text  # type: ignore[attr-defined]
    found = search(model, chunks(propose=propose, chunk=2), inputs=[0], no_repeat_ngram=1, max_length=4)
    assert {h.tokens for h in found[0]} == {(1, 2, 3, 4)}


def test_no_inputs() -> None:
    assert list(search(Speaking(), chunks(), inputs=[])) == []


def test_first_proposals_may_be_more() -> None:
    model = Speaking()
    list(steps(model, [1], chunks(groups=2, proposals=1, first_proposals=5, chunk=2), max_length=4, end=None))
    assert model.calls == [10, 2, 2]


def test_a_function_says_where_a_chunk_ends() -> None:
    asked: list[str] = []

    def is_whole(text: str) -> bool:
        asked.append(text)
        return text.count("a") > 0

    for step in steps(Speaking(), [1], chunks(chunk=is_whole, longest=99), max_length=LENGTH, end=None):
        for branch in step.selections[0].chunks[0, :, 0].tolist():  # type: ignore[index]
            text = to_text(tuple(token for token in branch if token >= 0))
            assert text.count("a") <= 1
    assert asked


def marked(chunk: Any) -> Callable[[str], bool]:
    ends = make_ends(chunk, to_text)
    return lambda text: ends([SIGNS.index(sign) for sign in text])


def test_where_chunks_end() -> None:
    assert [marked("sentence")(text) for text in ("abc.", "ab.", "abcd", "abcd!", "abc.d")] == [
        True,
        False,
        False,
        True,
        False,
    ]
    assert [marked(2)(text) for text in ("a", "ab")] == [False, True]
    ends = make_ends("line", lambda tokens: {1: "x", 2: ".\n"}[tokens[0]])
    assert [ends([1]), ends([2]), ends([1, 2])] == [False, True, True]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"groups": 0}, "groups"),
        ({"proposals": 0}, "proposals"),
        ({"first_proposals": 0}, "first_proposals"),
        ({"longest": 0}, "longest"),
        ({"strength": -1.0}, "strength"),
        ({"strength": [1.0]}, "strength"),
        ({"chunk": "paragraph"}, "there is no chunk 'paragraph'"),
        ({"chunk": 0}, "chunk"),
        ({"chunk": None}, "chunk must be"),
        ({"propose": "guesses"}, "propose must be 'samples' or 'beams'"),
        ({"similarity": "vibes"}, "there is no similarity 'vibes'"),
        ({"similarity": 3}, "similarity must be"),
        ({"top_p": 2.0}, "top_p"),
        ({"temperature": 0.0}, "temperature"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DiverseChunks(**{"groups": 3, **settings})


def test_a_model_must_say_how_tokens_read() -> None:
    with pytest.raises(ArgumentError, match="has no to_text"):
        search(PrefixHashModel(VOCABULARY), chunks())


def test_a_model_with_a_fixed_number_of_rows_is_refused() -> None:
    class Fixed(Speaking):
        fixed_rows = True

        def advance(self, state: Any, parents: Any, tokens: Any) -> Any: ...

    with pytest.raises(ArgumentError, match="fixed_rows"):
        search(Fixed(), chunks())


def test_no_more_than_one_output_of_each_group() -> None:
    with pytest.raises(ArgumentError, match="return_per_group"):
        search(Speaking(), chunks(), return_per_group=2)


def test_a_function_model_may_be_searched() -> None:
    table = normal(3, VOCABULARY, VOCABULARY)
    model = FunctionModel(lambda tokens, state: (table[tokens] + state[:, :1], state), start=1)
    model.to_text = to_text  # type: ignore[attr-defined]
    found = (
        search(model, chunks(), inputs=[1, 2])
        if False
        else decode(model, torch.zeros(2, 1), chunks(), max_length=LENGTH, end=0)
    )
    assert [len(each) for each in found] == [3, 3]
