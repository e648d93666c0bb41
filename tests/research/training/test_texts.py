"""What the captioner and the questioner learn from, and how one takes over from the other."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit.models import Captioner, PictureSizes, Questioner
from beamsplit.models.pictures import LONGEST
from beamsplit.models.text import END, PAD, UNKNOWN, Vocabulary
from research.data import Described, Features, Projection
from research.training import captioner
from research.training.captioner import (
    Part,
    QuestionerSettings,
    fold_projection,
    train_questioner,
    unfold_projection,
)
from research.training.loop import Recipe
from research.training.texts import INPUT_DROPOUT, Texts, TextsOfPictures

WORDS = Vocabulary(["a", "dog", "cat", "runs"])  # 4, 5, 6, 7
DESCRIBED = [
    Described("7", ("A dog runs.", "a cat", "...")),
    Described("9", ("a zebra runs",)),
    Described("7", ("dog " * 30,)),
]
FEATURES = Features(("9", "7", "8"), torch.tensor([[9.0, 0.0], [7.0, 1.0], [8.0, 2.0]]))


def texts() -> Texts:
    return Texts.of(DESCRIBED, FEATURES, WORDS)


def test_texts_by_hand() -> None:
    made = texts()
    expected = [[4, 5, 7, END], [4, 6, END], [4, UNKNOWN, 7, END], [*[5] * (LONGEST - 1), END]]
    assert made.ids.tolist() == [[*ids, *[PAD] * (LONGEST - len(ids))] for ids in expected]
    assert made.picture.tolist() == [0, 0, 1, 2]  # a text without words is none
    assert made.features.tolist() == [[7, 1], [9, 0], [7, 1]]


def test_a_batch_by_hand() -> None:
    known = torch.tensor([True, False])
    batch = texts().batch(torch.tensor([2, 1]), known)
    assert batch.inputs[0].tolist() == [[9, 0], [7, 1]]
    assert batch.inputs[1] is known
    assert batch.target.tolist() == [[4, UNKNOWN, 7, END], [4, 6, END, PAD]]  # no wider than need be
    assert batch.target.dtype == torch.int64
    assert batch.picture is not None
    assert batch.picture.tolist() == [1, 0]


def test_references_by_hand() -> None:
    """The first texts of each picture; there may be fewer."""
    nothing = [PAD] * 4
    found = texts().references(at_most=3)[:, :, :4].tolist()
    assert found == [
        [[4, 5, 7, END], [4, 6, END, PAD], nothing],
        [[4, UNKNOWN, 7, END], nothing, nothing],
        [[5, 5, 5, 5], nothing, nothing],
    ]
    assert texts().references(at_most=1)[:, :, :4].tolist() == [each[:1] for each in found]


# Epochs

MANY = Texts(
    torch.arange(40.0).view(20, 2), torch.arange(20).repeat(5), torch.arange(4, 104).view(100, 1).int()
)


def drawn(examples: TextsOfPictures, number: int) -> list[int]:
    return [int(i) for each in examples.epoch(number) for i in each.target.flatten()]


@pytest.mark.parametrize("batch", [10, 33, 100])
def test_an_epoch_has_as_many_batches_as_it_says(batch: int) -> None:
    examples = TextsOfPictures(MANY, MANY, batch=batch, seed=0)
    found = list(examples.epoch(0))
    assert len(found) == examples.steps == 100 // batch
    assert {len(each.target) for each in found} == {batch}
    assert len(set(drawn(examples, 0))) == examples.steps * batch  # none twice


def test_texts_keep_their_pictures() -> None:
    for batch in TextsOfPictures(MANY, MANY, batch=10, seed=0).epoch(3):
        row = (batch.target[:, 0] - 4) % 20
        assert torch.equal(batch.inputs[0], MANY.features[row])


def test_an_epoch_depends_on_seed_and_number_alone() -> None:
    examples = TextsOfPictures(MANY, MANY, batch=10, seed=0)
    first = drawn(examples, 1)
    torch.manual_seed(99)
    random.seed(99)
    assert drawn(examples, 1) == first
    assert drawn(TextsOfPictures(MANY, MANY, batch=10, seed=0), 1) == first
    assert drawn(examples, 2) != first
    assert drawn(TextsOfPictures(MANY, MANY, batch=10, seed=1), 1) != first


def test_some_pictures_are_left_out() -> None:
    examples = TextsOfPictures(MANY, MANY, batch=10, seed=0)
    known = torch.cat([each.inputs[1] for number in range(30) for each in examples.epoch(number)])
    assert known.dtype == torch.bool
    assert 1 - known.float().mean().item() == pytest.approx(INPUT_DROPOUT, abs=0.02)


def test_the_validation_part_is_all_there_and_all_known() -> None:
    examples = TextsOfPictures(MANY, texts(), batch=3, seed=0)
    found = list(examples.valid())
    assert [len(each.target) for each in found] == [3, 1]
    assert all(each.inputs[1].all() for each in found)
    assert found[0].target.tolist()[1] == [4, 6, END, PAD]


def test_fewer_texts_than_a_batch() -> None:
    """Whoever tries things out with few texts is trained with those, or told."""
    examples = TextsOfPictures(MANY, MANY, batch=1024, seed=0)
    assert len(drawn(examples, 0)) == 100


# Features, projected and not


def projection(short: int = 3, long: int = 8) -> Projection:
    draw = torch.Generator().manual_seed(0)
    components = torch.linalg.qr(torch.randn(long, long, generator=draw))[0][:short]
    return Projection(torch.rand(long, generator=draw), components)


def small(features: int, kind: type[Captioner] = Captioner) -> Captioner:
    torch.manual_seed(1)
    return kind(Vocabulary("abcdefgh"), PictureSizes(features=features, embedding=6, hidden=7)).eval()


def seen(count: int, width: int) -> Tensor:
    return torch.rand(count, width, generator=torch.Generator().manual_seed(2))


def test_an_unfolded_model_takes_the_features_themselves() -> None:
    model, through = small(3), projection()
    long = seen(5, 8)
    expected = model.start(through.project(long))[0]
    unfold_projection(model, through)
    assert model.sizes.features == 8
    assert torch.allclose(model.start(long)[0], expected, atol=1e-5)
    # What the components do not show does not count.
    across = long + (torch.ones(8) - torch.ones(8) @ through.components.T @ through.components)
    assert torch.allclose(model.start(across)[0], expected, atol=1e-5)


def test_folded_again_it_is_what_it_was() -> None:
    model, through = small(3), projection()
    short = seen(5, 3)
    expected = model.start(short)[0]
    unfold_projection(model, through)
    fold_projection(model, through)
    assert model.sizes.features == 3
    assert torch.allclose(model.start(short)[0], expected, atol=1e-5)


def test_folding_loses_what_the_components_do_not_show() -> None:
    model, through = small(8), projection()
    near = through.undo(seen(5, 3))  # features that the components show all of
    expected = model.start(near)[0]
    fold_projection(model, through)
    assert torch.allclose(model.start(through.project(near))[0], expected, atol=1e-5)


def test_an_unfolded_model_can_be_saved(tmp_path: Path) -> None:
    model = small(3)
    unfold_projection(model, projection())
    model.save(tmp_path / "model.safetensors")
    again = Captioner.from_file(tmp_path / "model.safetensors")
    assert torch.allclose(again.start(seen(2, 8))[0], model.start(seen(2, 8))[0], atol=1e-2)


# From captions to questions


def test_question_words() -> None:
    """Those of questions which the captioner knows, others if they are frequent; most frequent first."""
    questions = ["why is the cat here", "why is it so", "is the aardvark here", "why"]
    words = captioner._question_words(questions, Vocabulary(["cat", "tree", "so"]), 2)
    assert words.words == ("is", "why", "here", "the", "cat", "so")


def test_the_questioner_begins_as_the_captioner() -> None:
    teller = small(3)
    torch.manual_seed(9)
    asker = Questioner(Vocabulary("xca"), PictureSizes(features=3, embedding=6, hidden=7))
    own = asker.embedding.weight.detach().clone()
    captioner._copy_weights(asker, teller)
    for name, value in teller.state_dict().items():
        if name not in ("embedding.weight", "bias"):
            assert torch.equal(asker.state_dict()[name], value), name
    # x is new; c and a are words 6 and 4 of the captioner.
    assert torch.equal(asker.embedding.weight[4], own[4])
    assert torch.equal(asker.embedding.weight[[5, 6]], teller.embedding.weight[[6, 4]])
    assert torch.equal(asker.embedding.weight[:4], teller.embedding.weight[:4])


def test_a_questioner_learns_to_ask(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of two pictures, each with its question."""
    described = [Described("0", ("why is it red",)), Described("1", ("who is the man",))] * 8
    part = Part(described, Features(("0", "1"), torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])))
    recipe = Recipe(epochs=30, batch=8, learning_rate=0.03, dropout=0.0, average=0.9)
    model = train_questioner(
        small(3),
        part,
        part,
        QuestionerSettings(at_least=1, smoothing=0.0, recipe=recipe),
        work=tmp_path,
        seed=0,
        device=torch.device("cpu"),
    )
    found: Any = model.ask(part.features.values)
    assert [each.best.text for each in found] == ["Why is it red?", "Who is the man?"]
    assert (tmp_path / "questioner.state").exists()
    assert "questioner: epoch 30, loss" in capfd.readouterr().err
