"""Options for how to search are spelled as in `translate`, and lists are kept apart by all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from beamsplit import cli
from evaluation.small import figures_of, refusal, said, write_lines, write_numbers
from evaluation.test_running import Ending

TASK = ("--task", "mine.txt", "--model", "en-fr")
BOTH = (*TASK, "--strategies", "bs,dbs")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("I'm cold.\nWhere are you?\n", encoding="utf-8")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    return json.loads(said(capsys, *BOTH, "--json", *options))


def dbs(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    return found(capsys, *options)["methods"]["dbs"]


# Widths, strength and term


def test_short_names(capsys: pytest.CaptureFixture[str]) -> None:
    short = found(capsys, "-g", "2", "-b", "3", "-s", "1.5", "-d", "cumulative:temperature=2")
    about = short["methods"]["dbs"]
    assert about["settings"] == {"groups": 2, "beams_per_group": 3, "strength": 1.5}
    assert about["diversity"] == {"term": "cumulative", "temperature": 2}
    assert short["methods"]["bs"]["settings"] == {"beams": 6}
    words = ("--beams", "6", "--groups", "2", "--strength", "1.5", "--diversity", "cumulative:temperature=2")
    assert found(capsys, *words) == short


@pytest.mark.parametrize(
    ("options", "groups", "per_group"),
    [
        (("--beams", "6"), 6, 1),
        (("--beams", "6", "-g", "3"), 3, 2),
        (("--beams", "6", "-b", "3"), 2, 3),
        (("-g", "2", "-b", "2"), 2, 2),
        (("--beams", "4", "-g", "2", "-b", "2"), 2, 2),
        (("-b", "10"), 2, 10),  # of 20
    ],
)
def test_widths(
    options: tuple[str, ...], groups: int, per_group: int, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = dbs(capsys, *options)["settings"]
    assert (settings["groups"], settings["beams_per_group"]) == (groups, per_group)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--beams", "6", "-g", "2", "-b", "2"),
            "--groups 2 and --beams-per-group 2 make 4 outputs, and --beams is 6: leave one of the three out",
        ),
        (("--beams", "6", "-b", "4"), "6 beams cannot be divided into groups of 4: give --groups"),
        (("-b", "0"), "beams_per_group must be a whole number of at least 1, not 0"),
        (("-g", "0", "-b", "1"), "groups must be a whole number of at least 1, not 0"),
    ],
)
def test_widths_that_do_not_fit(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *BOTH, *options) == message


@pytest.mark.parametrize("term", ["cumul", "cumulative:temp=2", "cumulative:temperature", "ngram:n=0", ""])
def test_a_term_is_refused_in_the_words_of_translate(term: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate", "Hello.", "-d", term]) == 2
    translate = capsys.readouterr().err.removeprefix("beamsplit: ").rstrip("\n")
    assert refusal(capsys, *BOTH, "-d", term) == translate
    assert translate.startswith("diversity")


def test_a_strength_is_refused_in_the_words_of_translate(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate", "Hello.", "-s", "-1"]) == 2
    translate = capsys.readouterr().err.removeprefix("beamsplit: ").rstrip("\n")
    assert refusal(capsys, *BOTH, "-s", "-1") == translate
    assert translate == "strength must be a finite number of 0 or more, not -1.0"


@pytest.mark.parametrize("option", [("-s", "1"), ("-d", "hamming")])
def test_a_penalty_is_refused_where_no_strategy_has_one(
    option: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    name = {"-s": "--strength", "-d": "--diversity"}[option[0]]
    also = "branching, chunks, " if name == "--strength" else ""  # which have a strength and no term
    told = f"{name} is for dbs, {also}divmbest, diverse-sampling and diverse-arithmetic, and the"
    assert refusal(capsys, *TASK, "--strategies", "bs", *option) == f"{told} strategy is bs"
    assert refusal(capsys, *TASK, "--strategies", "bs,mmi", *option) == f"{told} strategies are bs, mmi"


def test_what_strategies_are_given_needs_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, *TASK, "-b", "2") == "--beams-per-group is for --strategies, which is not given"


def completed(command: str, option: str, incomplete: str) -> list[str]:
    """What a shell is offered after an option."""
    complete = ShellComplete(cli.program, {}, "beamsplit", "_BEAMSPLIT_COMPLETE")
    return [item.value for item in complete.get_completions([*command.split(), option], incomplete)]


@pytest.mark.parametrize("command", ["translate", "evaluate", "study create pilot.db"])
@pytest.mark.parametrize("option", ["--diversity", "-d"])
def test_shells_complete_terms(command: str, option: str) -> None:
    assert completed(command, option, "cu") == ["cumulative"]


def test_shells_complete_the_last_of_several_strategies() -> None:
    assert completed("evaluate", "--strategies", "bs,nu") == ["bs,nucleus"]
    assert "dbs" in completed("evaluate", "--strategies", "d")


def test_help_says_how_a_term_is_spelled(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("translate", "evaluate", "study create"):
        cli.main([*command.split(), "--help"])
        shown = " ".join(capsys.readouterr().out.split())
        assert "settings follow a colon, as in cumulative:temperature=2" in shown


# Repeats


def test_unique_is_for_all_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    plain, unique = found(capsys, "--beams", "4"), found(capsys, "--beams", "4", "--unique")
    assert plain["figures"]["unique"]["dbs"]["value"] < 0.8
    assert all(about["unique"] is True for about in unique["methods"].values())
    assert unique["figures"]["unique"]["dbs"]["value"] == 1
    assert unique["figures"]["unique"]["bs"] == plain["figures"]["unique"]["bs"]


def test_the_hint_about_repeats_can_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "`--unique`" in said(capsys, *BOTH, "--beams", "4")
    assert "repeat themselves" not in said(capsys, *BOTH, "--beams", "4", "--unique")


TOML = '[methods.BS]\nstrategy = "bs"\nbeams = 2\n[methods.DBS]\nstrategy = "dbs"\ngroups = 2\n'


def test_unique_goes_before_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(folder / "a.jsonl", *({"id": n, "hypotheses": ["a"]} for n in range(2)))
    text = f'task = "mine.txt"\nmodel = "en-fr"\n{TOML}[methods.A]\nfile = "a.jsonl"\n'
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    methods = json.loads(said(capsys, "mine.toml", "--unique", "--json"))["methods"]
    assert {name: about.get("unique") for name, about in methods.items()} == {
        "BS": True,
        "DBS": True,
        "A": None,
    }
    assert refusal(capsys, "--task", "mine.txt", "--lists", "A=a.jsonl", "--unique") == (
        "--unique is for methods that decode, and all of these are lists in files"
    )


# Temperature


def test_a_temperature_of_the_model_is_for_all_strategies(capsys: pytest.CaptureFixture[str]) -> None:
    plain, soft = found(capsys, "--beams", "4"), found(capsys, "--beams", "4", "--model-temperature", "2")
    assert all("model_temperature" not in about for about in plain["methods"].values())
    assert all(about["model_temperature"] == 2 for about in soft["methods"].values())
    assert soft["figures"]["unique"]["dbs"]["value"] > plain["figures"]["unique"]["dbs"]["value"]
    # The likelihood is the model's own: about that of what it finds itself, and no higher.
    likely, less = (each["figures"]["top_log_prob"]["bs"]["value"] for each in (plain, soft))
    assert likely - 1 < less <= likely


def test_a_temperature_of_the_model_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, *BOTH, "--model-temperature", "0") == (
        "methods.bs in the command: model_temperature must be a finite number above 0, not 0.0"
    )


# Lengths


def test_outputs_are_at_least_so_long(capsys: pytest.CaptureFixture[str]) -> None:
    plain, long = found(capsys, "--beams", "2"), found(capsys, "--beams", "2", "--min-length", "12")
    assert "min_length" not in plain
    assert long["min_length"] == 12
    for name in ("bs", "dbs"):
        words = [each["figures"]["length"][name]["value"] for each in (plain, long)]
        assert words[0] < words[1]
    assert "Outputs have at least 12 tokens." in said(capsys, *BOTH, "--beams", "2", "--min-length", "12")
    assert "at least" not in said(capsys, *BOTH, "--beams", "2", "--unique")


def ending(folder: Path, model: Any, **changes: Any) -> dict[str, Any]:
    content = {
        "task": write_numbers(folder),
        "model": "mine",
        "max_length": 5,
        "lists": ["length"],
        "methods": {"BS": {"strategy": "bs", "beams": 1}},
        **changes,
    }
    return figures_of(folder, content, model)


class Long(Ending):
    """The same, but anything may follow anything: outputs need not end where they like to."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ((self.table.exp() + 0.01) / 1.04).log()


def test_lists_of_another_length_are_not_taken_from_the_cache(folder: Path) -> None:
    lengths = [ending(folder, Long(), min_length=n)["figures"]["length"]["BS"]["value"] for n in (0, 3, 0, 3)]
    assert lengths[0] == lengths[2] < lengths[1] == lengths[3]
    files = list((folder / "cache").glob("*.jsonl"))
    about = [json.loads(file.read_text(encoding="utf-8").splitlines()[0]) for file in files]
    assert sorted(each.get("min_length", 0) for each in about) == [0, 3]


def test_lists_from_before_there_was_a_least_length_are_still_found(folder: Path) -> None:
    ending(folder, Long())
    (file,) = (folder / "cache").glob("*.jsonl")
    settings = {"strategy", "settings", "diversity", "mmi", "max_length", "seed"}
    about = json.loads(file.read_text(encoding="utf-8").splitlines()[0])
    assert set(about) == {"model", "beamsplit", *settings}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--min-length", "61"), "min_length in the command is 61, and max_length is 60: give a smaller "),
        (("--min-length", "6", "--max-length", "5"), "min_length in the command is 6, and max_length is 5: "),
    ],
)
def test_lengths_that_no_output_has(
    given: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, *BOTH, *given).startswith(message)


def test_the_file_of_an_experiment_has_it_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f'task = "mine.txt"\nmodel = "en-fr"\nmin_length = 12\n{TOML}'
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    assert json.loads(said(capsys, "mine.toml", "--json"))["min_length"] == 12
    assert json.loads(said(capsys, "mine.toml", "--min-length", "9", "--json"))["min_length"] == 9
    (folder / "mine.toml").write_text(text.replace("12", "-1"), encoding="utf-8")
    assert refusal(capsys, "mine.toml") == (
        "min_length in mine.toml must be a whole number of at least 0, not -1"
    )


def test_cost_is_that_of_outputs_so_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    monkeypatch.setattr("beamsplit.evaluation.cost.decode", lambda *_, **options: given.append(options))
    ending(folder, Long(), min_length=2, cost={"turns": 1})
    assert {(each["min_length"], each["max_length"]) for each in given} == {(2, 5)}


@pytest.mark.parametrize(
    "command",
    ["translate", "caption", "ask", "generate", "decode", "evaluate", "tune", "study create"],
)
def test_every_command_that_decodes_takes_a_least_length(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main([*command.split(), "--help"])
    assert "--min-length N" in capsys.readouterr().out
