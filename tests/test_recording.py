"""Recordings: what they return is what `decode` returns, and every branch that led there is in them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    Hypotheses,
    Strategy,
    decode,
    steps,
)
from beamsplit.recording import Branch, Recorder, Recording, addition, record
from beamsplit.testing import MarkovModel, PrefixHashModel
from search.cases import every_strategy

WORDS = "END the bird birds sit sits on a tree high up".split()
INPUTS = list(range(6))
OPTIONS: dict[str, Any] = {"max_length": 6, "end": 0}


class Speaking(PrefixHashModel):
    """Its tokens are words, and the end, which is likelier than other tokens, says nothing."""

    def _logits(self, state: Tensor) -> Tensor:
        return super()._logits(state) + 1.6 * (torch.arange(self.vocabulary) == 0)

    def to_text(self, tokens: Sequence[int]) -> str:
        return " ".join(WORDS[token] for token in tokens if token)


MODEL = Speaking(len(WORDS), seed=5)


def _spelled(recording: Recording, place: int) -> list[Branch]:
    """A branch and those that it goes on from, the first first."""
    branch = recording.branches[place]
    return ([] if branch.parent == -1 else _spelled(recording, branch.parent)) + [branch]


# Laws


@every_strategy
def test_a_recorded_search_returns_what_decode_returns(strategy: Strategy) -> None:
    recordings = record(MODEL, INPUTS, strategy, **OPTIONS)
    assert [each.hypotheses for each in recordings] == decode(MODEL, INPUTS, strategy, **OPTIONS)
    assert {each.title for each in recordings} == {type(strategy).__name__}


@every_strategy
def test_every_hypothesis_is_the_end_of_branches_that_spell_it(strategy: Strategy) -> None:
    for recording in record(MODEL, INPUTS, strategy, **OPTIONS):
        for end, found in zip(recording.ends, recording.hypotheses, strict=True):
            assert end is not None
            path = _spelled(recording, end)
            assert tuple(branch.token for branch in path) == found.tokens
            assert "".join(branch.text for branch in path) == found.text
            assert {branch.group for branch in path} == {found.group}
            assert path[-1].log_prob == pytest.approx(found.log_prob)
            assert path[-1].fate == ("ended" if found.finished else "lives")


@every_strategy
def test_kept_are_the_branches_on_the_way_to_a_hypothesis(strategy: Strategy) -> None:
    for recording in record(MODEL, INPUTS, strategy, **OPTIONS):
        prefixes = {(h.group, h.tokens[:n]) for h in recording.hypotheses for n in range(1, 7)}
        kept = [_spelled(recording, place) for place in sorted(recording.kept)]
        assert {(path[0].group, tuple(branch.token for branch in path)) for path in kept} == prefixes
        assert all(branch.fate != "dropped" for path in kept for branch in path)


@every_strategy
def test_branches_come_after_what_they_go_on_from(strategy: Strategy) -> None:
    for recording in record(MODEL, INPUTS, strategy, **OPTIONS):
        for place, branch in enumerate(recording.branches):
            assert -1 <= branch.parent < place
            before = recording.branches[branch.parent] if branch.time else None
            assert (branch.parent == -1) == (before is None)
            assert before is None or (before.time, before.group) == (branch.time - 1, branch.group)
            assert before is None or before.fate == "lives"
            assert before is None or branch.log_prob <= before.log_prob


@every_strategy
def test_json_brings_back_the_recording(strategy: Strategy) -> None:
    for recording in record(MODEL, INPUTS, strategy, title="<one> \ud800 & more", **OPTIONS):
        back = Recording.from_json(recording.to_json(indent=1))
        assert back == recording
        assert (back.kept, back.ends, back.groups) == (recording.kept, recording.ends, recording.groups)


@every_strategy
def test_a_recorder_fed_step_by_step_has_the_whole_in_the_end(strategy: Strategy) -> None:
    whole = record(MODEL, INPUTS, strategy, title="it", **OPTIONS)
    recorders = [Recorder(MODEL.to_text, "it", place) for place in range(len(INPUTS))]
    for step in steps(MODEL, INPUTS, strategy, **OPTIONS):
        for place, recorder in enumerate(recorders):
            before = len(recorder.recording.branches)
            recorder.add(step)
            now = recorder.recording
            assert now.hypotheses == step.hypotheses[place]
            assert None not in now.ends
            assert _without_fates(whole[place], before) == _without_fates(now, before)
    assert [recorder.recording for recorder in recorders] == whole


def _without_fates(recording: Recording, count: int) -> list[Branch]:
    return [replace(branch, fate="lives") for branch in recording.branches[:count]]


@every_strategy
def test_an_input_is_recorded_as_if_it_were_alone(strategy: Strategy) -> None:
    """Those that end early leave the batch, and others take their rows."""
    together = record(MODEL, INPUTS, strategy, seed=list(range(7, 13)), **OPTIONS)
    lengths = {max((branch.time for branch in each.branches), default=0) for each in together}
    for place, recording in enumerate(together):
        (alone,) = record(MODEL, [INPUTS[place]], strategy, seed=[7 + place], **OPTIONS)
        assert alone.hypotheses == recording.hypotheses
        assert _without_numbers(alone) == _without_numbers(recording)
    assert len(lengths) > 1


def _without_numbers(recording: Recording) -> list[tuple[Any, ...]]:
    return [(b.parent, b.group, b.time, b.token, b.text, b.fate) for b in recording.branches]


# By hand


def test_a_diverse_search_worked_by_hand() -> None:
    """Token 0 is the end. The second group pays 1 for what the first says at the same step.

    Step 1: 1 is likeliest, and the second group leaves it to the first: log .6 - 1 < log .3.
    Step 2: the first group ends, and is done. The second would end too, but pays for it.
    Step 3: the first says nothing any more, so the second ends free of charge.
    """
    model = MarkovModel(torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.6, 0.3, 0.1]]).log())
    strategy = DiverseBeamSearch(groups=2, strength=1.0)
    (recording,) = record(model, [0], strategy, max_length=3, end=0)
    expected = [
        # parent, group, token, probability, cost, fate
        (-1, 0, 1, 0.6, 0.0, "lives"),
        (-1, 0, 2, 0.3, 0.0, "dropped"),
        (-1, 1, 2, 0.3, 0.0, "lives"),
        (-1, 1, 1, 0.6, 1.0, "dropped"),
        (0, 0, 0, 0.6 * 0.5, 0.0, "ended"),
        (0, 0, 2, 0.6 * 0.3, 0.0, "dropped"),
        (2, 1, 1, 0.3 * 0.3, 0.0, "lives"),
        (2, 1, 0, 0.3 * 0.6, 1.0, "dropped"),
        (6, 1, 0, 0.3 * 0.3 * 0.5, 0.0, "ended"),
        (6, 1, 2, 0.3 * 0.3 * 0.3, 0.0, "dropped"),
    ]
    for branch, row in zip_longest(recording.branches, expected):
        parent, group, token, probability, cost, fate = row
        assert (branch.parent, branch.group, branch.token, branch.fate) == (parent, group, token, fate)
        assert branch.log_prob == pytest.approx(math.log(probability), abs=1e-6)
        assert branch.cost == pytest.approx(cost)
        assert branch.score == pytest.approx(branch.log_prob - cost, abs=1e-6)
    assert [branch.time for branch in recording.branches] == [0] * 4 + [1] * 4 + [2] * 2
    assert recording.ends == (4, 8)
    assert recording.kept == {0, 2, 4, 6, 8}
    assert recording.groups == 2
    assert repr(recording) == "<Recording 'DiverseBeamSearch': 2 groups, 10 branches, 2 hypotheses>"


def test_a_cost_is_of_its_token_alone_and_a_score_of_the_whole_prefix() -> None:
    """Both groups can only say 1: the second pays for it at every step."""
    model = MarkovModel(torch.tensor([[0.0, 1.0], [0.0, 1.0]]).log())
    (recording,) = record(model, [0], DiverseBeamSearch(groups=2, strength=0.5), max_length=3)
    second = [branch for branch in recording.branches if branch.group == 1]
    assert [(branch.cost, branch.score) for branch in second] == [(0.5, -0.5), (0.5, -1.0), (0.5, -1.5)]
    assert [branch.fate for branch in recording.branches] == ["lives"] * 6


def test_a_model_that_cannot_speak_is_recorded_by_its_tokens() -> None:
    (recording,) = record(PrefixHashModel(20, seed=1), [0], BeamSearch(beams=1), max_length=3)
    (found,) = recording.hypotheses
    said = "".join(recording.branches[place].text for place in sorted(recording.kept))
    assert said == " ".join(str(token) for token in found.tokens)


@pytest.mark.parametrize(
    ("before", "after", "added"),
    [
        ("", "a", "a"),
        ("a", "a b", " b"),
        ("a?", "a b?", " b"),
        ("a.", "a.", ""),
        ("aa", "aaa", "a"),
        ("b", "a b", "a "),
    ],
)
def test_what_a_token_adds_may_stand_before_what_ends_every_text(before: str, after: str, added: str) -> None:
    spoken = {(1,): before, (1, 2): after}
    assert addition(lambda tokens: spoken[tokens], (1,), (2,)) == added


# Edges


def test_nothing_is_recorded_of_no_inputs() -> None:
    assert record(MODEL, [], BeamSearch(beams=2), max_length=3) == []


def test_a_recorder_that_has_seen_nothing_has_an_empty_recording() -> None:
    empty = Recorder(title="it").recording
    assert empty == Recording("it", (), Hypotheses())
    assert (empty.groups, empty.kept, empty.ends) == (0, frozenset(), ())
    assert Recording.from_json(empty.to_json()) == empty


def _broken(**changes: Any) -> str:
    (recording,) = record(MODEL, [0], BeamSearch(beams=1), max_length=2)
    content = recording.as_dict()
    content["branches"][0] |= changes
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not the JSON of a recording: Expecting"),
        ("[]", "not the JSON of a recording: list indices"),
        ('{"title": "", "hypotheses": []}', "not the JSON of a recording: 'branches'"),
        (_broken(colour=1), "not the JSON of a recording: .*colour"),
        (_broken(parent=0), "branch 0 extends branch 0, which does not come before it"),
        (_broken(parent=-2), "branch 0 extends branch -2, which does not come before it"),
    ],
)
def test_what_is_no_recording_is_named(text: str, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint) as raised:
        Recording.from_json(text)
    assert "\n" not in str(raised.value)
