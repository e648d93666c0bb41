"""Pictures with captions or questions, from each kind of file."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError
from beamsplit.extras import install_line
from data import write
from research.data import Described, read_described

TWO = [Described("318556", ("A bathroom.", "A clean room")), Described("9", ("A cat",))]


def _refused(path: Path, said: str, **options: Any) -> None:
    with pytest.raises(ArgumentError, match=re.escape(f"{path}{said}")) as caught:
        read_described(path, **options)
    assert "\n" not in str(caught.value)


# Our own


@pytest.mark.parametrize("key", ["captions", "questions"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines(tmp_path: Path, name: str, key: str) -> None:
    first = {"image": 318556, key: [" A bathroom.", "", "A clean room\n"]}
    assert read_described(write.rows(tmp_path / name, first, {"image": "9", key: ["A cat"]})) == TWO


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    said = ": unknown extension '.xml' (known: .jsonl, .json, .mat, .csv)"
    _refused(write.text(tmp_path / "a.xml.gz", ""), said)


# COCO

COCO = {
    "info": {"year": 2014},
    "images": [{"id": 9, "file_name": "COCO_train2014_000000000009.jpg"}, {"id": 318556}],
    "annotations": [
        {"image_id": 318556, "id": 48, "caption": "A bathroom."},
        {"image_id": 9, "id": 50, "caption": "A cat "},
        {"image_id": 318556, "id": 126, "caption": "A clean room\n"},
    ],
}


@pytest.mark.parametrize("name", ["captions_train2014.json", "captions_train2014.json.gz"])
def test_coco_captions(tmp_path: Path, name: str) -> None:
    assert read_described(write.whole(tmp_path / name, COCO)) == TWO


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"annotations": [{"image_id": 1}]}, ", annotations[0]: no 'caption' (it has: image_id)"),
        ({"annotations": [{"caption": "a"}]}, ", annotations[0]: no 'image_id' (it has: caption)"),
        ({"annotations": [{"image_id": 1, "caption": 2}]}, ", annotations[0]: caption must be text, not 2"),
        ({"annotations": {}}, ": annotations must be a list, not {}"),
        ({"annotations": [3]}, ", annotations[0]: must be an object with 'caption', not 3"),
        ({"annotations": []}, ": no picture with a text in it"),
        ([], ": neither COCO's captions (no 'annotations') nor Karpathy's (no 'images')"),
    ],
)
def test_other_json_is_refused_in_a_line(tmp_path: Path, value: Any, said: str) -> None:
    _refused(write.whole(tmp_path / "a.json", value), said)


def test_broken_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write.text(tmp_path / "a.json", '{\n"images": [}')
    _refused(path, " is not JSON: Expecting value at line 2 column 12")


# Karpathy's


def _karpathy(split: str, *raw: str, **picture: Any) -> dict[str, Any]:
    sentences = [{"raw": each, "tokens": each.lower().split(), "imgid": 0} for each in raw]
    return {"filepath": "val2014", "sentids": [1], "split": split, "sentences": sentences, **picture}


KARPATHY = {
    "dataset": "coco",
    "images": [
        _karpathy("test", "A bathroom.", "A clean room ", cocoid=318556, imgid=0, filename="x.jpg"),
        _karpathy("train", "A cat", imgid=1, filename="COCO_val2014_000000000009.jpg"),
        _karpathy("restval", "A dog", imgid=2),
        _karpathy("restval", "A man", imgid=3, filename="1000268201_693b08cb0e.jpg"),
    ],
}


def test_karpathys_splits(tmp_path: Path) -> None:
    path = write.whole(tmp_path / "dataset_coco.json", KARPATHY)
    rest = [Described("2", ("A dog",)), Described("1000268201_693b08cb0e", ("A man",))]
    assert read_described(path) == TWO + rest
    assert read_described(path, split="test") == TWO[:1]
    assert read_described(path, split="restval") == rest
    assert read_described(path, split=("restval", "train")) == TWO[1:] + rest


def test_karpathys_tokens_do_where_there_is_no_text(tmp_path: Path) -> None:
    row = {"imgid": 9, "split": "test", "sentences": [{"tokens": ["a", "cat"]}]}
    assert read_described(write.whole(tmp_path / "a.json", {"images": [row]})) == [Described("9", ("a cat",))]


def test_splits_that_are_not_there_are_refused(tmp_path: Path) -> None:
    path = write.whole(tmp_path / "dataset_coco.json", KARPATHY)
    _refused(path, ": no split 'tset' (it has: restval, test, train)", split="tset")
    _refused(path, ": no split ['test', 'x'] (it has: restval, test, train)", split=["test", "x"])
    _refused(path, ": no split [] (it has: restval, test, train)", split=[])
    coco = write.whole(tmp_path / "captions.json", COCO)
    _refused(coco, ": has no splits, leave out split='test'", split="test")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"split": "test"}, ", images[0]: no 'sentences' (it has: split)"),
        ({"sentences": [{"x": 1}]}, ", images[0], sentences: no 'raw' (it has: x)"),
        ({"sentences": [{"raw": 1}]}, ", images[0]: sentences must be text, not 1"),
        ({"sentences": []}, ", images[0]: no 'split' (it has: sentences)"),
        (
            {"sentences": [], "split": "test"},
            ", images[0]: no 'cocoid', 'filename' or 'imgid' (it has: sentences, split)",
        ),
    ],
)
def test_karpathys_rows_are_refused_in_a_line(tmp_path: Path, row: Any, said: str) -> None:
    _refused(write.whole(tmp_path / "a.json", {"images": [row]}), said)


# PASCAL-50S


def _cell(*values: Any) -> Any:
    import numpy as np

    made = np.empty((1, len(values)), dtype=object)
    for index, value in enumerate(values):
        made[0, index] = value
    return made


def _structs(path: Path, *records: tuple[Any, Any], names: tuple[str, str], variable: str) -> Path:
    import numpy as np

    made = np.empty((1, len(records)), dtype=[(name, object) for name in names])
    for index, record in enumerate(records):
        made[0, index] = record
    pytest.importorskip("scipy.io").savemat(path, {variable: made, "version": 1.0})
    return path


@pytest.mark.parametrize("names", [("img", "sent"), ("image", "sent"), ("name", "sentences")])
def test_pascal_50s(tmp_path: Path, names: tuple[str, str]) -> None:
    path = _structs(
        tmp_path / "pascal50S.mat",
        ("2008_006488.jpg", _cell("A man in a boat. ", "A fisherman.", " ")),
        ("http://host/voc/2008_008632.jpg", _cell(_cell("A cow"), _cell(_cell("Two cows")))),
        ("2008_000001.jpg", _cell()),
        names=names,
        variable="train_sent_final",
    )
    assert read_described(path) == [
        Described("2008_006488", ("A man in a boat.", "A fisherman.")),
        Described("2008_008632", ("A cow", "Two cows")),
    ]


def test_other_matlab_files_are_refused_in_a_line(tmp_path: Path) -> None:
    io = pytest.importorskip("scipy.io")
    broken = write.text(tmp_path / "b.mat", "MATLAB")
    _refused(broken, ": not a .mat file that can be read (")
    io.savemat(tmp_path / "c.mat", {"x": 1.0})
    said = ": no struct with fields img and sent, such as train_sent_final (it has: x)"
    _refused(tmp_path / "c.mat", said)
    names = ("img", "sent")
    path = _structs(tmp_path / "d.mat", ("a.jpg", _cell("a")), ("b.jpg", 5.0), names=names, variable="x")
    _refused(path, ", picture 2: sent must be text, not array([[5.]])")
    path = _structs(tmp_path / "e.mat", ("", _cell("a")), names=names, variable="x")
    _refused(path, ", picture 1: img must be a number or a name, not ''")


def test_without_scipy_the_way_to_install_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    path = write.text(tmp_path / "a.mat", "")
    with pytest.raises(ImportError, match=re.escape(f"research.data needs scipy: {install_line('dev')}")):
        read_described(path)


# VQG


def _table(path: Path, *rows: tuple[str, ...]) -> Path:
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows(rows)
    return path


@pytest.mark.parametrize(
    "image",
    ["318556", "COCO_train2014_000000318556.jpg", "http://mscoco.org/images/000000318556.jpg"],
)
def test_vqg(tmp_path: Path, image: str) -> None:
    path = _table(
        tmp_path / "coco_train_all.csv",
        ("image_id", "image_url", "ir_caption", "questions", "question_ids"),
        (image, "http://x/1.jpg", "c", 'Is it "clean", or not?---Whose room is it? --- ', "1---2---3"),
        ("9", "http://x/2.jpg", "c", "---", "4"),
        ("7", "http://x/3.jpg", "c", "Why?\nReally?", "5"),
    )
    assert read_described(path) == [
        Described("318556", ('Is it "clean", or not?', "Whose room is it?")),
        Described("7", ("Why?\nReally?",)),
    ]


def test_vqg_needs_two_columns_only(tmp_path: Path) -> None:
    path = _table(tmp_path / "a.csv", ("questions", "image_id"), ("Why?", "9"))
    assert read_described(path) == [Described("9", ("Why?",))]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("image_id,x\n1,2\n", ": no column 'questions' (it has: image_id, x)"),
        ("", ": no column 'image_id' (it has: nothing)"),
        ('"a\nb"' + ",c" * 99, ": no column 'image_id' (it has: a b, c, c"),
        ("image_id,questions\n1,a\n2\n", ", line 3: no questions, the line has too few columns"),
        ("image_id,questions\n,a\n", ", line 2: image_id must be a number or a name, not ''"),
        (
            "image_id,questions\n1," + "a" * 200_000,
            ", line 1: not CSV (field larger than field limit (131072))",
        ),
    ],
)
def test_tables_are_refused_in_a_line(tmp_path: Path, content: str, said: str) -> None:
    _refused(write.text(tmp_path / "a.csv", content), said)


def test_coco_pictures_go_by_their_files_where_these_are_named(tmp_path: Path) -> None:
    content = {
        "images": [
            {"id": 1, "file_name": "my photo.jpg"},
            {"id": 318556, "file_name": "COCO_val2014_000000318556.jpg"},
        ],
        "annotations": [
            {"image_id": 1, "caption": "A cat."},
            {"image_id": 318556, "caption": "A bath."},
            {"image_id": 7, "caption": "A dog."},
        ],
    }
    (tmp_path / "coco.json").write_text(json.dumps(content), encoding="utf-8")
    described = read_described(tmp_path / "coco.json")
    assert [each.image for each in described] == ["my photo", "318556", "7"]
