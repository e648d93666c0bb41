"""Plans from files and from strategies."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from beamsplit.errors import ArgumentError
from beamsplit.evaluation import RunSettings
from beamsplit.study.making import ListPair, check_items, lists_from_files, lists_from_strategies, make_plan
from beamsplit.study.pictures import SIDE, Source, to_jpeg
from study.small import item


def write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    bs = [
        {"id": n, "hypotheses": [f"b{n}", f"b{n}'"], "input": f"text {n}", "complexity": n} for n in range(3)
    ]
    dbs = [
        {"id": str(n), "hypotheses": [{"text": f"d{n}", "log_prob": -1.0}], "difficulty": 9}
        for n in (2, 1, 0)
    ]
    return {"bs": write(tmp_path / "bs.jsonl", *bs), "dbs": write(tmp_path / "dbs.jsonl", *dbs)}


def test_two_files(files: dict[str, Path]) -> None:
    made = make_plan(lists_from_files(files), votes=1, annotators=1, attention=0)
    assert (made.first, made.second) == ("bs", "dbs")
    assert [(each.name, each.first, each.second) for each in made.items] == [
        ("0", ("b0", "b0'"), ("d0",)),
        ("1", ("b1", "b1'"), ("d1",)),
        ("2", ("b2", "b2'"), ("d2",)),
    ]
    last = made.items[2]
    assert (last.input, last.complexity, last.difficulty) == ("text 2", 2.0, 9.0)


def test_a_task_says_which_and_goes_before_the_files(files: dict[str, Path], tmp_path: Path) -> None:
    task = write(tmp_path / "task.jsonl", {"id": "1", "input": "other", "complexity": 7.5})
    made = make_plan(lists_from_files(files, task), votes=1, annotators=1)
    (one,) = made.items
    assert (one.name, one.input, one.complexity, one.difficulty) == ("1", "other", 7.5, 9.0)


def test_a_task_may_be_lines_of_text(files: dict[str, Path], tmp_path: Path) -> None:
    task = tmp_path / "task.txt"
    task.write_text("one\n\nthree\n", encoding="utf-8")
    made = make_plan(lists_from_files(files, task), votes=1, annotators=1)
    assert [(each.name, each.input) for each in made.items] == [("0", "one"), ("2", "three")]


def test_two_strategies_and_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text("I'm cold.\n", encoding="utf-8")
    methods = {"bs": {"strategy": "bs", "beams": 2}, "dbs": {"strategy": "dbs", "groups": 2}}
    content = {"task": str(tmp_path / "task.txt"), "model": "en-fr", "min_length": 12, "methods": methods}
    lists = lists_from_strategies(content, RunSettings(cache=tmp_path / "cache"))
    assert [source.text for source in lists.about] == ["I'm cold."]
    assert all(len(text) > len("J'ai froid.") for texts in lists.first for text in texts)


def test_two_strategies_and_paths_of_pictures(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    (tmp_path / "task.txt").write_text("red.png\n", encoding="utf-8")
    methods = {"bs": {"strategy": "bs", "beams": 2}, "dbs": {"strategy": "dbs", "groups": 2}}
    content = {"task": str(tmp_path / "task.txt"), "model": "captioner", "max_length": 3, "methods": methods}
    lists = lists_from_strategies(content, RunSettings(cache=tmp_path / "cache"))
    assert lists.about == [Source(image=tmp_path / "red.png")]


def test_so_many_of_them_and_of_their_outputs(files: dict[str, Path]) -> None:
    made = make_plan(lists_from_files(files, limit=2), votes=1, annotators=1, shown=1)
    assert [each.name for each in made.items] == ["0", "1"]
    assert made.items[0].first == ("b0",)


def test_repeats_are_left_out_if_wanted() -> None:
    lists = ListPair(("a", "b"), ("0",), [("x", "x", "y")], [("z", "y", "z")], [Source(text="input")])
    (made,) = make_plan(lists, votes=1, annotators=1, shown=2, unique=True).items
    assert (made.first, made.second) == (("x", "y"), ("z", "y"))
    (made,) = make_plan(lists, votes=1, annotators=1, shown=2).items
    assert (made.first, made.second) == (("x", "x"), ("z", "y"))


def test_pictures_are_kept_small_and_without_notes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    notes = image.Exif()
    notes[0x010E] = "where it was taken"
    image.new("RGB", (1600, 400), "red").save(tmp_path / "wide.jpg", exif=notes)
    found = image.open(io.BytesIO(to_jpeg(tmp_path / "wide.jpg")))
    assert (found.format, found.size, dict(found.getexif())) == ("JPEG", (SIDE, 200), {})


def test_transparent_parts_are_white(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert image.open(io.BytesIO(to_jpeg(tmp_path / "clear.png"))).getpixel((4, 4)) == (255, 255, 255)


def test_no_picture(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "text.jpg").write_text("text")
    for name in ("text.jpg", "none.jpg"):
        with pytest.raises(ArgumentError, match=f"{name} cannot be read as a picture"):
            to_jpeg(tmp_path / name)


def test_predicted_complexity_is_of_pictures() -> None:
    lists = ListPair(("a", "b"), ("0",), [("x",)], [("y",)], [Source(text="no picture")])
    with pytest.raises(
        ArgumentError, match="complexity is predicted from pictures, and 1 of 1 inputs have none"
    ):
        make_plan(lists, predicted=True)


def test_predicted_complexity(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    lists = ListPair(("a", "b"), ("0",), [("x",)], [("y",)], [Source(image=tmp_path / "red.png")])
    (made,) = make_plan(lists, predicted=True, votes=1, annotators=1).items
    assert made.complexity is not None
    assert 0 < made.complexity < 10


def test_two_strategies(tmp_path: Path) -> None:
    task = write(
        tmp_path / "task.jsonl", {"input": "I'm cold.", "references": ["J'ai froid."], "complexity": 4}
    )
    methods = {"bs": {"strategy": "bs", "beams": 2}, "dbs": {"strategy": "dbs", "groups": 2}}
    content = {"task": str(task), "model": "en-fr", "methods": methods}
    lists = lists_from_strategies(content, RunSettings(cache=tmp_path / "cache"))
    (made,) = make_plan(lists, votes=1, annotators=1).items
    assert (made.input, made.complexity, len(made.first), len(made.second)) == ("I'm cold.", 4.0, 2, 2)
    assert made.first[0] == made.second[0]  # the first group does not know of the others


def test_what_no_database_holds_is_replaced(tmp_path: Path) -> None:
    for name in ("a", "b"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text('{"id": 0, "input": "x\\u0000", "hypotheses": ["\\ud800 y"]}\n')
    lists = lists_from_files({name: tmp_path / f"{name}.jsonl" for name in ("a", "b")})
    assert lists.first == [("? y",)]
    assert lists.about[0].text == "x\N{REPLACEMENT CHARACTER}"


def test_checks_say_which_list_to_choose() -> None:
    one, two = check_items([item("0"), item("1"), item("2")], 2)
    assert (one.input, one.answer, two.answer) == ("input 0", "first", "second")
    assert "choose this list" in one.first[1]
    assert "choose the other list" in one.second[1]
    assert one.first[0] == "bs 1"  # lists of another input
    assert "choose this list" in two.second[1]


def test_blank_lines_are_no_items(files: dict[str, Path]) -> None:
    """`decode` writes an empty list for a blank line."""
    for path in files.values():
        with path.open("a", encoding="utf-8") as file:
            file.write('{"id": "3", "input": "", "hypotheses": []}\n')
            file.write('{"id": "1", "input": "", "hypotheses": []}\n')  # its number: another line has the id
    assert lists_from_files(files).ids == ("0", "1", "2")


def test_ids_of_a_task_are_those_of_its_lines(files: dict[str, Path], tmp_path: Path) -> None:
    task = tmp_path / "task.jsonl"
    task.write_text('\n{"id": null, "input": "one"}\n\n{"id": "0", "input": "none"}\n', encoding="utf-8")
    assert lists_from_files(files, task).ids == ("1", "0")


def test_what_people_will_wonder_about_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    same = ListPair(("a", "b"), ("0",), [("x",)], [("x",)], [Source()])
    make_plan(same, votes=1, annotators=1)
    told = capsys.readouterr().err
    assert "1 of 1 items show nothing but their lists" in told
    assert "1 of 1 items have the same list twice" in told


def test_lists_that_fall_short_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    lists = ListPair(("a", "b"), ("0",), [("x", "x", "y")], [("z", "y")], [Source(text="input")])
    make_plan(lists, votes=1, annotators=1, shown=3)
    assert capsys.readouterr().err.splitlines() == [
        "1 of 1 lists of a show a text twice",
        "1 of 1 lists of b have fewer outputs than the 3 to be shown",
    ]
    make_plan(lists, votes=1, annotators=1, shown=2, unique=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"hypotheses": ["x"]}, 'line 1 has no "id"'),
        ({"id": 0, "hypotheses": []}, 'line 1 has no list under "hypotheses"'),
        (
            {"id": 0, "hypotheses": ["x"], "complexity": "high"},
            "line 1 has no number under \"complexity\": 'high'",
        ),
        ({"id": 0, "hypotheses": ["x"], "image": 3}, 'line 1 has no path under "image": 3'),
        ({"id": 0, "hypotheses": ["x"], "image": "none.jpg"}, "none.jpg cannot be read as a picture"),
    ],
)
def test_lines_that_are_wrong(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", line)
    with pytest.raises(ArgumentError, match=message):
        make_plan(
            lists_from_files({name: tmp_path / f"{name}.jsonl" for name in ("a", "b")}), votes=1, annotators=1
        )


def test_files_that_do_not_fit_together(files: dict[str, Path], tmp_path: Path) -> None:
    lone = write(tmp_path / "lone.jsonl", {"id": "7", "hypotheses": ["x"]})
    with pytest.raises(ArgumentError, match=r"lone\.jsonl has no line for 3 of the 3 inputs, such as id '0'"):
        lists_from_files({"bs": files["bs"], "lone": lone})
    with pytest.raises(ArgumentError, match="a study compares two lists, and 1 given: bs"):
        lists_from_files({"bs": files["bs"]})


def test_a_study_needs_none_of_its_files(files: dict[str, Path]) -> None:
    made = make_plan(lists_from_files(files), votes=1, annotators=1)
    for path in files.values():
        os.remove(path)
    assert len(made.items) == 3
