"""Eight answers at equal cost: rows counted, figures by hand, the choice, and tables of made-up figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from beamsplit import BeamSearch, DiverseChunks, Hypothesis, LateBranching, Sampling, Strategy, decode
from beamsplit.errors import ArgumentError
from beamsplit.progress import Progress
from beamsplit.testing import MarkovModel
from research.novelty.choice import choose_settings, is_good_enough
from research.novelty.decoding import BATCH, claim, decode_run, outputs_of, prompts_of, write_run
from research.novelty.keeping import any_eight, farthest, keep, likeliest
from research.novelty.measures import Meter, copies, is_readable, is_sensible, is_whole, words_of
from research.novelty.measuring import joined, measure_all
from research.novelty.model import Counted, halve, load_halved
from research.novelty.plot import draw_novelty, look_of
from research.novelty.pronouncing import KS, choose_ways, figures_of_words, ways, words_of_part
from research.novelty.report import (
    KINDS,
    answers_table,
    compare_figures,
    differences_table,
    examples_text,
    ways_table,
)
from research.novelty.settings import KEPT, REFERENCE, Row, Run, rows_of_table, runs

TABLE = torch.tensor([[0.1, 0.6, 0.3], [0.3, 0.3, 0.4], [0.2, 0.2, 0.6]]).log()
END = 0


class WithVectors(MarkovModel):
    """A model whose settings can be listed: the `Embedding` term needs vectors."""

    word_vectors = torch.eye(3)


def said(text: str, log_prob: float = -1.0, tokens: int = 1, *, finished: bool = True) -> Hypothesis:
    return Hypothesis(tuple(range(tokens)), log_prob, log_prob, finished=finished, text=text)


# Cost


def test_of_samples_every_token_but_the_last_costs_a_row() -> None:
    counted = Counted(MarkovModel(TABLE))
    lists = decode(counted, [1, 2, 0], Sampling(samples=6), max_length=9, end=END, seed=3)
    assert counted.rows == sum(1 + sum(len(each.tokens) - 1 for each in found) for found in lists)


def test_what_a_search_throws_away_costs_as_much() -> None:
    counted = Counted(MarkovModel(TABLE))
    found = decode(counted, [1], BeamSearch(beams=2), max_length=4)  # it never ends: rows 1, 2, 2, 2
    assert counted.rows == 7
    assert sum(len(each.tokens) for each in found[0]) == 8
    decode(counted, [1], LateBranching(outputs=3), max_length=4)
    assert counted.rows > 14


def test_matrix_products_are_in_bfloat16() -> None:
    made = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Identity())
    made[0].weight.data = torch.tensor([[1.0, 2**-9]])
    values = torch.tensor([[1.0, 1.0], [2**-20 + 1, 0.0]])
    halve(made)
    assert made(values).tolist() == [[1.0], [1.0]]  # 1 + 2^-9 takes nine bits
    assert made(values).dtype == torch.float32


# Runs


def run_of(**options: Any) -> Run:
    return Run(name="sampling 1 x6", strategy=Sampling(samples=6), options={"end": END, **options})


class Talking(MarkovModel):
    """Starts from the length of what it is asked, and says numbers."""

    def start(self, inputs: Any) -> Any:
        return super().start([len(each[0]["content"]) % 3 for each in inputs])

    def to_text(self, tokens: tuple[int, ...]) -> str:
        return " ".join(map(str, tokens))


PROMPTS = [{"id": f"p{number}", "prompt": "why " * number} for number in range(BATCH + 2)]


def test_a_run_is_written_once(tmp_path: Path) -> None:
    steps: list[None] = []
    write_run(Talking(TABLE), run_of(), PROMPTS, tmp_path, lambda: steps.append(None))
    file = tmp_path / "sampling-1-x6.json"
    before = file.read_bytes()
    write_run(Talking(TABLE.flip(0)), run_of(), PROMPTS, tmp_path, lambda: steps.append(None))
    assert file.read_bytes() == before
    assert len(steps) == 2
    content = outputs_of(file, PROMPTS)
    kept = [each for outputs in content["outputs"] for each in outputs]
    assert len(kept) == 6 * len(PROMPTS)
    assert content["rows"] == len(PROMPTS) + sum(len(each["tokens"]) - 1 for each in kept)
    with pytest.raises(ArgumentError, match="is of other prompts"):
        outputs_of(file, PROMPTS[:3])


@pytest.mark.parametrize(
    "strategy",
    [Sampling(samples=6), DiverseChunks(groups=3, chunk=2, similarity="content"), LateBranching(outputs=3)],
    ids=["samples", "chunks", "branches"],
)
def test_a_prompt_has_the_same_answers_in_any_batch(strategy: Strategy) -> None:
    run = replace(run_of(), strategy=strategy)
    whole = decode_run(Talking(TABLE), run, PROMPTS)
    for batch in (2, len(PROMPTS)):
        assert decode_run(Talking(TABLE), run, PROMPTS, batch=batch)["outputs"] == whole["outputs"]
    later = decode_run(Talking(TABLE), run, PROMPTS[3:], before=3)
    assert later["outputs"] == whole["outputs"][3:]


def test_of_processes_that_share_runs_one_takes_each(tmp_path: Path) -> None:
    run, other = run_of(), replace(run_of(), name="another")
    assert [claim(each, tmp_path / "valid") for each in (run, other, run)] == [True, True, False]
    assert claim(run, tmp_path / "test")
    write_run(Talking(TABLE), run, PROMPTS, tmp_path / "valid", lambda: None)
    assert (tmp_path / "valid" / run.file).exists()


@pytest.mark.parametrize(
    ("device", "expected"),
    [(None, {}), ("cpu", {}), ("cuda", {"device": "cuda", "dtype": torch.bfloat16})],
)
def test_on_a_gpu_everything_is_in_bfloat16(
    device: str | None, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def load(_: str, **options: Any) -> Any:
        asked.append(options)
        return SimpleNamespace(module=torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False)))

    monkeypatch.setattr("research.novelty.model.load", load)
    made = load_halved("folder", device)
    assert asked == [expected]
    assert isinstance(made.module[0], torch.nn.Linear) == bool(expected)


def test_other_prompts_are_for_choosing(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(entry) + "\n" for entry in PROMPTS[:5]))
    assert [entry["id"] for entry in prompts_of(file, "valid")] == ["p0", "p4", "p2"]
    assert [entry["id"] for entry in prompts_of(file, "test")] == ["p1", "p3"]


def test_settings_are_of_runs_that_there_are() -> None:
    model = WithVectors(TABLE)
    known, rows = runs(model), rows_of_table()
    assert {row.run for row in rows} == set(known)
    assert len({row.name for row in rows}) == len(rows)
    assert len({run.file for run in known.values()}) == len(known)
    assert sum(row.family == REFERENCE for row in rows) == 1


# Keeping eight


def alike(first: Hypothesis, second: Hypothesis) -> float:
    """Compare places on a line."""
    return 1 - abs(int(first.text or 0) - int(second.text or 0)) / 100


def test_farthest_first() -> None:
    found = [said(str(place)) for place in (50, 0, 10, 100, 95)]
    # 0 and 100 are equally far from 50; then 10 is 10 from 0, and 95 is 5 from 100.
    assert farthest(found, range(5), alike) == [0, 1, 3, 2, 4]
    assert farthest(found, [4, 2], alike) == [4, 2]


def test_likeliest_is_per_token() -> None:
    assert likeliest([said("", -3, 1), said("", -4, 4), said("", -2, 1)]) == [1, 2, 0]


def test_any_eight_are_the_same_eight_each_time() -> None:
    assert any_eight(32, "p1") == any_eight(32, "p1") != any_eight(32, "p2")
    assert len(set(any_eight(32, "p1"))) == KEPT


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("first", "0 1 2 3 4 5 6 7"),
        ("likeliest", "31 30 29 28 27 26 25 24"),
        ("farthest", "31 0 16 8 24 20 12 4"),
        ("farthest of the likelier", "31 16 24 20 28 26 22 18"),
    ],
)
def test_ways_to_keep_eight(way: str, expected: str) -> None:
    found = [said(str(place), -100.0 + place) for place in range(32)]
    kept = keep(Row(family="", run="", keep=way), found, "p1", alike)
    assert [int(each.text or 0) for each in kept] == [int(place) for place in expected.split()]


@pytest.mark.parametrize("way", ["dpp", "diverse-mbr"])
def test_without_weight_on_difference_selections_are_of_quality(way: str) -> None:
    found = [said(str(place), -100.0 + place) for place in range(32)]
    kept = keep(Row(family="", run="", keep=way, diversity=0.0), found, "p1", alike)
    # dpp takes the likeliest, diverse MBR those in the middle.
    middle = set(range(12, 20)) if way == "diverse-mbr" else set(range(24, 32))
    assert {int(each.text or 0) for each in kept} == middle


def test_an_unknown_way_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="no way to keep 'all'"):
        keep(Row(family="", run="", keep="all"), [said("a")], "p1", alike)


# Measures


QUESTION = "Name one of the rivers in the north of France."


@pytest.mark.parametrize(
    ("text", "finished", "expected"),
    [
        ("The Somme flows there.", True, True),
        ("The Somme flows", True, True),  # its own end
        ("The Somme flows there.", False, True),  # cut, but at the end of a sentence
        ('It is "the Somme."', False, True),
        ("The Somme flows", False, False),
        ("The Somme.", True, False),  # a stub
        ("one two three four " * 3, True, False),  # 5 of 9 were there before
        ("Name one of the rivers in the north of France.", True, False),
        ("rivers in the north", True, False),
        ("Name one of the rivers in the north: Somme.", True, False),  # 5 of its 6 are asked
        ("The river Somme flows in the north of France.", True, True),  # 2 of its 6
    ],
)
def test_sense_that_needs_no_judge(text: str, finished: bool, expected: bool) -> None:
    assert is_sensible(said(text, finished=finished), QUESTION) == expected


@pytest.mark.parametrize(
    ("text", "finished", "expected"),
    [
        ("The Somme flows there. So does", False, True),
        ("The Somme flows there so does", False, False),
        ('Is it "the Somme?" It may', False, True),
        ("The Somme. So does", False, False),  # what is left is a stub
        ("The Somme flows at 3.14 metres a", False, False),  # a point, but no end
        ("The Somme flows", True, True),
        ("The Somme", True, False),
    ],
)
def test_an_answer_that_is_cut_may_lose_its_last_sentence(text: str, finished: bool, expected: bool) -> None:
    assert is_readable(said(text, finished=finished), QUESTION) == expected


def test_parts_of_the_check() -> None:
    assert words_of("It's late, Tom!") == ["it's", "late", "tom"]
    assert is_whole(said("Why?)", finished=False))
    assert not is_whole(said("Why (", finished=False))
    assert not copies([], ["a"])
    assert not copies(["an"], ["a", "banana"])


DIRECTIONS = {
    "The Somme flows.": [1.0, 0.0],
    "It is the Oise.": [0.6, 0.8],  # cosine 0.6
    "It is the Aisne.": [0.75, math.sqrt(1 - 0.75**2)],  # 0.75 with the first
    "Oh": [0.0, 1.0],
    QUESTION: [0.0, 1.0],
}


def encode(texts: list[str]) -> Tensor:
    return torch.tensor([DIRECTIONS[text] for text in texts])


def test_a_list_by_hand() -> None:
    answers = [
        said("The Somme flows.", -2.0, 4),
        said("It is the Aisne.", -8.0, 4, finished=False),
        said("It is the Oise.", -1.0, 4),
        said("Oh", -1.0, 1),
    ]
    figures = Meter(encode, "made up").measure(answers, QUESTION)
    expected = {
        # By 0.8 the Oise is like the Aisne (0.98), and "Oh" like the Oise, which is not a first.
        "clusters_80": 3,
        "clusters_70": 2,  # by 0.7 the Aisne is like the Somme; the Oise is not, and "Oh" is like it
        "clusters_50": 2,  # by 0.5 all are like the Somme but "Oh"
        "sensible_80": 2,
        "sensible_70": 2,
        "sensible_50": 1,
        "readable_80": 2,
        "readable_50": 1,
        "passed": 3 / 4,
        "passed_readable": 3 / 4,
        "whole": 1,
        "loops": 0,
        "stubs": 1 / 4,
        "copies": 0,
        "log_prob_token": -(2 / 4 + 8 / 4 + 1 / 4 + 1) / 4,
        "log_prob_word": -(2 / 3 + 8 / 4 + 1 / 4 + 1) / 4,
        "relevance": (0 + math.sqrt(1 - 0.75**2) + 0.8 + 1) / 4,
        "entropy": -(0.5 * math.log(0.5) + 2 * 0.25 * math.log(0.25)),
        "tokens": 13 / 4,
        "answers": 4,
    }
    assert {name: figures[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_a_list_without_sense_has_no_clusters() -> None:
    figures = Meter(encode, "made up").measure([said("Oh"), said("Oh")], QUESTION)
    assert (figures["clusters_80"], figures["sensible_80"], figures["spread"]) == (1, 0, 0)


def test_texts_are_encoded_once() -> None:
    asked: list[str] = []

    def counting(texts: list[str]) -> Tensor:
        asked.extend(texts)
        return encode(texts)

    meter = Meter(counting, "made up")
    for _ in range(2):
        meter.measure([said("Oh"), said("The Somme flows.")], QUESTION)
    assert sorted(asked) == sorted(["Oh", "The Somme flows.", QUESTION])


def test_what_is_there_is_measured(tmp_path: Path) -> None:
    model, run = Talking(TABLE), replace(run_of(), strategy=Sampling(samples=9))
    write_run(model, run, PROMPTS, tmp_path, lambda: None)
    other = replace(run, name="not decoded")
    rows = [Row(family="a", run=run.name, keep=way) for way in ("first", "any 8")]
    rows.append(Row(family="b", run=other.name))
    meter = Meter(lambda texts: torch.eye(3)[[len(text) % 3 for text in texts]], "made up")
    known = {each.name: each for each in (run, other)}
    with Progress("measure").bar(3, shown=False) as bar:
        found = measure_all(tmp_path, rows, known, PROMPTS, meter, lambda a, b: 0.0, bar)
    whole, cheap = found["settings"].values()
    assert [whole["family"], cheap["keep"]] == ["a", "any 8"]
    assert len(whole["figures"]["clusters_80"]) == len(PROMPTS)
    assert cheap["cost"] < whole["cost"]
    lengths = sum(each for each in cheap["figures"]["tokens"]) / len(PROMPTS)
    assert cheap["cost"] == pytest.approx(1 + KEPT * (lengths - 1), abs=1e-2)


# The choice


def made_up(**settings: tuple[str, float, float, float]) -> dict[str, Any]:
    """Make results of a family, readable clusters, log-probability and the share that is readable."""
    return {
        "settings": {
            name: {
                "family": family,
                "cost": 10.0,
                "figures": {
                    "readable_50": [clusters - 1, clusters + 1],
                    "log_prob_token": [log_prob, log_prob],
                    "passed_readable": [passed, passed],
                },
            }
            for name, (family, clusters, log_prob, passed) in settings.items()
        }
    }


def result_of(prompts: list[str], **settings: float) -> dict[str, Any]:
    made = {
        name: {"family": name, "cost": value, "figures": {"vendi": [value] * len(prompts)}}
        for name, value in settings.items()
    }
    return {"encoder": "some", "prompts": prompts, "settings": made}


def test_settings_and_prompts_are_added_to_what_was_measured() -> None:
    before = result_of(["p0", "p4"], first=1.0, second=2.0)
    more = joined(before, result_of(["p0", "p4"], second=3.0, third=4.0))
    assert more == result_of(["p0", "p4"], first=1.0, second=3.0, third=4.0)
    longer = joined(before, result_of(["p2"], first=4.0, third=5.0))
    assert longer["prompts"] == ["p0", "p4", "p2"]
    assert list(longer["settings"]) == ["first"]  # the others are not known of all prompts
    assert longer["settings"]["first"]["cost"] == 2.0
    assert longer["settings"]["first"]["figures"] == {"vendi": [1.0, 1.0, 4.0]}
    with pytest.raises(ArgumentError, match="give --skip their number"):
        joined(before, result_of(["p4", "p2"], first=1.0))


def test_the_most_readable_clusters_at_the_quality_of_the_reference() -> None:
    results = made_up(
        nucleus=(REFERENCE, 4.0, -1.5, 0.8),
        low=("a", 3.0, -1.0, 0.9),
        best=("a", 5.0, -1.5, 0.8),
        unlikely=("a", 6.0, -1.6, 0.9),
        cut=("a", 7.0, -1.0, 0.77),
        close=("a", 5.5, -1.0, 0.785),
        hot=("b", 7.0, -3.0, 0.9),
        warm=("b", 6.0, -2.0, 0.9),
    )
    assert choose_settings(results) == {REFERENCE: "nucleus", "a": "close", "b": "warm"}
    good = [
        name
        for name, setting in results["settings"].items()
        if is_good_enough(setting, results["settings"]["nucleus"])
    ]
    assert good == ["nucleus", "low", "best", "close"]


def test_without_the_reference_nothing_is_chosen() -> None:
    with pytest.raises(ArgumentError, match="decode its run first"):
        choose_settings(made_up(low=("a", 3.0, -1.0, 0.9)))


# Tables


def measured() -> dict[str, Any]:
    """Make results of three settings and twenty prompts."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(20, generator=generator)
    names = list(Meter(encode, "made up").measure([said("Oh")], QUESTION))

    def setting(family: str, cost: float, shift: Tensor) -> dict[str, Any]:
        figures = {name: (noise + shift).tolist() for name in names}
        return {
            "family": family,
            "run": "",
            "keep": "first",
            "diversity": 0.5,
            "cost": cost,
            "figures": figures,
        }

    other = torch.randn(20, generator=generator)
    return {
        "prompts": [str(number) for number in range(20)],
        "settings": {
            "nucleus 0.9 x32; any 8": setting(REFERENCE, 100.0, torch.zeros(20)),
            "DBS hamming 3, 8 groups of 4": setting("DBS hamming, 8 x 4", 410.0, torch.full((20,), 0.5)),
            "noise": setting("noise", 90.0, other - other.mean() - 0.01),
        },
    }


def test_stars_mark_what_is_beyond_chance() -> None:
    _, _, reference, better, noise = answers_table(measured())
    assert r"\*" not in reference + noise
    assert better.count(r"\*") == 9
    assert "**DBS hamming, 8 x 4**" in better
    assert "| 4.1 " in better
    assert "| noise " in noise  # not bold: its answers are less likely than those of the reference
    _, _, reference, _, noise = answers_table(measured(), "DBS hamming, 8 x 4")
    assert reference.count(r"\*") == 9


def test_differences_have_intervals() -> None:
    head, _, better, noise = differences_table(measured())
    assert head.startswith("| minus nucleus 0.9, 8")
    assert r"+0.50 (+0.50 to +0.50)\*" in better
    assert "-0.01 (-0." in noise
    with pytest.raises(ArgumentError, match="there is no setting 'x'"):
        differences_table(measured(), "x")


def test_intervals_are_of_pairs() -> None:
    found = compare_figures([0.0, 10.0, 20.0], [1.0, 11.0, 21.0])
    assert (found.difference, found.low, found.high) == pytest.approx((1, 1, 1))
    apart = compare_figures([0.0, 10.0, 20.0], [10.0, 20.0, 0.0])
    assert apart.low < 0 < apart.high


def test_examples_are_one_line_each() -> None:
    answer = {"number": 1, "text": "A *red*\nboat", "finished": False, "readable": False}
    results = {"p1": {"prompt": "Why?", "answers": {"sampling": [answer]}}}
    assert examples_text(results) == ["**Why?**", "", "sampling:", "", r"1. A \*red\* boat … †", ""]
    assert examples_text(results, "p2") == []


def test_the_plot_has_a_line_for_each_family(tmp_path: Path) -> None:
    draw_novelty(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "test.json").write_text(json.dumps(measured()))
    draw_novelty(tmp_path)
    drawn = (tmp_path / "quality.svg").read_text(encoding="utf-8")
    assert all(family in drawn for family in (REFERENCE, "DBS hamming, 8 x 4", "noise"))


def test_every_family_has_a_look() -> None:
    families = {row.family for row in rows_of_table()}
    assert [family for family in families if "marker" not in look_of(family)] == []


# Pronunciations


def test_coverage_of_lists_and_of_samples() -> None:
    lists = [list("xaxxxxxx"), list("aabxxxxx")]
    right = [{"a", "b"}, {"a", "b", "c"}]
    ordered, drawn = (figures_of_words(lists, right, samples) for samples in (False, True))
    assert ordered["coverage@1"] == [0, 1]
    assert ordered["coverage@2"] == [1, 1]
    assert drawn["coverage@1"] == [1 / 8, 3 / 8]
    assert drawn["coverage@2"] == pytest.approx([1 / 4, 1 - 10 / 28], abs=1e-4)
    assert ordered["found"] == pytest.approx([1 / 2, 2 / 3], abs=1e-4)
    assert ordered["different"] == [2, 3]


def test_words_are_for_choosing_or_for_reporting() -> None:
    words = [str(number) for number in range(900)]
    valid, test = (words_of_part(words, part) for part in ("valid", "test"))
    assert not set(valid) & set(test)
    assert len(valid) == len(test) == 450


def test_the_ways_with_the_most_coverage_are_chosen() -> None:
    names = [(way.family, way.name) for way in ways()]
    assert len(set(names)) == len(names)
    assert names[0][0] == "beam search"
    settings = {
        name: {"family": family, "name": name, "cost": 8.0, "figures": figures(value)}
        for family, name, value in (("beam search", "a", 0.5), ("DBS", "b", 0.1), ("DBS", "c", 0.2))
    }
    results = {"ks": list(KS), "settings": settings}
    assert choose_ways(results) == {"beam search": "a", "DBS": "c"}
    *_, last = ways_table(results)
    assert last.count(r"\*") == len(KS) + 2


def figures(value: float) -> dict[str, list[float]]:
    return {name: [value] * 3 for name in (*(f"coverage@{k}" for k in KS), "found", "different")}


def test_tables_have_names() -> None:
    assert all(KINDS)
