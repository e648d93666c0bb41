"""What the translator learns from: epochs drawn by their seeds, and nothing that is not in the data."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from beamsplit import ArgumentError
from beamsplit.models.text import END, PAD, UNKNOWN, Pieces, normalised
from research.data import Pair
from research.training import sentences
from research.training.loop import Batch
from research.training.sentences import INPUT_DROPOUT, PIECE_DROPOUT, Sentences, learn_pieces

ENGLISH = ["the cat", "a dog", "my friend", "this man", "she", "he", "the child", "our neighbour"]
FRENCH = ["le chat", "un chien", "mon ami", "cet homme", "elle", "il", "l'enfant", "notre voisin"]
DOES = {"sleeps": ["dort", "sommeille"], "eats": ["mange"], "sings": ["chante"], "runs away": ["s'enfuit"]}
PAIRS = [
    Pair(f"{en.capitalize()} {verb}.", tuple(f"{fr.capitalize()} {said}." for said in verbs))
    for en, fr in zip(ENGLISH, FRENCH, strict=True)
    for verb, verbs in DOES.items()
]


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return learn_pieces(PAIRS, 120)


def made(pieces: Pieces, *, batch: int = 8, seed: int = 0, pairs: list[Pair] = PAIRS) -> Sentences:
    return Sentences(pairs, PAIRS[:5], pieces, batch=batch, seed=seed)


def bare(row: Tensor) -> list[int]:
    """A row without its end and padding."""
    ids: list[int] = row.tolist()
    place = ids.index(END)
    assert not any(ids[place + 1 :])
    return ids[:place]


def rows(batches: list[Batch]) -> list[tuple[list[int], list[int]]]:
    return [
        (bare(source), bare(target))
        for each in batches
        for source, target in zip(*each.inputs, each.target, strict=True)
    ]


def epochs(examples: Sentences, count: int) -> list[tuple[list[int], list[int]]]:
    return [row for number in range(count) for row in rows(list(examples.epoch(number)))]


# Pieces


def test_pieces_are_those_of_both_languages_and_do_not_depend_on_the_order(pieces: Pieces) -> None:
    assert UNKNOWN not in {
        i for pair in PAIRS for ids in pieces.ids([pair.source, *pair.targets]) for i in ids
    }
    assert learn_pieces(list(reversed(PAIRS)), 120).model == pieces.model
    assert 40 < len(pieces) <= 120


def test_pieces_of_little_text() -> None:
    assert 4 < len(learn_pieces(PAIRS[:2], 7000)) < 200


# Epochs


@pytest.mark.parametrize("batch", [4, 7, 32])
def test_an_epoch_has_as_many_batches_as_it_says(pieces: Pieces, batch: int) -> None:
    examples = made(pieces, batch=batch)
    batches = list(examples.epoch(0))
    assert len(batches) == examples.steps == 32 // batch
    assert {len(each.target) for each in batches} == {batch}
    assert {len(each.inputs[0]) for each in batches} == {batch}


def test_every_source_comes_once_an_epoch(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INPUT_DROPOUT", "PIECE_DROPOUT", "AS_TYPED", "CONTINUED"):
        monkeypatch.setattr(sentences, name, 0.0)
    told = sorted(pieces.text(source) for source, _ in epochs(made(pieces), 1))
    assert told == sorted(pair.source for pair in PAIRS)


def test_an_epoch_depends_on_seed_and_number_alone(pieces: Pieces) -> None:
    examples = made(pieces)
    first = rows(list(examples.epoch(1)))
    list(examples.epoch(0))
    torch.manual_seed(99)
    random.seed(99)
    assert rows(list(examples.epoch(1))) == first
    assert rows(list(made(pieces).epoch(1))) == first
    assert rows(list(examples.epoch(2))) != first
    assert rows(list(made(pieces, seed=1).epoch(1))) != first


def test_the_validation_part_is_as_it_is(pieces: Pieces) -> None:
    examples = made(pieces, batch=4)
    found = [(pieces.text(source), pieces.text(target)) for source, target in rows(list(examples.valid()))]
    assert found == [(pair.source, target) for pair in PAIRS[:5] for target in pair.targets]
    assert [len(each.target) for each in examples.valid()] == [4, 3]


# What is done to sentences

SPOKEN = {(pair.source, target) for pair in PAIRS for target in pair.targets}


def known(source: str, target: str) -> bool:
    """Whether these are pairs of the data one after another, as people type them."""
    if not target:
        return not source
    for en, fr in SPOKEN:
        for end in (None, -1):  # with its full stop and without
            said, meant = en[:end], fr[:end]
            for written in (said, said.lower()):
                if source.startswith(written) and target.startswith(meant):
                    rest, other = source[len(written) :].strip(), target[len(meant) :].strip()
                    if known(rest, other):
                        return True
    return False


def test_what_is_said_is_a_translation_of_what_was_told(
    pieces: Pieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences, "PIECE_DROPOUT", 0.0)
    found = [(pieces.text(source), pieces.text(target)) for source, target in epochs(made(pieces), 10)]
    assert all(known(source, target) for source, target in found if source)
    several = [target for _, target in found if sum(target.count(fr.capitalize()) for fr in FRENCH) > 1]
    assert 0.05 < len(several) / len(found) < 0.3  # CONTINUED is 0.15
    small = [source for source, _ in found if source and source == source.lower()]
    assert 0.01 < len(small) / len(found) < 0.12  # AS_TYPED is 0.05
    assert 0.01 < sum(not target.endswith(".") for _, target in found) / len(found) < 0.12
    # With a full stop on one side there is one on the other.
    assert all(source.endswith(".") == target.endswith(".") for source, target in found if source)
    # Each translation has its turn.
    assert {fr for _, fr in SPOKEN} <= {target for _, target in found}


def test_some_sources_are_left_out_but_no_target(pieces: Pieces) -> None:
    found = epochs(made(pieces), 30)
    untold = sum(not source for source, _ in found) / len(found)
    assert untold == pytest.approx(INPUT_DROPOUT, abs=0.03)
    assert all(target for _, target in found)


def test_some_pieces_cannot_be_read_but_all_are_said(pieces: Pieces) -> None:
    found = epochs(made(pieces), 30)
    told = [i for source, _ in found for i in source]
    assert told.count(UNKNOWN) / len(told) == pytest.approx(PIECE_DROPOUT, abs=0.01)
    assert not any(UNKNOWN in target for _, target in found)


def test_ends_and_padding_can_always_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentences, "PIECE_DROPOUT", 1.0)
    source = torch.tensor([[7, 8, END, PAD], [END, PAD, PAD, PAD]])
    blurred = sentences._drop_pieces(source, torch.Generator())
    assert blurred.tolist() == [[UNKNOWN, UNKNOWN, END, PAD], [END, PAD, PAD, PAD]]


def test_padding_by_hand() -> None:
    source, target = sentences._padded([([5, 6], [7]), ([], [8, 9, 10])])
    assert source.tolist() == [[5, 6, END], [END, PAD, PAD]]
    assert target.tolist() == [[7, END, PAD, PAD], [8, 9, 10, END]]


def test_batches_are_of_about_one_length(pieces: Pieces) -> None:
    """Sorted by length into batches, and these shuffled."""
    lengths = [[len(bare(row)) // 2 for row in each.target] for each in made(pieces, batch=4).epoch(0)]
    in_order = sorted(lengths)
    assert all(max(one) <= min(next_one) for one, next_one in pairwise(in_order))
    assert lengths != in_order


def test_text_is_made_normal() -> None:
    pairs = [Pair("Who’s\u00a0there?", ("Qui est là\u202f?",)), Pair("Go.", ("Va !",))] * 4
    pieces = learn_pieces(pairs, 60)
    examples = Sentences(pairs, pairs, pieces, batch=2, seed=0)
    found = {(pieces.text(source), pieces.text(target)) for source, target in rows(list(examples.valid()))}
    assert found == {(normalised(pair.source), normalised(pair.targets[0])) for pair in pairs}
    assert all(UNKNOWN not in target for _, target in epochs(examples, 3))


def test_pairs_that_say_nothing_or_too_much_are_left_out() -> None:
    pieces = learn_pieces([Pair("The cat eats fish.", ("Le chat mange du poisson.",))] * 3, 60)
    long = "the cat eats fish " * 100
    train = [Pair("The cat.", ("Le chat.",)), Pair("\u200b", ("Le chat.",)), Pair(long, ("Le chat.", long))]
    made = Sentences(train, train[:1], pieces, batch=8, seed=0)
    assert made.steps == 1
    (batch,) = made.epoch(0)
    assert len(batch.target) == 1
    with pytest.raises(ArgumentError, match=r"^none of 1 pairs has from 1 to 160 word pieces on both sides$"):
        Sentences(train[1:2], train[:1], pieces, batch=8, seed=0)
