"""Answers of chat models: figures worked by hand, and the page has the tables of its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from research.chat.__main__ import program
from research.chat.measures import Answer, count_meanings, measure_list, overlap, repeated_share
from research.chat.report import markdown
from research.chat.settings import ANSWERS, CHOSEN, compared, tried

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "results" / "chat"


def test_overlap_is_the_share_of_long_words_that_both_have() -> None:
    # boats and river of boats, river and fast; "the" and "is" are too short.
    assert overlap("the boats river".split(), "boats is river fast".split()) == pytest.approx(2 / 3)
    assert overlap(["boats"], ["boats", "boats"]) == 1
    assert overlap(["boats"], []) == 0
    assert overlap(["a"], ["of"]) == 1


def test_meanings_are_answers_that_none_before_is_like() -> None:
    # 1 is like 0; 2 is like 1, which does not count, since 1 is not kept; 3 is like 2, which is.
    cosine = torch.eye(4)
    for first, second in ((0, 1), (1, 2), (2, 3)):
        cosine[first, second] = cosine[second, first] = 0.8
    assert count_meanings(cosine) == 2
    assert count_meanings(torch.full((3, 3), 0.79)) == 3
    assert count_meanings(torch.ones(3, 3)) == 1


def test_loops_are_sequences_of_four_words_that_come_again() -> None:
    assert repeated_share("a b c d e f".split()) == 0
    assert repeated_share("a b c d a b c d".split()) == pytest.approx(1 / 5)  # abcd bcda cdab dabc abcd
    assert repeated_share(["a"] * 7) == pytest.approx(3 / 4)
    assert repeated_share("a b c".split()) == 0


ANSWERED = [
    Answer("No.", -1.0, 2, finished=True),
    Answer("One two three four. One two three four one", -2.0, 8, finished=False),
    Answer("One two three boats", -3.0, 5, finished=True),
    Answer("Two three boats", -9.0, 3, finished=True),
]
VECTORS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.0, -1.0]])
ASKED = torch.tensor([0.0, 1.0])


def test_a_list_by_hand() -> None:
    found = measure_list(ANSWERED, ASKED, VECTORS)
    expected = {
        "different": 1,
        "overlap": (0 + 0 + 0 + 1 / 3 + 1 / 3 + 1) / 6,  # of three, four and boats
        "meanings": 3,  # the third is like the second
        "likeness": (0 + 0.6 + 0 + 0.8 - 1 - 0.8) / 6,
        "relevance": (0 + 1 + 0.8 - 1) / 4,
        "best_relevance": 1,
        "log_prob": (-1 / 2 - 2 / 8 - 3 / 5 - 9 / 3) / 4,
        "loops": 1 / 4,  # the second: two of six
        "stubs": 1 / 4,
        "length": 4.5,
        "finished": 3 / 4,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_a_fifth_is_no_loop_yet() -> None:
    found = measure_list([Answer("a b c d a b c d", -1.0, 8, finished=True)] * 2, ASKED, VECTORS[:2])
    assert found["loops"] == 0


@pytest.mark.parametrize(
    ("order", "relevance", "words", "stub", "loop"),
    # The third shares with the second, by F1 of words and pairs, 6/13 and 4/11; with the fourth 6/7 and 4/5.
    [("log-prob", 0, 1, 1, 0), ("score", 1, 9, 0, 1), ("mbr", 0.8, 4, 0, 0)],
)
def test_the_first_by_each_order(order: str, relevance: float, words: int, stub: int, loop: int) -> None:
    found = measure_list(ANSWERED, ASKED, VECTORS)
    assert found[f"first_relevance_{order}"] == pytest.approx(relevance)
    assert found[f"first_words_{order}"] == words
    assert found[f"first_stub_{order}"] == stub
    assert found[f"first_loop_{order}"] == loop


def test_of_more_answers_the_likeliest_per_token_count() -> None:
    short = [Answer("boats", -1.0, 1, finished=True)] * ANSWERS
    long = [Answer("river", -1.0, 2, finished=True)] * ANSWERS
    vectors = torch.tensor([[1.0, 0.0]] * ANSWERS + [[0.0, 1.0]] * ANSWERS)
    assert measure_list(short + long, torch.tensor([0.0, 1.0]), vectors)["relevance"] == 1


def test_the_page_has_the_tables_of_its_file() -> None:
    page = (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")
    printed = CliRunner().invoke(program, ["report", str(FIGURES / "test.json")]).output
    settings, orders = printed.split("\n\n")
    assert f"<!-- figures of results/chat/test.json -->\n{settings}\n\n" in page
    assert f"<!-- orders in results/chat/test.json -->\n{orders}\n" in page


def test_the_files_are_of_the_settings() -> None:
    test, valid = (json.loads((FIGURES / f"{part}.json").read_text()) for part in ("test", "valid"))
    assert list(test) == list(compared())
    assert set(valid) == set(tried())
    assert f"we tried {len(valid)} settings" in (ROOT / "docs" / "chat.md").read_text(encoding="utf-8")


def test_a_star_marks_a_difference_that_is_not_by_chance() -> None:
    own = json.loads((FIGURES / "test.json").read_text())[CHOSEN]
    count = len(own["meanings"])
    other = {
        **own,
        "meanings": [value + 1 for value in own["meanings"]],
        "loops": [value + sign for value, sign in zip(own["loops"], [0.5, -0.5] * count, strict=False)],
        "seconds": [2 * value for value in own["seconds"]],
    }
    *_, chosen, row = markdown({CHOSEN: own, "other": other}).split("\n\n")[0].splitlines()
    assert "*" not in chosen.replace(f"**{CHOSEN}**", "")
    cells = row.strip("|").split(" | ")
    assert cells[1] == f"{sum(own['meanings']) / count + 1:.1f}*"
    assert not any("*" in cell for cell in cells[2:])
    assert cells[-1].strip() == "2.0"
