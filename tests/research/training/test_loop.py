"""The training loop: it learns, goes on where it was, repeats itself, averages, and listens to teachers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from beamsplit import ArgumentError
from beamsplit.models import storage
from beamsplit.models.text import PAD
from research.training import loop, teachers
from research.training.loop import Batch, Recipe, epoch_seed, fit, imitation, mean_loss
from research.training.progress import TrainingProgress
from research.training.teachers import Apprenticeship, Stage

CPU = torch.device("cpu")
WORDS = 8


class Echo(nn.Module):
    """Is to say what it was told."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 12)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(12, WORDS)

    def teach(self, told: Tensor, target: Tensor) -> Tensor:
        hidden: Tensor = self.dropout(self.embedding(told))
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        said: Tensor = self.output(hidden)
        return said

    def save(self, path: Path) -> None:
        storage.write(path, self.state_dict(), {})


class Told:
    """Batches of words that are to be repeated; at some epoch the power may fail."""

    def __init__(self, seed: int = 0, steps: int = 10, fails: int | None = None) -> None:
        self.seed, self.steps, self.fails = seed, steps, fails
        self.epochs: list[int] = []

    def epoch(self, number: int) -> Iterator[Batch]:
        self.epochs.append(number)
        draw = torch.Generator().manual_seed(epoch_seed(self.seed, number))
        for step in range(self.steps):
            if number == self.fails and step == 3:
                raise KeyboardInterrupt
            yield self._batch(draw)

    def valid(self) -> Iterator[Batch]:
        yield self._batch(torch.Generator().manual_seed(12345))

    def _batch(self, draw: torch.Generator) -> Batch:
        words = torch.randint(1, WORDS, (16, 4), generator=draw)
        words[::2, 3] = PAD
        return Batch((words,), words)


def trained(
    state: Path,
    *,
    examples: Told | None = None,
    seed: int = 0,
    loss: loop.Loss | None = None,
    **recipe: Any,
) -> tuple[Echo, float]:
    settings = {"epochs": 4, "batch": 16, "learning_rate": 0.05, **recipe}
    torch.manual_seed(seed)
    model = Echo()
    valid = fit(
        model,
        examples or Told(seed),
        Recipe(**settings),
        state=state,
        seed=seed,
        device=CPU,
        loss=loss or imitation(smoothing=0.0),
        progress=TrainingProgress("echo"),
    )
    return model, valid


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.fixture
def always_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)


# Learning


def test_it_learns(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    before = mean_loss(Echo(), Told().valid(), CPU)
    model, after = trained(tmp_path / "state")
    assert before > 1.5  # of log 8 = 2.08
    assert after < 0.2
    assert after == pytest.approx(mean_loss(model, Told().valid(), CPU))
    assert not model.training
    printed = capfd.readouterr()
    assert printed.out == ""
    assert [line.split(",")[0] for line in printed.err.splitlines()] == [
        f"echo: epoch {n}" for n in (1, 2, 3, 4)
    ]


def test_mean_loss_by_hand() -> None:
    """Logits 0 and log 3 of two words: probabilities 1/4 and 3/4; padding does not count."""

    class Fixed(nn.Module):
        def teach(self, target: Tensor) -> Tensor:
            return torch.tensor([-math.inf, 0.0, math.log(3)]).expand(*target.shape, -1)

        def logits(self, hidden: Tensor) -> Tensor:
            return hidden

    batches = [Batch((), torch.tensor([[1, 2, 0], [2, 0, 0]])), Batch((), torch.tensor([[2]]))]
    expected = -(math.log(1 / 4) + 3 * math.log(3 / 4)) / 4
    assert mean_loss(Fixed(), batches, CPU) == pytest.approx(expected)
    assert mean_loss(Fixed(), [], CPU) == 0


def test_mean_loss_leaves_the_mode_as_it_was() -> None:
    model = Echo(dropout=0.9).train()
    first, second = (mean_loss(model, Told().valid(), CPU) for _ in range(2))
    assert first == second  # without dropout
    assert model.training


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.25), (1, 0.5), (3, 1.0), (4, 1.0), (12, 0.5), (20, 0.0), (25, 0.0)],
)
def test_the_learning_rate_rises_and_falls(step: int, expected: float) -> None:
    """Four steps of twenty up, then half a cosine down."""
    assert loop._rise_and_fall(0.2, 20)(step) == pytest.approx(expected, abs=1e-6)


def test_a_seed_for_each_epoch_of_each_run() -> None:
    seeds = {epoch_seed(seed, epoch) for seed in range(20) for epoch in range(100)}
    assert len(seeds) == 2000


# Going on


@pytest.mark.usefixtures("always_saves")
@pytest.mark.parametrize("fails", [0, 1, 3])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(fails: int, tmp_path: Path) -> None:
    whole, loss = trained(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "cut", examples=Told(fails=fails))
    again = Told()
    resumed, resumed_loss = trained(tmp_path / "cut", examples=again)
    assert again.epochs[1:] == list(range(fails, 4))  # the first is a look at the data
    assert same(whole, resumed)
    assert loss == resumed_loss


@pytest.mark.usefixtures("always_saves")
def test_a_run_that_was_stopped_twice(tmp_path: Path) -> None:
    whole, _ = trained(tmp_path / "whole")
    for fails in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "cut", examples=Told(fails=fails))
    assert same(whole, trained(tmp_path / "cut")[0])
    assert sorted(each.name for each in tmp_path.iterdir()) == ["cut", "whole"]


def test_states_are_not_written_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    save = loop._Run.save

    def counted(run: Any, path: Path, epochs: int) -> None:
        written.append(epochs)
        save(run, path, epochs)

    monkeypatch.setattr(loop._Run, "save", counted)
    trained(tmp_path / "state", epochs=5)
    assert written == [1, 5]  # the first, so that there is something to go on from, and the last


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first, loss = trained(tmp_path / "state")
    again = Told()
    second, same_loss = trained(tmp_path / "state", examples=again)
    assert again.epochs == [0]  # a look at the data
    assert same(first, second)
    assert loss == same_loss


@pytest.mark.parametrize(
    ("changes", "name", "before", "now"),
    [
        ({"epochs": 5}, "epochs", 4, 5),
        ({"learning_rate": 0.01}, "learning_rate", 0.05, 0.01),
        ({"seed": 1}, "seed", 0, 1),
        ({"average": 0.5}, "average", 0.999, 0.5),
    ],
)
def test_other_settings_are_refused(
    changes: dict[str, Any], name: str, before: Any, now: Any, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    trained(state)
    with pytest.raises(ArgumentError) as caught:
        trained(state, **changes)
    assert str(caught.value) == (
        f"{state} is of a run with {name} {before}, not {now}: train with the same settings to resume "
        "it, or delete it to start again"
    )


def test_other_data_is_refused(tmp_path: Path) -> None:
    """A first try with few examples must not pass for the real run."""
    state = tmp_path / "state"
    trained(state, examples=Told(steps=2))
    with pytest.raises(
        ArgumentError, match=r"is of a run with steps 8, not 40: .* delete it to start again$"
    ):
        trained(state, examples=Told(steps=10))


def test_other_examples_another_beginning_and_another_loss_are_refused(tmp_path: Path) -> None:
    """As many examples, but others; as large a network, but with other weights."""
    settings: dict[str, Any] = {
        "state": tmp_path / "state",
        "device": CPU,
        "progress": TrainingProgress("echo"),
    }
    settings["loss"] = imitation(smoothing=0.0)
    recipe = Recipe(epochs=1, batch=16)

    def echo(seed: int) -> Echo:
        torch.manual_seed(seed)
        return Echo(0.0)

    loop.fit(echo(0), Told(seed=1), recipe, **settings, about={"teachers": 1})
    for model, examples, about, name in (
        (echo(0), Told(seed=2), {"teachers": 1}, "data"),
        (echo(1), Told(seed=1), {"teachers": 1}, "beginning"),
        (echo(0), Told(seed=1), {"teachers": 0}, "teachers"),
    ):
        with pytest.raises(ArgumentError, match=f" is of a run with {name} "):
            loop.fit(model, examples, recipe, **settings, about=about)
    loop.fit(echo(0), Told(seed=1), recipe, **settings, about={"teachers": 1})


def test_a_state_that_is_none(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(b"this is no state")
    with pytest.raises(ArgumentError) as caught:
        trained(state)
    assert str(caught.value).startswith(f"{state} ")
    assert "\n" not in str(caught.value)


# Chance


def test_one_seed_one_result(tmp_path: Path) -> None:
    one, two, other = (
        trained(tmp_path / name, seed=seed)[0] for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert same(one, two)
    assert not same(one, other)


# Averages


def last_weights(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """The weights after each step."""
    seen: list[list[Tensor]] = []
    average = loop._Run._average

    def noted(run: Any) -> None:
        seen.append([parameter.detach().clone() for parameter in run.parameters])
        average(run)

    monkeypatch.setattr(loop._Run, "_average", noted)
    return seen


def test_without_averaging_the_last_weights_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = last_weights(monkeypatch)
    model, _ = trained(tmp_path / "state", average=0.0)
    assert len(seen) == 40
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), seen[-1], strict=True))


def test_averages_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After step n, min(0.2, n / (n + 10)) of the average is kept: 1/11, 2/12, 0.2, 0.2, ..."""
    seen = last_weights(monkeypatch)
    model, _ = trained(tmp_path / "state", average=0.2, epochs=1)
    torch.manual_seed(0)
    expected = [parameter.detach().clone() for parameter in Echo().parameters()]
    for keep, now in zip([1 / 11, 2 / 12, *[0.2] * 8], seen, strict=True):
        expected = [keep * a + (1 - keep) * b for a, b in zip(expected, now, strict=True)]
    for found, each, last in zip(model.parameters(), expected, seen[-1], strict=True):
        assert torch.allclose(found, each, atol=1e-6)
        assert not torch.allclose(found, last, atol=1e-6)


# Teachers


class Says(nn.Module):
    """Has one opinion."""

    def __init__(self, *probabilities: float) -> None:
        super().__init__()
        self.said = nn.Parameter(torch.tensor(probabilities).log())

    def teach(self, target: Tensor) -> Tensor:
        return self.said.expand(*target.shape, -1)

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


BATCH = Batch((), torch.tensor([[1, 2, PAD]]))
OWN = -(math.log(0.5) + math.log(0.4)) / 2  # of a student that says 0.1, 0.5, 0.4
DISAGREEMENT = {
    ((0.2, 0.2, 0.6),): -(0.2 * math.log(0.1) + 0.2 * math.log(0.5) + 0.6 * math.log(0.4)),
    # Two teachers: what they hold likely on average, 0.1, 0.3, 0.6.
    ((0.0, 0.4, 0.6), (0.2, 0.2, 0.6)): -(0.1 * math.log(0.1) + 0.3 * math.log(0.5) + 0.6 * math.log(0.4)),
}


def test_without_teachers_by_hand() -> None:
    student = Says(0.1, 0.5, 0.4)
    assert imitation(smoothing=0.0)(student, BATCH).item() == pytest.approx(OWN)
    # Smoothed by 0.3: 0.7 on the word that was said, and a tenth on each of the three.
    uniform = -(math.log(0.1) + math.log(0.5) + math.log(0.4)) / 3
    smoothed = imitation(smoothing=0.3)(student, BATCH).item()
    assert smoothed == pytest.approx(0.7 * OWN + 0.3 * uniform)


@pytest.mark.parametrize("distil", [0.5, 0.25, 1.0])
@pytest.mark.parametrize(("opinions", "expected"), DISAGREEMENT.items())
def test_teachers_by_hand(opinions: Any, expected: float, distil: float) -> None:
    loss = imitation(smoothing=0.0, teachers=[Says(*each) for each in opinions], distil=distil)
    found = loss(Says(0.1, 0.5, 0.4), BATCH).item()
    assert found == pytest.approx((1 - distil) * OWN + distil * expected, rel=1e-5)


def test_teachers_do_not_learn() -> None:
    student, teacher = Says(0.1, 0.5, 0.4), Says(0.2, 0.2, 0.6)
    imitation(smoothing=0.0, teachers=[teacher])(student, BATCH).backward()  # type: ignore[no-untyped-call]
    assert student.said.grad is not None
    assert teacher.said.grad is None


def test_a_perfect_teacher_helps(tmp_path: Path) -> None:
    class Knows(nn.Module):
        def teach(self, told: Tensor, target: Tensor) -> Tensor:
            return told

        def logits(self, hidden: Tensor) -> Tensor:
            return nn.functional.one_hot(hidden, WORDS) * 50.0

    # What people said is wrong, the teacher is right.
    class Wrong(Told):
        def epoch(self, number: int) -> Iterator[Batch]:
            for batch in super().epoch(number):
                shifted = torch.where(batch.target > 0, batch.target % (WORDS - 1) + 1, PAD)
                yield Batch(batch.inputs, shifted)

    _, alone = trained(tmp_path / "alone", examples=Wrong(), loss=imitation(smoothing=0.0))
    taught = imitation(smoothing=0.0, teachers=[Knows()], distil=0.9)
    _, together = trained(tmp_path / "together", examples=Wrong(), loss=taught)
    assert alone > 2
    assert together < 0.5


# Apprentices


def apprenticeship(work: Path, built: list[Stage], **changes: Any) -> Apprenticeship[Echo]:
    def build(stage: Stage) -> Echo:
        built.append(stage)
        return Echo(stage.recipe.dropout)

    def load(path: Path) -> Echo:
        model = Echo(0.0)
        model.load_state_dict(storage.read(path)[0])
        return model.eval()

    examples: Callable[[Recipe, int], Told] = lambda recipe, seed: Told(seed, steps=5)  # noqa: E731
    settings: dict[str, Any] = {
        "name": "echo",
        "build": build,
        "load": load,
        "examples": examples,
        "student": Stage(sizes="small", recipe=Recipe(epochs=2, batch=16, learning_rate=0.05)),
        "teacher": Stage(sizes="large", recipe=Recipe(epochs=1, batch=16, learning_rate=0.05)),
        "teachers": 2,
        "smoothing": 0.0,
        "seed": 5,
        "device": CPU,
        "work": work,
    }
    return Apprenticeship(**{**settings, **changes})


def test_teachers_come_first_and_are_trained_only_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def epochs() -> list[str]:
        return [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]

    apprenticeship(tmp_path, []).train_teacher(1)
    assert epochs() == ["echo's teacher 1: epoch 1"]
    before = (tmp_path / "teacher-1.safetensors").read_bytes()
    apprenticeship(tmp_path, []).train_teacher(1)
    assert epochs() == []
    assert (tmp_path / "teacher-1.safetensors").read_bytes() == before
    apprenticeship(tmp_path, []).train()
    assert epochs() == ["echo's teacher 0: epoch 1", "echo: epoch 1", "echo: epoch 2"]
    files = {each.name for each in tmp_path.iterdir()}
    assert files == {
        *(f"teacher-{n}.{end}" for n in (0, 1) for end in ("safetensors", "state")),
        "student.state",
    }


def test_a_teacher_of_other_settings_is_not_taken_for_one_of_these(tmp_path: Path) -> None:
    apprenticeship(tmp_path, []).train_teacher(0)
    longer = Stage(sizes="large", recipe=Recipe(epochs=2, batch=16, learning_rate=0.05))
    with pytest.raises(ArgumentError, match="is of a run with epochs 1, not 2"):
        apprenticeship(tmp_path, [], teacher=longer).train()


def test_teachers_differ_and_their_order_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = apprenticeship(tmp_path / "a", []).train()
    for number in (1, 0):
        apprenticeship(tmp_path / "b", []).train_teacher(number)
    assert same(one, apprenticeship(tmp_path / "b", []).train())
    first, second = (storage.read(tmp_path / "a" / f"teacher-{n}.safetensors")[0] for n in (0, 1))
    assert not torch.equal(first["output.weight"], second["output.weight"])


def test_the_student_listens_to_its_teachers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def noted(**settings: Any) -> loop.Loss:
        given.append((len(settings["teachers"]), settings["smoothing"]))
        return imitation(**settings)

    monkeypatch.setattr(teachers, "imitation", noted)
    apprenticeship(tmp_path, [], smoothing=0.1).train()
    assert given == [(0, 0.1), (0, 0.1), (2, 0.1)]


def test_no_teachers(tmp_path: Path) -> None:
    apprenticeship(tmp_path, [], teachers=0).train()
    assert [each.name for each in tmp_path.iterdir()] == ["student.state"]
