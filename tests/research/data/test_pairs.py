"""Sentences and their translations, from each kind of file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from beamsplit import ArgumentError
from data import write
from research.data import Pair, read_pairs

HUG = Pair("Hug Tom.", ("Fais un câlin à Tom.", "Serre Tom."))
GO = Pair("Go!", ("Va !",))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    path = write.rows(tmp_path / name, {"en": HUG.source, "fr": HUG.targets}, {"en": "Go!", "fr": "Va !"})
    assert read_pairs(path) == [HUG, GO]
    assert read_pairs(str(path)) == [HUG, GO]


def test_keys_of_json_lines(tmp_path: Path) -> None:
    path = write.rows(tmp_path / "a.jsonl", {"de": "Los!", "en": ["Go!"]})
    assert read_pairs(path, source="de", target="en") == [Pair("Los!", ("Go!",))]


@pytest.mark.parametrize("name", ["a.tsv", "fra.txt", "fra.txt.gz"])
def test_columns_gather_what_one_sentence_has(tmp_path: Path, name: str) -> None:
    table = "Hug Tom.\tFais un câlin à Tom.\tCC-BY 2.0\nGo!\tVa !\tCC-BY 2.0\n\nHug Tom.\tSerre Tom.\n"
    assert read_pairs(write.text(tmp_path / name, table)) == [HUG, GO]


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_parallel_text(tmp_path: Path, end: str) -> None:
    sources = write.text(tmp_path / "train.en", f"Hug Tom.{end}Go!{end}")
    first = write.text(tmp_path / "train.fr", f"Fais un câlin à Tom.{end}Va !")
    second = write.text(tmp_path / "train.1.fr.gz", f"Serre Tom.{end} {end}")
    assert read_pairs(sources, first) == [Pair("Hug Tom.", HUG.targets[:1]), GO]
    assert read_pairs(sources, [first, second]) == [HUG, GO]


def test_text_is_stripped_and_otherwise_left_alone(tmp_path: Path) -> None:
    odd = "“Oui”\u202f! \u2028 e\u0301  ÇA"
    path = write.text(tmp_path / "a.tsv", f"\ufeff It's  SO \t {odd} \n")
    assert read_pairs(path) == [Pair("It's  SO", (odd,))]


def test_blank_sides_are_left_out(tmp_path: Path) -> None:
    path = write.rows(
        tmp_path / "a.jsonl",
        {"en": "Go!", "fr": [" ", "Va !", ""]},
        {"en": "Run!", "fr": [" "]},
        {"en": "", "fr": "Oui"},
    )
    assert read_pairs(path) == [GO]
    sources = write.text(tmp_path / "a.en", "Go!\n\nRun!\n")
    assert read_pairs(sources, write.text(tmp_path / "a.fr", "Va !\nOui\n\n")) == [GO]
    assert read_pairs(write.text(tmp_path / "b.tsv", "Run!\t \nGo!\tVa !\n")) == [GO]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "", "a.jsonl: no sentence with a translation in it"),
        (
            "a.tsv",
            "a\tb\nGo!\n",
            "a.tsv, line 2: no tab between sentence and translation in 'Go!' (plain text",
        ),
        ("a.en", "", "a.en: unknown extension '.en' (known: .jsonl, .tsv, .txt; or give the translations as"),
        ("a", "", "a: unknown extension '' (known:"),
    ],
)
def test_one_file_is_refused_in_a_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = write.text(tmp_path / name, content)
    with pytest.raises(ArgumentError, match=re.escape(f"{tmp_path}/{said}")) as caught:
        read_pairs(path)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_match_are_refused(tmp_path: Path) -> None:
    english, french = write.text(tmp_path / "a.en", "a\nb\nc\n"), write.text(tmp_path / "a.fr", "a\nb\n")
    said = f"{english} has 3 lines and {french} has 2: they must match line by line"
    with pytest.raises(ArgumentError, match=re.escape(said)):
        read_pairs(english, french)
    with pytest.raises(ArgumentError, match=r"a\.en: target_path is an empty list, give at least one file"):
        read_pairs(english, [])
    with pytest.raises(ArgumentError, match=r"b\.jsonl\.gz: holds both sides, so read it alone"):
        read_pairs(english, tmp_path / "b.jsonl.gz")
