"""The data folder, and the lines that named tasks are read from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beamsplit import ArgumentError
from beamsplit.evaluation.datasets import (
    Described,
    Pair,
    data_folder,
    read_described_lines,
    read_pair_lines,
)
from evaluation.small import write_lines

# The folder


def test_the_folder_given_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    monkeypatch.setenv("BEAMSPLIT_DATA", str(tmp_path))
    assert data_folder(None) == tmp_path
    assert data_folder(str(tmp_path / "b")) == tmp_path / "b"


def test_no_folder_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BEAMSPLIT_DATA", raising=False)
    with pytest.raises(
        ArgumentError, match=r"^no data folder: give one \(--data\), or set BEAMSPLIT_DATA to it$"
    ):
        data_folder(None)
    missing = str(tmp_path / "x")
    said = re.escape(f" is {missing!r}, which is no folder: give one that exists")
    with pytest.raises(ArgumentError, match=f"^the data folder{said}$"):
        data_folder(missing)
    monkeypatch.setenv("BEAMSPLIT_DATA", missing)
    with pytest.raises(ArgumentError, match=f"^BEAMSPLIT_DATA{said}$"):
        data_folder(None)


# Pictures


@pytest.mark.parametrize("key", ["captions", "questions"])
def test_pictures(tmp_path: Path, key: str) -> None:
    first = {"image": 318556, key: [" A bathroom.", "", "A clean room\n"]}
    path = write_lines(tmp_path / "a.jsonl", first, {"image": "9", key: ["A cat"]})
    expected = [Described("318556", ("A bathroom.", "A clean room")), Described("9", ("A cat",))]
    assert read_described_lines(path) == expected


def test_pictures_with_a_difficulty(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a.jsonl",
        {"image": "2008_1", "captions": ["a"], "difficulty": 3},
        {"image": "2008_2", "difficulty": 2.5},
        {"image": "2008_3", "captions": [" "]},
    )
    assert read_described_lines(path) == [Described("2008_1", ("a",), 3.0), Described("2008_2", (), 2.5)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"captions": []}', ", line 1: no 'image' (it has: captions)"),
        ('{"image": 1}', ", line 1: no 'captions' or 'questions' (it has: image)"),
        ('{"image": true, "captions": []}', ", line 1: image must be a number or a name, not True"),
        ('{"image": " ", "captions": []}', ", line 1: image must be a number or a name, not ' '"),
        ('{"image": 1, "captions": "a"}', ", line 1: captions must be a list, not 'a'"),
        ('{"image": 1, "questions": [2]}', ", line 1: questions must be text, not 2"),
        ('{"image": 1, "difficulty": "x"}', ", line 1: difficulty must be a finite number, not 'x'"),
        ('{"image": 1, "difficulty": NaN}', ", line 1: difficulty must be a finite number, not nan"),
        (
            '\n{"image": 1,',
            ", line 2 is not JSON: Expecting property name enclosed in double quotes at column 13",
        ),
        ('{"image": 1, "captions": [" "]}', ": no picture with a text in it"),
    ],
)
def test_pictures_are_refused_in_a_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ArgumentError, match=f"^{re.escape(f'{path}{said}')}$"):
        read_described_lines(path)


# Sentences


def test_pairs(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "a.jsonl",
        {"en": "Hug Tom. ", "fr": ["Fais un câlin à Tom.", " ", "Serre Tom."]},
        {"en": "Run!", "fr": [" "]},
        {"en": "", "fr": "Oui"},
        {"en": "Go!", "fr": "Va !"},
    )
    hug = Pair("Hug Tom.", ("Fais un câlin à Tom.", "Serre Tom."))
    assert read_pair_lines(path) == [hug, Pair("Go!", ("Va !",))]


def test_pairs_of_other_languages(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", {"de": "Los!", "en": ["Go!"]})
    assert read_pair_lines(path, "de", "en") == [Pair("Los!", ("Go!",))]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"en": "Go!"}', ", line 1: no 'fr' (it has: en)"),
        ('{"en": "a", "fr": "b"}\n\n{}', ", line 3: no 'en' (it has: nothing)"),
        ('{"en": 5, "fr": "b"}', ", line 1: en must be a string, not 5"),
        ('{"en": "a", "fr": 5}', ", line 1: fr must be a list, not 5"),
        ('{"en": "a", "fr": ["b", null]}', ", line 1: fr must be text, not None"),
        ("[1]", ", line 1: must be an object with 'en', not [1]"),
        ("", ": no sentence with a translation in it"),
    ],
)
def test_pairs_are_refused_in_a_line(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ArgumentError, match=f"^{re.escape(f'{path}{said}')}$"):
        read_pair_lines(path)
