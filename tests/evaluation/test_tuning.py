"""The search for settings: the choice on made-up figures, and all of it with the translator that ships."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from beamsplit import DiverseBeamSearch, cli
from beamsplit.errors import ArgumentError
from beamsplit.evaluation import RunSettings, experiment_of, recommending, tuning
from beamsplit.evaluation.methods import Method
from beamsplit.evaluation.tuning import Point, Tuning, choose, front
from beamsplit.extras import install_line
from beamsplit.jobs.batches import decode_in_batches
from beamsplit.models import load
from beamsplit.testing import MarkovModel

SENTENCES = {
    "I'm cold.": ["J'ai froid."],
    "You look tired.": ["Tu as l'air fatigué.", "Vous avez l'air fatiguée."],
    "Where are you?": ["Où es-tu ?", "Où êtes-vous ?"],
}
DECODE = "beamsplit.evaluation.decoding.decode_in_batches"
COMMAND = ["tune", "--task", "valid.jsonl", "--model", "en-fr", "--beams", "4", "--max-length", "12"]
FIRST = {
    "strategy": "dbs",
    "groups": 4,
    "beams_per_group": 1,
    "strength": 0.5,
    "diversity": {"term": "hamming"},
}


def point(quality: float, diversity: float, name: str = "") -> Point:
    return Point({"strategy": "dbs", "name": name or f"{quality}, {diversity}"}, quality, diversity)


BEAM = point(50.0, 0.2)


# The choice


def test_the_front_has_what_no_other_beats() -> None:
    best, middle, diverse = point(52, 0.3), point(49, 0.5), point(40, 0.7)
    worse, as_good_but_less_diverse, as_diverse_but_worse = point(45, 0.4), point(52, 0.2), point(39, 0.7)
    points = [worse, diverse, as_good_but_less_diverse, best, as_diverse_but_worse, middle]
    assert front(points) == [best, middle, diverse]


def test_of_equals_the_front_has_the_first() -> None:
    assert front([point(50, 0.5, "a"), point(50, 0.5, "b")]) == [point(50, 0.5, "a")]


@pytest.mark.parametrize(
    ("target", "keep", "expected"),
    [
        ("quality", 0.98, (52, 0.3)),
        ("diversity", 0.98, (49, 0.5)),  # 98% of 50 is 49, which is enough
        ("diversity", 0.981, (52, 0.3)),
        ("diversity", 0.5, (30, 0.7)),
        ("balance", 0.98, (30, 0.7)),  # -40% +250% against -2% +150% and +4% +50%
    ],
)
def test_targets(target: str, keep: float, expected: tuple[float, float]) -> None:
    points = [point(52, 0.3), point(49, 0.5), point(30, 0.7)]
    assert choose(points, BEAM, target, keep) == (point(*expected), "")


def test_balance_is_of_relative_gains() -> None:
    # -10% +50% is more than -60% +90%, though the sum of plain gains is not.
    assert choose([point(45, 0.3), point(20, 0.38)], BEAM, "balance", 0.98)[0] == point(45, 0.3)


@pytest.mark.parametrize(
    ("target", "better"),
    [("quality", point(52, 0.4)), ("diversity", point(51, 0.5))],
)
def test_ties_are_broken_by_the_other_figure(target: str, better: Point) -> None:
    other = point(52, 0.3) if target == "quality" else point(50, 0.5)
    assert choose([other, better], BEAM, target, 0.98)[0] == better


@pytest.mark.parametrize(
    ("target", "points", "nearest", "note"),
    [
        ("quality", [(40, 0.5), (45, 0.4)], (45, 0.4), "No setting is better than beam search"),
        (
            "diversity",
            [(40, 0.5), (45, 0.4)],
            (45, 0.4),
            "No setting is more diverse than beam search and keeps 0.98 of its quality",
        ),
        (
            "diversity",  # one is good enough, but all the same
            [(40, 0.5), (50, 0.1)],
            (50, 0.1),
            "No setting is more diverse than beam search and keeps 0.98 of its quality",
        ),
        (
            "balance",  # -40% +20%, -20% +10%
            [(30, 0.24), (40, 0.22)],
            (40, 0.22),
            "No setting gains more than it loses, compared with beam search",
        ),
    ],
)
def test_nothing_suits(
    target: str, points: list[tuple[float, float]], nearest: tuple[float, float], note: str
) -> None:
    found = choose([point(*each) for each in points], BEAM, target, 0.98)
    assert found == (point(*nearest), f"{note}. The one that is recommended comes closest.")


def test_as_good_as_beam_search_and_more_diverse_suits() -> None:
    assert choose([point(50, 0.3)], BEAM, "quality", 0.98)[1] == ""


def test_no_gain_is_relative_to_nothing() -> None:
    with pytest.raises(ArgumentError, match=r"a figure of 0, .*: take another target"):
        choose([point(50, 0.3)], point(50, 0.0), "balance", 0.98)


# The search


def searched(trials: int, **asked: Any) -> list[Point]:
    """With figures that cost nothing: quality wants few groups, diversity strength."""

    def measure(_: str, setting: recommending.Setting) -> Point:
        return Point(setting, -setting["groups"], setting["strength"])

    asked = {"task": "", "model": "", "beams": 12, **asked}
    terms = asked.pop("terms", ("hamming", "cumulative", "ngram"))
    return tuning._search(Tuning(**asked, trials=trials), terms, measure)


def test_settings_differ_and_groups_divide_the_beams() -> None:
    settings = [each.setting for each in searched(40)]
    assert [each["strength"] for each in settings[:3]] == [0.5, 0.2, 0.8]
    assert all((each["groups"], each["diversity"]) == (12, {"term": "hamming"}) for each in settings[:3])
    assert len({json.dumps(each) for each in settings}) == 40
    assert all(each["groups"] * each["beams_per_group"] == 12 and each["groups"] > 1 for each in settings)
    assert {each["diversity"]["term"] for each in settings} == {"hamming", "cumulative", "ngram"}
    for each in settings:
        term = dict(each["diversity"])
        told = {"hamming": set(), "cumulative": {"temperature"}, "ngram": {"n"}}[term.pop("term")]
        assert set(term) == told


def test_the_search_learns() -> None:
    """Two groups, the strongest there is, are the best in both: later settings are nearer to that."""
    found = [each.setting for each in searched(60)]
    early, late = found[3:23], found[-20:]
    assert sum(each["groups"] for each in late) < sum(each["groups"] for each in early)
    assert sum(each["strength"] for each in late) > sum(each["strength"] for each in early)


def test_a_seed_is_a_search() -> None:
    assert searched(15) == searched(15)
    assert searched(15, seed=1) != searched(15)


def test_without_hamming_the_first_term_is_tried_first() -> None:
    assert searched(1, terms=("ngram",))[0].setting["diversity"] == {"term": "ngram", "n": 2}


def test_one_number_of_groups_is_enough() -> None:
    assert {each.setting["groups"] for each in searched(5, beams=7)} == {7}


def test_the_embedding_term_is_for_those_who_ask_for_it() -> None:
    asked: dict[str, Any] = {"task": "valid.jsonl", "model": "en-fr"}
    assert tuning._terms(Tuning(**asked), load("en-fr")) == ["hamming", "cumulative", "ngram"]
    assert tuning._terms(Tuning(**asked, terms=("embedding",)), load("en-fr")) == ("embedding",)


def test_a_model_without_vectors_does_without_the_embedding_term(tmp_path: Path) -> None:
    file = tmp_path / "numbers.jsonl"
    file.write_text('{"input": 0, "references": ["1 2"]}\n', encoding="utf-8")
    model = MarkovModel(torch.tensor([[0.1, 0.7, 0.2], [0.3, 0.1, 0.6], [0.8, 0.15, 0.05]]).log())
    asked: dict[str, Any] = {"task": str(file), "model": "mine", "beams": 4, "max_length": 3}
    settings = RunSettings(cache=tmp_path / "cache")
    found = tuning.tune(Tuning(**asked, trials=12), settings, model)
    terms = {each["setting"]["diversity"]["term"] for each in found["trials"]}
    assert terms == {"hamming", "cumulative", "ngram"}
    message = "the term 'embedding' needs word vectors, and MarkovModel has none: leave it out"
    with pytest.raises(ArgumentError, match=message):
        tuning.tune(Tuning(**asked, terms=("hamming", "embedding")), settings, model)


# What is printed of a setting


@pytest.mark.parametrize(
    "diversity",
    [
        {"term": "hamming"},
        {"term": "cumulative", "temperature": 2.5},
        {"term": "ngram", "n": 3},
        {"term": "embedding"},
    ],
)
def test_toml_and_python_say_the_same(diversity: dict[str, Any]) -> None:
    model = load("en-fr")
    setting = {**FIRST, "groups": 2, "beams_per_group": 2, "strength": 1.2, "diversity": diversity}
    table = tomllib.loads(recommending.setting_toml(setting))
    (method,) = experiment_of({"task": "mine.jsonl", "model": "en-fr", **table}).methods
    assert isinstance(method, Method)
    assert table == {"methods": {"DBS": setting}}
    made, names = method.spec.make(model), dict[str, Any](model=model)
    asked = Tuning(task="mine.jsonl", model="en-fr", beams=4)
    exec(recommending.setting_python(setting, asked, None, loads=False), names)
    assert isinstance(made, DiverseBeamSearch)
    assert repr(made) == repr(names["strategy"])


# All of it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"input": text, "references": refs}) for text, refs in SENTENCES.items()]
    (tmp_path / "valid.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def results(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    assert cli.main([*COMMAND, "--json", *options]) == 0
    printed = capsys.readouterr()
    assert "A new study" not in printed.err  # Optuna's log
    return json.loads(printed.out)


@pytest.mark.usefixtures("folder")
def test_results(capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, "--trials", "5", "--k", "3")
    assert (found["items"], found["refused"]) == (3, 0)
    assert found["figures"] == ["oracle_sentence_bleu@3", "list_distinct_2"]
    assert set(found["signatures"]) == set(found["figures"])
    assert found["trials"][0]["setting"] == FIRST
    assert len(found["trials"]) == 5
    assert all(each in found["trials"] for each in found["front"])
    chosen, beam = found["recommended"], found["beam_search"]
    assert chosen["quality"] == max(each["quality"] for each in found["trials"])
    for name, against in chosen["against_beam_search"].items():
        assert against["difference"] == pytest.approx(chosen[name] - beam[name])
        assert against["low"] <= against["difference"] <= against["high"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [(), ("--unique", "--min-length", "3", "--terms", "cumulative")])
def test_what_is_recommended_runs_as_it_is_printed(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """The command finds the figures that were promised, and the lines of Python the same lists."""
    asked = ("--trials", "3", "--limit", "3", *options)
    chosen = results(capsys, *asked)["recommended"]
    assert cli.main([*COMMAND, *asked]) == 0
    shown = capsys.readouterr().out
    command = shlex.split(shown.split("```sh\n")[1].split("```")[0])
    assert command[0] == "beamsplit"
    assert cli.main([*command[1:], "--json", "--show", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figures"]["oracle_sentence_bleu@4"]["dbs"]["value"] == chosen["quality"]
    assert found["figures"]["list_distinct_2"]["dbs"]["value"] == chosen["diversity"]
    names: dict[str, Any] = {}
    exec(shown.split("```python\n")[1].split("```")[0], names)
    texts = [line["text"] for line in found["examples"][0]["lists"]["dbs"]]
    assert list(names["lists"][0].texts) == texts


def test_a_command_has_what_its_data_and_device_need() -> None:
    asked = Tuning(task="coco.valid", model="my model.py:make", beams=4, k=2)
    settings = RunSettings(data="my data", device="cuda:1")
    words = shlex.split(recommending.setting_command(FIRST, asked, settings))
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert given["--data"] == "my data"
    assert given["--device"] == "cuda:1"
    assert given["--model"] == "my model.py:make"
    assert (given["--k"], given["--metrics"], given["-g"], given["-b"]) == ("2", "bleu", "4", "1")


@pytest.mark.usefixtures("folder")
def test_all_settings_leave_repeats_out_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, "--trials", "2", "--unique", "--min-length", "2")
    assert all(each["setting"]["unique"] for each in (*found["trials"], found["beam_search"]))
    assert tomllib.loads(found["recommended"]["toml"])["methods"]["DBS"]["unique"] is True
    assert (found["max_length"], found["min_length"]) == (12, 2)
    assert "unique" not in results(capsys, "--trials", "1")["trials"][0]["setting"]


def test_references_are_needed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bare.jsonl").write_text('{"input": "I\'m cold."}\n', encoding="utf-8")
    (folder / "bare.txt").write_text("I'm cold.\n", encoding="utf-8")
    for name in ("bare.jsonl", "bare.txt"):
        assert cli.main([*COMMAND, "--task", name]) == 2
        assert capsys.readouterr().err == (
            f"beamsplit: {name} has no references, which quality is measured by: give references; "
            "beamsplit evaluate compares settings by their diversity alone\n"
        )


@pytest.mark.usefixtures("folder")
def test_all_trials_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, "--trials", "3")
    assert cli.main([*COMMAND, "--trials", "3", "--format", "csv"]) == 0
    beam, *rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (beam["strategy"], beam["groups"], beam["beams_per_group"]) == ("bs", "1", "4")
    assert [float(row["oracle_sentence_bleu@4"]) for row in rows] == [
        each["quality"] for each in found["trials"]
    ]
    assert [row["strength"] for row in rows] == ["0.5", "0.2", "0.8"]
    (chosen,) = (row for row in rows if row["recommended"] == "True")
    assert chosen["on_front"] == "True"
    assert float(chosen["strength"]) == found["recommended"]["setting"]["strength"]


@pytest.mark.usefixtures("folder")
def test_the_front_as_latex(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, "--trials", "2", "--format", "latex"]) == 0
    shown = capsys.readouterr().out
    assert "\\caption{Diverse Beam Search, tuned for quality: settings that no other beats.}" in shown
    assert '% [methods.DBS]\n% strategy = "dbs"\n' in shown


def test_the_figures_are_those_of_an_experiment(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = results(capsys, "--trials", "1", "--k", "3", "--diversity-metric", "vendi")
    file = folder / "confirm.toml"
    head = 'task = "valid.jsonl"\nmodel = "en-fr"\nmetrics = ["bleu"]\noracle = [3]\nmax_length = 12\n'
    file.write_text(head + found["recommended"]["toml"], encoding="utf-8")
    assert cli.main(["evaluate", str(file), "--json", "--draws", "10"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["oracle_sentence_bleu@3"]["DBS"]["value"] == found["recommended"]["quality"]
    assert figures["vendi"]["DBS"]["value"] == found["recommended"]["diversity"]


@pytest.mark.usefixtures("folder")
def test_a_second_run_decodes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = results(capsys, "--trials", "4")

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(DECODE, never)
    assert results(capsys, "--trials", "4") == first


@pytest.mark.usefixtures("folder")
def test_a_run_that_was_stopped_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []

    def stopped(model: Any, inputs: Any, strategy: Any, **options: Any) -> Any:
        if len(decoded) == 3:
            raise KeyboardInterrupt
        decoded.append(strategy)
        return decode_in_batches(model, inputs, strategy, **options)

    def counted(model: Any, inputs: Any, strategy: Any, **options: Any) -> Any:
        decoded.append(strategy)
        return decode_in_batches(model, inputs, strategy, **options)

    monkeypatch.setattr(DECODE, stopped)
    assert cli.main([*COMMAND, "--trials", "4"]) == 130
    monkeypatch.setattr(DECODE, counted)
    found = results(capsys, "--trials", "4")
    assert len(decoded) == 5  # beam search and four settings, each once
    assert [each["setting"]["strength"] for each in found["trials"][:3]] == [0.5, 0.2, 0.8]


def test_files_and_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, "--trials", "2", "--limit", "2", "--out", "out", "--target", "diversity"]) == 0
    shown = capsys.readouterr().out
    assert (folder / "out" / "tune.md").read_text(encoding="utf-8") == shown
    found = json.loads((folder / "out" / "tune.json").read_text(encoding="utf-8"))
    lines = shown.splitlines()
    assert lines[0] == (
        "## Diverse Beam Search, tuned for diversity that keeps 0.98 of beam search's quality"
    )
    assert lines[2].startswith(
        "2 inputs of valid.jsonl, model en-fr. 2 settings were tried. The table shows "
    )
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    assert cells[0] == ["", "BLEU @4", "distinct-2"]
    assert cells[2][0] == "beam search"
    strength = found["recommended"]["setting"]["strength"]
    marked = [row[0] for row in cells if "recommended" in row[0]]
    assert marked == [f"hamming, 4 groups of 1, strength {strength} (recommended)"]
    toml = shown.split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(toml)["methods"]["DBS"] == found["recommended"]["setting"]
    assert "compare it with beam search on other inputs" in shown
    written = sorted(path.name for path in (folder / "out").iterdir())
    assert written == ["tune.csv", "tune.json", "tune.md", "tune.tex"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--task", "none.jsonl"), "none.jsonl cannot be read: "),
        (("--model", "en-de"), "there is no model 'en-de'"),
        (("--beams", "1"), "beams must be a whole number of at least 2, not 1"),
        (("--trials", "0"), "trials must be a whole number of at least 1, not 0"),
        (("--k", "5"), "k is 5, and lists are of 4: give 1 to 4"),
        (("--metric", "bluee"), "there is no metric 'bluee': there are bleu, chrf, "),
        (
            ("--diversity-metric", "distinct-0"),
            "there is no diversity metric 'distinct-0': there are distinct-1 ",
        ),
        (("--target", "best"), "there is no target 'best': there are quality, diversity, balance"),
        (("--keep", "0.9"), "keep is for the target 'diversity', not 'quality': leave it out"),
        (("--target", "diversity", "--keep", "98"), "keep must be above 0 and at most 1, not 98"),
        (
            ("--terms", "hamming,cumulative:temperature=2"),
            "terms has 'cumulative:temperature=2': give 'cumulative' alone, since its settings are what is "
            "searched for",
        ),
        (
            ("--min-length", "13"),
            "min_length in tuning is 13, and max_length is 12: give a smaller min_length",
        ),
        (("--terms", "hamming,hammer"), "there is no term 'hammer': there are hamming, cumulative, "),
        (("--max-length", "0"), "max_length in tuning must be a whole number of at least 1, not 0"),
    ],
)
def test_refused(options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*COMMAND, *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("beamsplit: ")
    assert message in error


@pytest.mark.usefixtures("folder")
def test_without_optuna(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert cli.main(COMMAND) == 2
    assert capsys.readouterr().err == f"beamsplit: tuning needs optuna: {install_line('evaluate')}\n"
