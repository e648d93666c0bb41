"""Tasks of one's own, from lines of JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamsplit.errors import ArgumentError
from beamsplit.evaluation import Task, read_task


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
        ("{", ", line 1 is no JSON: Expecting property name enclosed in double quotes"),
        ("\n[]", ', line 2 has no text under "input"'),
        ('{"input": " ", "references": ["x"]}', ', line 1 has no text under "input"'),
        ('{"input": "x", "references": "x"}', ', line 1 has no list of texts under "references"'),
        ('{"input": "x", "references": [""]}', ', line 1 has no list of texts under "references"'),
        ('{"input": "x", "references": []}', ", line 1 has no references: give one at least"),
        (
            '{"input": "x", "references": ["y"], "id": 1}\n' * 2,
            " has the id '1' twice: give each input its own",
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
        ArgumentError, match=r"^there is no task 'coco': there are coco\.valid, .* \.jsonl file$"
    ):
        read_task("coco", nowhere)
    with pytest.raises(ArgumentError, match=r"none.jsonl cannot be read: "):
        read_task(str(tmp_path / "none.jsonl"), nowhere)
