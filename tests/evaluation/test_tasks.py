"""Tasks of one's own, from lines of JSON, and parts of those that come with data."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from beamsplit.errors import ArgumentError
from beamsplit.evaluation import TASKS, Task, read_task
from beamsplit.evaluation.datasets import data_folder
from beamsplit.evaluation.tasks import has_references
from evaluation.small import write_lines


def nowhere() -> Path:
    raise AssertionError("a task of one's own needs no data folder")


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(
        '{"input": "Hello.", "references": ["Bonjour.", "Salut."]}\n\n'
        '{"input": "Bye.", "references": ["Au revoir."], "id": "b"}\n',
        encoding="utf-8",
    )
    task = read_task(str(file), nowhere)
    assert task.name == "mine"
    assert task.ids == ("0", "b")
    assert task.inputs == ["Hello.", "Bye."]
    assert task.references == (("Bonjour.", "Salut."), ("Au revoir.",))
    assert task.some(1).ids == ("0",)
    assert task.some(None).ids == task.some(9).ids == task.ids


def test_an_id_is_the_index_of_its_line(tmp_path: Path) -> None:
    """Also where lines before it are blank: `decode` counts them, too."""
    file = tmp_path / "mine.jsonl"
    line = '{"input": "Hello.", "references": ["Bonjour."]}\n'
    file.write_text(f"{line}\n{line}", encoding="utf-8")
    assert read_task(str(file), nowhere).ids == ("0", "2")


def test_pictures_and_how_hard_they_are(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {"image": "dog.png", "references": ["a dog"], "difficulty": 3},
        {"image": "cats/one.png", "references": ["a cat"], "difficulty": 1.5},
    ]
    task = read_task(str(write_lines(tmp_path / "mine.jsonl", *entries)), nowhere)
    assert task.pictures
    assert task.inputs == [tmp_path / "dog.png", tmp_path / "cats" / "one.png"]
    assert task.difficulty == (3.0, 1.5)
    assert task.only([1]).pictures


def test_inputs_may_be_anything_that_a_model_takes(tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "mine.jsonl", {"input": [1, 2], "references": ["x"]}, {"input": 0, "references": ["y"]}
    )
    task = read_task(str(file), nowhere)
    assert task.inputs == [[1, 2], 0]
    assert (task.difficulty, task.pictures) == (None, False)


def test_a_text_may_have_separators_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes('{"input": "a\u2028b\x85c", "references": ["d"]}\r\n'.encode())
    assert read_task(str(file), nowhere).inputs == ["a\u2028b\x85c"]


def test_some_inputs_are_spread_over_all() -> None:
    ids = tuple(str(n) for n in range(10))
    task = Task(name="t", ids=ids, inputs=list(ids), references=((),) * 10, difficulty=tuple(range(10)))
    some = task.some(4)
    assert some.ids == ("0", "2", "5", "7")
    assert some.inputs == ["0", "2", "5", "7"]
    assert some.difficulty == (0, 2, 5, 7)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ' is empty: give lines of {"input": ..., "references": [...]}'),
        ("{", ", line 1 is not JSON: Expecting property name enclosed in double quotes at column 2"),
        ("\n[]", ', line 2 is not a JSON object: give {"input": ..., "references": [...]}'),
        ('{"input": " ", "references": ["x"]}', ', line 1 has nothing under "input"'),
        ('{"references": ["x"]}', ', line 1 has nothing under "input"'),
        ('{"image": "", "references": ["x"]}', ', line 1 has nothing under "image"'),
        ('{"image": 3, "references": ["x"]}', ', line 1 has no path under "image"'),
        (
            '{"input": "x", "references": ["y"]}\n{"image": "x", "references": ["y"]}',
            ', line 2 is not as the first: give all an "image", or all an "input"',
        ),
        ('{"input": "x", "references": null}', ', line 1 has no list of texts under "references"'),
        (
            '{"input": "x", "references": ["y"]}\n{"input": "x"}',
            ', line 2 has no "references", and other lines have some: give references to all, or to none',
        ),
        (
            '{"input": "x"}\n{"input": "x", "references": ["y"]}',
            ', line 1 has no "references", and other lines have some: give references to all, or to none',
        ),
        ('{"input": "x", "references": "x"}', ', line 1 has no list of texts under "references"'),
        ('{"input": "x", "references": ["y", ""]}', ", line 1 has an empty reference: leave it out"),
        (
            '{"input": "x", "references": []}',
            ', line 1 has no references: give one at least, or leave "references" out of all lines',
        ),
        (
            '{"input": "x", "references": ["y"], "id": 1}\n' * 2,
            " has the id '1' twice: give each input its own",
        ),
        (
            '{"input": "x", "references": ["y"], "difficulty": 1}\n{"input": "x", "references": ["y"]}',
            ', line 2 has no number under "difficulty": give all of them, or none',
        ),
        (
            '{"input": "x", "references": ["y"], "difficulty": true}',
            ', line 1 has no number under "difficulty": give all of them, or none',
        ),
    ],
)
def test_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ArgumentError) as caught:
        read_task(str(file), nowhere)
    assert str(caught.value).startswith(f"{file}{message}")
    assert "\n" not in str(caught.value)


def test_a_task_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"^there is no task 'coco': there are coco\.valid, .* \.jsonl or \.txt file$"
    ):
        read_task("coco", nowhere)
    with pytest.raises(ArgumentError, match=r"none.jsonl cannot be read: "):
        read_task(str(tmp_path / "none.jsonl"), nowhere)


# Tasks that have names

IDS = tuple(map(str, range(10)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with ten pictures, whose two features were projected to one, and two sentences."""
    pictures = [{"image": n, "captions": [f"picture {n}"], "difficulty": n} for n in range(10)]
    questions = [{"image": n, "questions": [f"what is {n}?"]} for n in range(4, 6)]
    sentences = [{"en": "Go!", "fr": ["Va !", "File !"]}, {"en": "I'm cold.", "fr": ["J’ai froid."]}]
    _write(tmp_path / "captions" / "pascal50s.jsonl.gz", pictures)
    _write(tmp_path / "questions" / "vqg.test.jsonl.gz", questions)
    _write(tmp_path / "translation" / "newstest2013.jsonl.gz", sentences)
    _write(tmp_path / "translation" / "multi30k.test_2016_flickr.jsonl.gz", sentences)
    feature, scale = np.arange(10, dtype=np.int8)[:, None], np.array([2.0])
    for name in ("captions/pascal50s", "questions/vqg"):
        np.savez(tmp_path / f"{name}.features.npz", image=np.arange(10), feature=feature, scale=scale)
    projection = {"mean": np.array([0.0, 5.0]), "components": np.array([[1.0, 0.0]])}
    np.savez(tmp_path / "captions" / "features.projection.npz", **projection)  # type: ignore[arg-type]
    return tmp_path


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def test_pictures_by_name(data: Path) -> None:
    captions, questions = (read_task(name, lambda: data) for name in ("pascal50s", "vqg.test"))
    assert (captions.name, questions.name) == ("pascal50s", "vqg.test")
    assert captions.ids == IDS
    assert torch.as_tensor(captions.inputs).tolist() == [[2.0 * n, 5.0] for n in range(10)]
    assert captions.difficulty == tuple(range(10))
    assert questions.ids == ("4", "5")
    assert torch.as_tensor(questions.inputs).tolist() == [[8.0, 5.0], [10.0, 5.0]]
    assert questions.references == (("what is 4?",), ("what is 5?",))
    assert questions.difficulty is None


@pytest.mark.parametrize(
    ("name", "known_as"),
    [("newstest2013", "newstest2013"), ("multi30k.test", "multi30k.test_2016_flickr")],
)
def test_sentences_by_name(name: str, known_as: str, data: Path) -> None:
    task = read_task(name, lambda: data)
    assert task.name == known_as
    assert task.ids == ("0", "1")
    assert task.inputs == ["Go!", "I'm cold."]
    assert task.references == (("Va !", "File !"), ("J'ai froid.",))


def test_every_fifth_picture_is_for_choosing(data: Path) -> None:
    valid, test = (read_task(f"pascal50s.{part}", lambda: data) for part in ("valid", "test"))
    assert (valid.name, test.name) == ("pascal50s.valid", "pascal50s.test")
    assert valid.ids == ("0", "5")
    assert test.ids == ("1", "2", "3", "4", "6", "7", "8", "9")
    assert torch.as_tensor(valid.inputs).tolist() == [[0.0, 5.0], [10.0, 5.0]]
    assert valid.references == (("picture 0",), ("picture 5",))
    assert valid.difficulty == (0.0, 5.0)


def test_a_data_folder_without_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "translation" / "newstest2013.jsonl.gz"
    with pytest.raises(ArgumentError) as caught:
        read_task("newstest2013", lambda: tmp_path)
    assert str(caught.value) == f"{missing} cannot be read: No such file or directory"


def test_real_parts_are_disjoint_and_together_the_whole() -> None:
    if not os.environ.get("BEAMSPLIT_DATA"):
        pytest.skip("BEAMSPLIT_DATA is not set to a folder of real data")
    whole, valid, test = (TASKS[f"pascal50s{part}"](data_folder()) for part in ("", ".valid", ".test"))
    assert (len(valid.ids), len(test.ids)) == (200, 800)
    assert sorted(valid.ids + test.ids) == sorted(whole.ids)
    assert len({*valid.ids, *test.ids}) == 1000


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.txt"])
def test_a_compressed_file_is_the_same_task(name: str, tmp_path: Path) -> None:
    line = "Go on." if name.endswith(".txt") else '{"input": "Go on.", "references": ["Continue."]}'
    (tmp_path / name).write_text(f"{line}\n")
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(f"{line}\n".encode()))
    plain, compressed = (read_task(str(tmp_path / each), lambda: tmp_path) for each in (name, f"{name}.gz"))
    assert plain == compressed
    assert plain.name == "mine"
    assert has_references(str(tmp_path / f"{name}.gz")) == name.endswith(".jsonl")
