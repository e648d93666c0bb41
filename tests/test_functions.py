"""Models made of functions: what is said of a recurrent network's state, or of prompts, that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from beamsplit import (
    ArgumentError,
    BeamSearch,
    DiverseBeamSearch,
    FunctionModel,
    ModelError,
    PrefixModel,
    decode,
)

VOCABULARY, HIDDEN, END = 8, 5, 1
ADVICE = (
    "the batch must be the first axis of every state tensor. In a state of nn.LSTM or nn.GRU, (layers, "
    "batch, hidden), it is the second: return state.transpose(0, 1) from start and step, and begin step with "
    "state.transpose(0, 1).contiguous() (of an LSTM, both tensors)"
)


def turned(state: Any) -> Any:
    """The line that errors advise, for one tensor or two."""
    if isinstance(state, tuple):
        return tuple(part.transpose(0, 1).contiguous() for part in state)
    return state.transpose(0, 1).contiguous()


@dataclass(frozen=True)
class Recurrent:
    """A recurrent network of torch whose weights are always the same."""

    kind: type[nn.LSTM] | type[nn.GRU]
    layers: int

    def __str__(self) -> str:
        return f"{self.kind.__name__} of {self.layers}"

    def step(self, keeps_batch_first: bool) -> Callable[[Tensor, Any], Any]:
        torch.manual_seed(0)
        network = self.kind(4, HIDDEN, num_layers=self.layers)
        words, output = torch.randn(VOCABULARY, 4) * 3, torch.randn(HIDDEN, VOCABULARY) * 3

        def step(tokens: Tensor, state: Any) -> Any:
            state = turned(state) if keeps_batch_first else state
            found, state = network(words[tokens].unsqueeze(0), state)
            return found[0] @ output, turned(state) if keeps_batch_first else state

        return step

    def states(self, batch: int) -> Any:
        """First states as the network has them, (layers, batch, hidden)."""
        torch.manual_seed(1)
        hidden, cell = torch.randn(2, self.layers, batch, HIDDEN)
        return (hidden, cell) if self.kind is nn.LSTM else hidden

    def shapes(self, rows: int, columns: int) -> str:
        return ", ".join([f"[{rows}, {columns}, {HIDDEN}]"] * (2 if self.kind is nn.LSTM else 1))


NETWORKS = [Recurrent(kind, layers) for kind in (nn.LSTM, nn.GRU) for layers in (1, 2)]
every_network = pytest.mark.parametrize("network", NETWORKS, ids=str)


@every_network
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_what_the_errors_advise_works(network: Recurrent, batch: int) -> None:
    """Every input gets what it gets alone."""
    model = FunctionModel(network.step(keeps_batch_first=True), start=0)
    states = turned(network.states(batch))
    together = decode(model, states, BeamSearch(beams=2), max_length=5, end=END)
    for index, found in enumerate(together):
        own = model.select(states, torch.tensor([index]))
        (alone,) = decode(model, own, BeamSearch(beams=2), max_length=5, end=END)
        assert [h.tokens for h in alone] == [h.tokens for h in found]


def started_by_a_function(network: Recurrent, batch: int) -> FunctionModel:
    step = network.step(keeps_batch_first=False)
    return FunctionModel(step, start=lambda _: step(torch.zeros(batch).long(), network.states(batch)))


@every_network
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_layers_first_states_are_explained(network: Recurrent, batch: int) -> None:
    model = started_by_a_function(network, batch)
    with pytest.raises((ModelError, RuntimeError)) as caught:
        decode(model, list(range(batch)), BeamSearch(beams=2), max_length=3)
    shape = f"[{network.layers}, {batch}, {HIDDEN}]"
    if network.layers != batch:
        said = f"start returned a state tensor of shape {shape} for {batch} rows: {ADVICE}"
        assert str(caught.value) == said
    else:  # it shows as soon as there are more rows than layers
        given = network.shapes(2 * batch, batch)
        said = f"beamsplit called step with tokens [{2 * batch}] and state tensors of shape {given}: {ADVICE}"
        assert caught.value.__notes__ == [said]


@every_network
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_layers_first_inputs_are_explained(network: Recurrent, batch: int) -> None:
    """Inputs that are first states have as many rows as layers, as far as anyone can tell."""
    model = FunctionModel(network.step(keeps_batch_first=False), start=0)
    with pytest.raises(RuntimeError) as caught:
        decode(model, network.states(batch), BeamSearch(beams=2), max_length=3)
    (note,) = caught.value.__notes__
    assert note.endswith(f": {ADVICE}")


def ending_at_once(step: Callable[[Tensor, Any], Any], states: Any) -> FunctionModel:
    """Of two inputs, the second is sure to end at once: later rows are all the first's."""

    def start(_: Any) -> Any:
        logits, state = step(torch.zeros(2).long(), states)
        logits = logits.clone()
        logits[1] = -100.0
        logits[1, END] = 100.0
        return logits, state

    return FunctionModel(step, start=start)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers_are_not_selected_for_rows(kind: Any) -> None:
    """With as many layers as rows all shapes fit, and layer 0 would be taken twice for row 0 twice."""
    network = Recurrent(kind, layers=2)
    model = ending_at_once(network.step(keeps_batch_first=False), network.states(2))
    with pytest.raises(ModelError) as caught:
        decode(model, [0, 1], DiverseBeamSearch(groups=2), max_length=4, end=END)
    assert str(caught.value) == f"step fails on one row of a state tensor of shape [2, 2, {HIDDEN}]: {ADVICE}"


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_step_on_as_many_rows_as_layers_does_not_tell_which_are_which(kind: Any) -> None:
    network = Recurrent(kind, layers=2)
    model = FunctionModel(network.step(keeps_batch_first=False), start=0)
    _, state = model.step(torch.zeros(2).long(), network.states(2))
    with pytest.raises(ModelError, match=r"^step fails on one row of a state tensor"):
        model.select(state, torch.tensor([0, 0]))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_state_that_looks_like_it_is_tried_once(kind: Any) -> None:
    network = Recurrent(kind, layers=2)
    step, calls = network.step(keeps_batch_first=True), []

    def counted(tokens: Tensor, state: Any) -> Any:
        calls.append(len(tokens))
        return step(tokens, state)

    model = ending_at_once(counted, turned(network.states(2)))
    strategy = DiverseBeamSearch(groups=2)
    found, _ = decode(model, [0, 1], strategy, max_length=4, end=END)
    assert calls == [2, 1, 2, 2, 2]  # the start, one row to try, and three steps of two groups
    first = turned(network.states(2))
    own = tuple(part[:1] for part in first) if isinstance(first, tuple) else first[:1]
    (alone,) = decode(FunctionModel(step, start=0), own, strategy, max_length=4, end=END)
    assert [h.tokens for h in found] == [h.tokens for h in alone]


def test_a_state_that_cannot_be_mistaken_is_not_tried() -> None:
    """A memory [rows source hidden] of ten words and ten beams: one row has shown that rows come first."""
    calls: list[int] = []

    def step(tokens: Tensor, memory: Tensor) -> Any:
        calls.append(len(tokens))
        return memory.mean(1)[:, :VOCABULARY] + torch.eye(VOCABULARY)[tokens], memory

    torch.manual_seed(0)
    decode(FunctionModel(step, start=0), torch.randn(1, 10, 10), BeamSearch(beams=10), max_length=4)
    assert calls == [1, 8, 10, 10]


# Prompts

AS_LISTS = "give a list of token ids for each input, such as [[5, 3, 8], [5, 9, 2]]"
LAST = PrefixModel(lambda prefix: torch.eye(6)[prefix[:, -1]])
ONE_LENGTH = (
    "PrefixModel takes prompts of one length, since it has no padding. Decode those of each length in a call "
    "of their own, or write a model with start, step and select that knows of padding"
)


@pytest.mark.parametrize(
    ("prompts", "line"),
    [
        ([[1, 2, 3], [4, 5]], f"prompt 0 has 3 tokens and prompt 1 has 2: {ONE_LENGTH}"),
        ([[1], [2], []], f"prompt 0 has 1 tokens and prompt 2 has 0: {ONE_LENGTH}"),
        (
            [torch.tensor([1, 2]), torch.tensor([3])],
            f"prompt 0 has 2 tokens and prompt 1 has 1: {ONE_LENGTH}",
        ),
        ([1, 2, 3], f"prompt 0 is 1, not a list: {AS_LISTS}"),
        (["hello"], f"prompt 0 is 'hello', not a list: {AS_LISTS}"),
        ([[1, 2], [3, 4.5]], f"prompt 1 has 4.5 for a token: {AS_LISTS}"),
        ([["hello", "you"]], f"prompt 0 has 'hello' for a token: {AS_LISTS}"),
        ([[True]], f"prompt 0 has True for a token: {AS_LISTS}"),
        ("hello", f"PrefixModel takes prompts of token ids, not 'hello': {AS_LISTS}"),
        (3, f"PrefixModel takes prompts of token ids, not 3: {AS_LISTS}"),
        (
            torch.zeros(2, 3),
            f"PrefixModel takes prompts [batch time] of token ids, not float32 of shape [2, 3]: {AS_LISTS}",
        ),
        (
            np.array([1, 2]),
            f"PrefixModel takes prompts [batch time] of token ids, not int64 of shape [2]: {AS_LISTS}",
        ),
        (
            [[], []],
            "prompts are empty, and the function fails on that: begin each with a token, such as the one "
            "that begins a sequence",
        ),
    ],
)
def test_prompts_that_do_not_fit(prompts: Any, line: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        decode(LAST, prompts, BeamSearch(beams=1), max_length=2)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    "prompts",
    [
        [[1, 2], [3, 4]],
        ((1, 2), (3, 4)),
        [torch.tensor([1, 2]), np.array([3, 4])],
        np.array([[1, 2], [3, 4]], dtype=np.uint16),
        torch.tensor([[1, 2], [3, 4]], dtype=torch.int32),
        iter([[1, 2], [3, 4]]),
    ],
    ids=["lists", "tuples", "rows", "array", "tensor", "iterator"],
)
def test_prompts_in_many_forms(prompts: Any) -> None:
    found = decode(LAST, prompts, BeamSearch(beams=1), max_length=2)
    assert [each.best.tokens for each in found] == [(2, 2), (4, 4)]


def test_a_function_may_know_what_to_do_with_nothing() -> None:
    def logits(prefix: Tensor) -> Tensor:
        begun = torch.cat([torch.full((len(prefix), 1), 3), prefix], 1)
        return torch.eye(6)[begun[:, -1]]

    found = decode(PrefixModel(logits), [[], []], BeamSearch(beams=1), max_length=2)
    assert [each.best.tokens for each in found] == [(3, 3), (3, 3)]


def test_an_error_of_the_function_itself_is_left_alone() -> None:
    def fails(_: Tensor) -> Tensor:
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match=r"^no network$"):
        decode(PrefixModel(fails), [[1]], BeamSearch(beams=1), max_length=2)
