"""The files we train and evaluate with, where BEAMSPLIT_DATA says they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from research.data import data_folder, read_described, read_features, read_pairs, read_projection

PAIRS = {
    "tatoeba.train": 112_121,
    "tatoeba.valid": 1_219,
    "tatoeba.test": 2_339,
    "multi30k.train": 29_000,
    "multi30k.val": 1_014,
    "multi30k.test_2016_flickr": 1_000,
    "multi30k.test_2017_flickr": 1_000,
    "multi30k.test_2017_mscoco": 461,
    "newstest2012": 3_003,
    "newstest2013": 3_000,
    "newstest2014": 3_003,
}
# Texts, how many pictures, and their features.
DESCRIBED = {
    "captions/coco.train": (82_783, "captions/coco.train"),
    "captions/coco.valid": (2_000, "captions/coco.valid"),
    "captions/coco.test": (4_407, "captions/coco.test"),
    "captions/pascal50s": (1_000, "captions/pascal50s"),
    "questions/vqg.train": (2_500, "questions/vqg"),
    "questions/vqg.val": (1_242, "questions/vqg"),
    "questions/vqg.test": (1_248, "questions/vqg"),
    "complexity/voc2008": (4_332, "complexity/voc2008"),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    if not os.environ.get("BEAMSPLIT_DATA"):
        pytest.skip("BEAMSPLIT_DATA is not set to a folder of real data")
    return data_folder()


@pytest.mark.parametrize(("name", "count"), PAIRS.items())
def test_pairs(folder: Path, name: str, count: int) -> None:
    assert len(read_pairs(folder / "translation" / f"{name}.jsonl.gz")) == count


@pytest.mark.parametrize(("name", "count", "features"), [(name, *rest) for name, rest in DESCRIBED.items()])
def test_every_picture_has_features(folder: Path, name: str, count: int, features: str) -> None:
    rows = read_described(folder / f"{name}.jsonl.gz")
    assert len(rows) == count
    values = read_features(folder / f"{features}.features.npz").of([row.image for row in rows])
    assert values.shape == (count, 640)


def test_pascal_50s_has_fifty_captions_and_a_difficulty(folder: Path) -> None:
    rows = read_described(folder / "captions" / "pascal50s.jsonl.gz")
    assert {len(row.texts) for row in rows} == {50}
    assert all(row.difficulty is not None for row in rows)


def test_features_come_back_in_1280_dimensions(folder: Path) -> None:
    path = folder / "captions" / "features.projection.npz"
    long = read_features(folder / "captions" / "coco.valid.features.npz", path).values
    assert long.shape == (2_000, 1_280)
    short = read_features(folder / "captions" / "coco.valid.features.npz").values
    # Components in float16 are orthonormal to about 1e-4.
    assert (read_projection(path).project(long) - short).abs().max() < 1e-2
