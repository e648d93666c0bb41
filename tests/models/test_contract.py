"""What the search asks of a model, and what holds for each that ships."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

import beamsplit
from beamsplit import (
    AntiLanguageModel,
    ArithmeticSampling,
    BeamSearch,
    DiverseBeamSearch,
    Embedding,
    Hamming,
    Sampling,
)
from beamsplit.models.text import END, normalised
from beamsplit.testing import rescore
from models import shipped

NAMES = ["en-fr", "captioner", "questioner"]
each_model = pytest.mark.parametrize("name", NAMES)
DIVERSE = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7)
STRATEGIES = {
    "beam": BeamSearch(beams=4),
    "diverse": DIVERSE,
    "sampling": Sampling(samples=4),
    "arithmetic": ArithmeticSampling(samples=4),
}


def decode(model: Any, inputs: Any, strategy: Any = DIVERSE, **options: Any) -> Any:
    return beamsplit.decode(model, inputs, strategy, **{"max_length": 24, **options})


def close(a: Any, b: Any) -> bool:
    """Whether two results are the same but for rounding."""
    assert len(a) == len(b)
    same = [[h.tokens for h in each] for each in a] == [[h.tokens for h in each] for each in b]
    left, right = (torch.tensor([h.log_prob for each in found for h in each]) for found in (a, b))
    return same and torch.allclose(left, right, atol=1e-3)


# The contract


@each_model
def test_it_is_a_step_model(name: str) -> None:
    model = shipped.model(name)
    for each in (model, model.language_model):
        assert isinstance(each, beamsplit.StepModel)
        assert isinstance(each, beamsplit.JoinableModel)


@pytest.mark.parametrize("strategy", STRATEGIES)
@each_model
def test_log_prob_is_that_of_teacher_forcing(name: str, strategy: str) -> None:
    for place, found in enumerate(
        decode(shipped.model(name), shipped.inputs(name), STRATEGIES[strategy], max_length=15)
    ):
        assert found
        for hypothesis in found:
            table = shipped.taught(name, place, hypothesis.tokens)
            by_token = table.gather(1, torch.tensor(hypothesis.tokens).unsqueeze(1))
            assert hypothesis.log_prob == pytest.approx(float(by_token.sum()), abs=1e-3)


@each_model
def test_two_inputs_are_as_one_by_one(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    alone = [decode(model, inputs[place : place + 1])[0] for place in range(3)]
    assert close(decode(model, inputs), alone)
    assert close(decode(model, inputs[1:]), alone[1:])


@each_model
def test_staggered_is_lockstep(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    staggered = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, schedule="staggered")
    assert close(decode(model, inputs, staggered), decode(model, inputs))


@each_model
def test_outputs_end_and_have_their_text(name: str) -> None:
    model = shipped.model(name)
    for found in decode(model, shipped.inputs(name), max_length=40):
        for hypothesis in found:
            assert hypothesis.tokens.index(END) == len(hypothesis.tokens) - 1
            assert hypothesis.finished
            assert hypothesis.text == model.to_text(hypothesis.tokens)
            assert len(hypothesis.text.split()) > 1
    (short,) = decode(model, shipped.inputs(name)[:1], BeamSearch(beams=1), max_length=2)
    assert (len(short.best.tokens), short.best.finished) == (2, False)


@each_model
def test_padding_unknown_and_begin_are_never_said(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    wild = Sampling(samples=300, temperature=1000.0)  # every id is about as likely as any other
    said = torch.tensor([h.tokens for h in decode(model, inputs[:1], wild, max_length=4, end=None)[0]])
    assert said.shape == (300, 4)
    assert len(set(said.flatten().tolist())) > 900
    assert said.min() >= END
    first, state = model.start(inputs)
    for logits in (first, model.start_without(2)[0], model.step(first.argmax(1), state)[0]):
        assert (logits[:, :END] == -torch.inf).all()
        assert logits[:, END:].isfinite().all()


@each_model
def test_rows_are_repeated_permuted_and_dropped(name: str) -> None:
    model = shipped.model(name)
    logits, state = model.start(shipped.inputs(name))
    tokens = logits.argmax(1)
    expected, _ = model.step(tokens, state)
    rows = torch.tensor([2, 0, 0])
    found, _ = model.step(tokens[rows], model.select(state, rows))
    assert torch.allclose(found, expected[rows], atol=1e-4)
    assert not torch.allclose(expected[2], expected[0], atol=1e-1)
    # The first state is still what it was.
    assert torch.allclose(model.step(tokens, state)[0], expected, atol=1e-5)


@each_model
def test_states_are_put_together(name: str) -> None:
    model = shipped.model(name)
    logits, state = model.start(shipped.inputs(name))
    tokens = logits.argmax(1)
    parts = [model.select(state, torch.tensor(rows)) for rows in ([1, 2], [0])]
    order = torch.tensor([1, 2, 0])
    found, _ = model.step(tokens[order], model.join(parts))
    assert torch.allclose(found, model.step(tokens, state)[0][order], atol=1e-4)


# The condition


@each_model
def test_the_condition_matters(name: str) -> None:
    first = shipped.model(name).start(shipped.inputs(name))[0].softmax(1)
    assert (first[0] - first[1]).abs().sum() > 0.1
    bests = [found.best.text for found in decode(shipped.model(name), shipped.inputs(name))]
    assert len(set(bests)) == 3


@each_model
def test_it_can_be_left_out(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    logits, state = model.language_model.start(inputs)
    assert torch.allclose(logits, logits[:1].expand(3, -1), atol=1e-5)
    assert torch.allclose(logits[:1], model.start_without(1)[0], atol=1e-5)
    # Nobody looks at the inputs: what is no input will do.
    assert torch.equal(logits, model.language_model.start([None, "", 7])[0])
    tokens = torch.full((3,), int(logits[0].argmax()))
    after = model.language_model.step(tokens, state)[0]
    assert torch.allclose(after, after[:1].expand(3, -1), atol=1e-5)
    told = model.start(inputs)[0].softmax(1)
    assert ((told - logits.softmax(1)).abs().sum(1) > 0.1).all()


@each_model
def test_against_the_language_model(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    guided = AntiLanguageModel(model, model.language_model, strength=0.5)
    found = decode(guided, inputs, BeamSearch(beams=4), max_length=8)
    plain = decode(model, inputs, BeamSearch(beams=4), max_length=8)
    assert [each.texts for each in found] != [each.texts for each in plain]
    nothing = AntiLanguageModel(model, model.language_model, strength=0.0)
    assert close(decode(nothing, inputs, BeamSearch(beams=4), max_length=8), plain)
    # log_prob stays the model's, score is what Li et al. write.
    for place, each in enumerate(found):
        tokens = each.best.tokens
        assert each.best.log_prob == pytest.approx(rescore(model, inputs, place, tokens), abs=1e-3)
        against = rescore(model.language_model, inputs, place, tokens)
        assert each.best.score == pytest.approx(each.best.log_prob - 0.5 * against, abs=1e-3)


@each_model
def test_against_the_language_model_staggered(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    guided = AntiLanguageModel(model, model.language_model, strength=0.3)
    staggered = DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, schedule="staggered")
    assert close(
        decode(guided, inputs, staggered, max_length=8), decode(guided, inputs, DIVERSE, max_length=8)
    )


FLUENT = {
    "en-fr": [
        "Je ne sais pas où il est allé.",
        "Il fait très froid dans cette maison.",
        "Nous avons mangé du pain avec les enfants.",
    ],
    "captioner": [
        "a man riding a wave on a surfboard",
        "a group of people sitting around a table",
        "a black cat is sleeping on the bed",
    ],
    "questioner": [
        "what kind of dog is that",
        "where was this picture taken",
        "how long has he been playing the guitar",
    ],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name in NAMES for text in FLUENT[name]])
def test_the_language_model_prefers_fluent_text(name: str, text: str) -> None:
    """Its mean log-probability of the words in their order, and in three others."""
    model = shipped.model(name)

    def mean(words: list[str]) -> float:
        said = normalised(" ".join(words))
        ids = model.pieces.ids([said])[0] if name == "en-fr" else model.words.ids(said)
        return rescore(model.language_model, [None], 0, [*ids, END]) / (len(ids) + 1)

    words = text.split()
    shuffled = [random.Random(seed).sample(words, len(words)) for seed in range(3)]
    assert mean(words) > max(mean(other) for other in shuffled) + 0.3


# Terms


@each_model
def test_vectors_of_words(name: str) -> None:
    model, inputs = shipped.model(name), shipped.inputs(name)
    vectors = model.word_vectors
    assert vectors.shape[0] == len(model.bias)
    assert vectors.isfinite().all()
    alike = DiverseBeamSearch(groups=3, strength=2.0, diversity=Embedding(vectors=vectors, of=Hamming()))
    found = decode(model, inputs, alike, max_length=10)
    plain = decode(model, inputs, DiverseBeamSearch(groups=3, strength=2.0), max_length=10)
    assert [each.groups[0][0].tokens for each in found] == [each.groups[0][0].tokens for each in plain]
    assert [each.texts for each in found] != [each.texts for each in plain]


# Lists of inputs


def described(name: str, inputs: Any, *arguments: Any, **options: Any) -> Any:
    model = shipped.model(name)
    front_door = {"en-fr": "translate", "captioner": "caption", "questioner": "ask"}[name]
    return getattr(model, front_door)(inputs, *arguments, **options)


@each_model
def test_the_front_door(name: str) -> None:
    found = described(name, shipped.inputs(name))
    assert len(found) == 3
    for each in found:
        assert isinstance(each, beamsplit.Hypotheses)
        assert 2 <= len(each.texts) == len(set(each.texts)) <= 6
        assert [h.group for h in each] == list(range(len(each)))  # in the order of choice
        assert all(h.finished for h in each)


@each_model
def test_batches_do_not_count(name: str) -> None:
    inputs = shipped.inputs(name)
    together = described(name, inputs)
    for size in (1, 2):
        assert close(described(name, inputs, batch_size=size), together)


@each_model
def test_batches_do_not_count_for_samples(name: str) -> None:
    inputs, strategy = shipped.inputs(name), Sampling(samples=5)
    drawn = {size: described(name, inputs, strategy, batch_size=size, seed=3) for size in (1, 2, 3)}
    assert close(drawn[1], drawn[3])
    assert close(drawn[2], drawn[3])
    assert not close_tokens(described(name, inputs, strategy, seed=30), drawn[3])
    # One rule for seeds: `decode` draws the same.
    options: dict[str, Any] = {"max_length": 160 if name == "en-fr" else 20, "seed": 3}
    decoded = beamsplit.decode(shipped.model(name), inputs, strategy, **options)
    assert close([each.distinct() for each in decoded], drawn[2])
    # One number does not make the inputs' samples the same.
    twice = [inputs[0]] * 2 if name == "en-fr" else inputs[[0, 0]]
    one, two = described(name, twice, strategy, seed=3)
    assert one != two
    # With a seed of its own, an input takes it anywhere.
    own = described(name, inputs, strategy, seed=[8, 9, 10])
    assert close(described(name, inputs[2:], strategy, seed=[10]), own[2:])


def close_tokens(a: Any, b: Any) -> bool:
    return [[h.tokens for h in each] for each in a] == [[h.tokens for h in each] for each in b]


@each_model
def test_no_inputs(name: str) -> None:
    assert described(name, shipped.inputs(name)[:0]) == []


@each_model
@pytest.mark.parametrize("seeds", [[1, 2], [1, 2, 3, 4]])
def test_a_seed_for_each(name: str, seeds: list[int]) -> None:
    with pytest.raises(beamsplit.ArgumentError, match=f"{len(seeds)} .* 3"):
        described(name, shipped.inputs(name), Sampling(samples=2), seed=seeds, batch_size=2, max_length=3)


@each_model
def test_refused_settings(name: str) -> None:
    for options, message in (
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, not 0"),
        ({"seed": 1.5}, "seed must be a whole number, or one an input, not 1.5"),
        ({"max_length": 0}, "max_length must be a whole number of at least 1, not 0"),
    ):
        with pytest.raises(beamsplit.ArgumentError) as caught:
            described(name, shipped.inputs(name), **options)
        assert str(caught.value) == message


# As they come


@each_model
def test_ready_for_use(name: str) -> None:
    model = shipped.model(name)
    assert not any(module.training for module in model.modules())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    logits: Tensor = model.start(shipped.inputs(name))[0]
    assert not logits.requires_grad


@each_model
def test_the_same_file_when_saved_again(name: str, tmp_path: Any) -> None:
    model = shipped.model(name)
    model.save(tmp_path / "again.safetensors")
    again = type(model).from_file(tmp_path / "again.safetensors")
    for key, value in model.state_dict().items():
        assert torch.allclose(again.state_dict()[key], value, rtol=1e-3, atol=1e-6), key
    assert close(decode(again, shipped.inputs(name)), decode(model, shipped.inputs(name)))
