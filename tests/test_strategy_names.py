"""The registry of strategies: short names, what they stand for, and the one table of defaults."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit import (
    ArgumentError,
    ArithmeticSampling,
    BeamSearch,
    Cumulative,
    DiverseArithmeticSampling,
    DiverseBeamSearch,
    DiverseChunks,
    DiverseSampling,
    DiverseSiblings,
    DivMBest,
    LateBranching,
    NGram,
    Plan,
    Sampling,
    StochasticBeamSearch,
    Strategy,
    cli,
    decode,
    strategies,
)
from beamsplit.models import load
from beamsplit.strategies.defaults import DEFAULTS, MODEL_KINDS, default_strategy, defaults_of
from beamsplit.strategies.names import STRATEGIES, StrategyEntry, own_settings, strategy_class
from beamsplit.strategies.spec import StrategySpec, Widths, strategy_named_by, table_of_widths
from beamsplit.testing import MarkovModel

WIDTHS = Widths(groups=3, beams_per_group=2, strength=0.7, diversity="ngram:n=2")
SIX = Widths(groups=6, beams_per_group=1, strength=0.5, diversity="hamming")
EXPECTED: dict[str, Strategy] = {
    "bs": BeamSearch(beams=6),
    "dbs": DiverseBeamSearch(groups=3, beams_per_group=2, strength=0.7, diversity=NGram(n=2)),
    "branching": LateBranching(outputs=6),
    "siblings": DiverseSiblings(beams=6, rate=0.5),
    "mmi": BeamSearch(beams=6),
    "divmbest": DivMBest(runs=6, beams=2, strength=0.7, diversity=NGram(n=2)),
    "sampling": Sampling(samples=6),
    "nucleus": Sampling(samples=6, top_p=0.9),
    "diverse-sampling": DiverseSampling(groups=3, samples_per_group=2, strength=0.7, diversity=NGram(n=2)),
    "arithmetic": ArithmeticSampling(samples=6),
    "diverse-arithmetic": DiverseArithmeticSampling(
        groups=3, samples_per_group=2, strength=0.7, diversity=NGram(n=2)
    ),
    "stochastic": StochasticBeamSearch(beams=6),
    "chunks": DiverseChunks(groups=6),
}


@pytest.fixture
def markov() -> MarkovModel:
    return MarkovModel(torch.ones(3, 3).log_softmax(1))


def spec(name: str = "dbs", widths: Widths = SIX, **settings: Any) -> StrategySpec:
    return StrategySpec.of_widths(name, widths, settings)


# Names


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_name_is_a_strategy(name: str, markov: MarkovModel) -> None:
    made = spec(name, WIDTHS)
    assert made.make(markov) == EXPECTED[name]
    assert made.outputs == 6
    assert made.title.startswith(STRATEGIES[name].title)
    assert (made.mmi is not None) == (name == "mmi")


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_table_of_widths_is_what_a_file_would_say(name: str) -> None:
    assert StrategySpec.of_table(table_of_widths(name, WIDTHS)) == spec(name, WIDTHS)


@pytest.mark.parametrize("name", STRATEGIES)
def test_those_that_sample_are_those_that_a_seed_changes(name: str) -> None:
    model = load("captioner")
    torch.manual_seed(0)
    features = torch.randn(2, 1280).abs()
    made = spec(name, replace(WIDTHS, groups=2))
    strategy, guided = made.make(model), made.guide(model)
    lists = [decode(guided, features, strategy, max_length=5, seed=seed) for seed in (0, 1)]
    assert made.samples == (lists[0] != lists[1])


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_registry_says_of_each_what_its_class_has(name: str) -> None:
    entry, made = STRATEGIES[name], spec(name, WIDTHS)
    known = {*vars(made.make(load("en-fr")))}
    assert entry.diverse == ({"strength", "diversity"} <= known)
    one_of_each_group = entry.width == "groups" and not entry.per_group
    assert bool(entry.per_group) == ("groups" in known and not one_of_each_group)
    assert one_of_each_group == (name == "chunks")
    assert {entry.width, *entry.preset} <= known


def test_the_registry_has_every_strategy_of_the_package() -> None:
    registered = {strategy_class(name).__name__ for name in STRATEGIES}
    assert registered == set(strategies.__all__) - {"Strategy"}
    assert registered <= set(beamsplit.__all__)


def test_names_and_defaults_need_no_torch() -> None:
    program = (
        "import sys; from beamsplit.strategies import defaults, names, spec; print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@dataclass(frozen=True, kw_only=True)
class Toy:
    """Beam search by another name."""

    beams: int
    twice: bool = False

    def plan(self) -> Plan:
        return BeamSearch(beams=self.beams * (1 + self.twice)).plan()


def test_a_new_strategy_works_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = StrategyEntry(home=Toy, title="toy search", source="us", width="beams", preset={"twice": True})
    monkeypatch.setitem(STRATEGIES, "toy", entry)
    (expected,) = decode(load("en-fr"), ["I'm cold."], BeamSearch(beams=4), max_length=8)
    command = ["translate", "I'm cold.", "--strategy", "toy", "--groups", "2", "-b", "1", "--max-length", "8"]
    assert cli.main([*command, "--alone", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["strategy"] == "toy search: 2 beams, twice True"
    assert [each["text"] for each in line["hypotheses"]] == list(expected.distinct().texts)
    task = tmp_path / "mine.jsonl"
    task.write_text(json.dumps({"input": "I'm cold.", "references": ["J'ai froid."]}), encoding="utf-8")
    options = ["--strategies", "bs,toy", "--beams", "2", "--max-length", "8", "--show", "1", "--json"]
    settings = ["--cache", str(tmp_path / "cache"), "--draws", "5", "--metrics", "chrf"]
    command = ["evaluate", "--task", str(task), "--model", "en-fr", *options, *settings]
    assert cli.main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["methods"]["toy"]["settings"] == {"beams": 2, "twice": True}
    assert [each["text"] for each in found["examples"][0]["lists"]["toy"]] == list(expected.texts)
    from beamsplit.web.catalogue import strategies

    assert {each["name"]: each["title"] for each in strategies()}["toy"] == "toy search"


# Specs


def test_settings_of_a_strategys_own(markov: MarkovModel) -> None:
    made = spec("nucleus", top_p=0.5, temperature=2.0)
    assert made.make(markov) == Sampling(samples=6, top_p=0.5, temperature=2.0)
    assert made.title == "nucleus sampling: 6 samples, top_p 0.5, temperature 2.0"


def test_titles_say_all_that_counts() -> None:
    assert spec("divmbest").title == "DivMBest: 6 runs, 2 beams, strength 0.5, hamming"
    assert spec("diverse-sampling", top_k=3).title == (
        "diverse sampling: 6 groups of 1, top_k 3, strength 0.5, hamming"
    )
    assert spec("dbs", replace(SIX, diversity="cumulative:temperature=2")).title == (
        "diverse beam search: 6 groups of 1, strength 0.5, cumulative:temperature=2"
    )


def test_titles_count() -> None:
    one = replace(SIX, groups=1)
    assert spec("dbs", one).title == "diverse beam search: 1 group of 1, strength 0.5, hamming"
    assert spec("bs", one).title == "beam search: 1 beam"


def test_the_term_is_made_for_the_model() -> None:
    strategy = spec("dbs", replace(SIX, diversity="cumulative:temperature=4")).make(load("en-fr"))
    assert isinstance(strategy, DiverseBeamSearch)
    assert strategy.diversity == Cumulative(temperature=4)


def test_what_a_file_leaves_out_is_as_the_class_or_the_name_has_it(markov: MarkovModel) -> None:
    assert StrategySpec.of_table({"strategy": "dbs", "groups": 2}).make(markov) == DiverseBeamSearch(groups=2)
    drawn = StrategySpec.of_table({"strategy": "nucleus", "samples": 2}).make(markov)
    assert drawn == Sampling(samples=2, top_p=0.9)
    assert StrategySpec.of_table({"strategy": "mmi", "beams": 2}).mmi == {"strength": 0.3}
    own = {"strength": 0.1, "first": 3}
    assert StrategySpec.of_table({"strategy": "mmi", "beams": 2, "mmi": own}).mmi == own


@pytest.mark.parametrize(
    ("name", "change", "settings", "line"),
    [
        ("beam", {}, {}, "there is no strategy 'beam': there are bs, dbs, "),
        ("dsb", {}, {}, "there is no strategy 'dsb': did you mean 'dbs'?"),
        ("dbs", {"groups": 0}, {}, "groups must be a whole number of at least 1, not 0"),
        ("bs", {"groups": 0}, {}, "groups must be a whole number of at least 1, not 0"),
        ("dbs", {"beams_per_group": -1}, {}, "beams_per_group must be a whole number of at least 1, not -1"),
        (
            "dbs",
            {"strength": float("nan")},
            {},
            "strength must be a finite number of 0 or more, not nan",
        ),
        ("bs", {}, {"top_p": 0.9}, "bs has no setting 'top_p': it is for chunks, sampling, "),
        ("dbs", {}, {"groups": 3}, "dbs has no setting 'groups': leave it out"),
        ("dbs", {}, {"rate": 3}, "dbs has no setting 'rate': it is for siblings"),
        ("nucleus", {}, {"topp": 3}, "nucleus has no setting 'topp': did you mean 'top_p'?"),
        ("dbs", {"diversity": "ngram:size=3"}, {}, "diversity: ngram has no setting 'size': it has n"),
    ],
)
def test_mistakes(name: str, change: dict[str, Any], settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        spec(name, replace(SIX, **change), **settings)
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, "there is no strategy None: there are bs, dbs, "),
        ({"strategy": "dbs"}, "dbs needs groups: give a number"),
        ({"strategy": "divmbest"}, "divmbest needs runs: give a number"),
        (
            {"strategy": "dbs", "groups": 2, "strenght": 1},
            "dbs has no setting 'strenght': did you mean 'strength'?",
        ),
        ({"strategy": "bs", "beams": 2, "strength": 1}, "bs has no setting 'strength': it is for dbs, "),
        ({"strategy": "bs", "beams": 2, "width": 1}, "bs has no setting 'width': it has beams"),
        ({"strategy": "bs", "beams": 2, "unique": 1}, "unique must be true or false, not 1"),
    ],
)
def test_mistakes_in_tables(table: dict[str, Any], line: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        StrategySpec.of_table(table)
    assert str(caught.value).startswith(line)
    with pytest.raises(ArgumentError) as caught:
        StrategySpec.of_table(table, "methods.M in it")
    assert str(caught.value).startswith(f"methods.M in it: {line}")


def test_beams_divide_into_groups() -> None:
    for groups in (1, 2, 3, 4, 6, 12):
        assert Widths.divide(12, groups, 0.5, "hamming").beams == 12
    assert Widths.divide(12, None, 0.5, "hamming").groups == 12
    message = "12 beams cannot be divided into 5 equal groups: give one of 1, 2, 3, 4, 6, 12"
    with pytest.raises(ArgumentError, match=f"^{message}$"):
        Widths.divide(12, 5, 0.5, "hamming")


# Defaults


@pytest.mark.parametrize("row", DEFAULTS)
def test_every_default_can_be_used(row: str) -> None:
    spec("dbs", DEFAULTS[row].widths).make(load("en-fr"))


@pytest.mark.parametrize("name", ["en-fr", "captioner", "questioner"])
def test_the_table_has_what_models_do_by_themselves(name: str) -> None:
    model = load(name)
    assert default_strategy(model) == LateBranching(outputs=6)
    assert defaults_of(model) is DEFAULTS[model.kind]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ([], "branching"),
        (["temperature"], "branching"),
        (["strength"], "branching"),
        (["groups"], "dbs"),
        (["beams_per_group", "strength"], "dbs"),
        (["diversity"], "dbs"),
        (["return_per_group"], "dbs"),
    ],
)
def test_settings_of_groups_ask_for_diverse_beam_search(given: list[str], strategy: str) -> None:
    assert strategy_named_by(given, "branching") == strategy


def test_a_model_of_no_known_kind_is_any_other(markov: MarkovModel) -> None:
    assert defaults_of(markov) is DEFAULTS["other"]
    markov.kind = ["translator"]  # type: ignore[attr-defined]
    assert defaults_of(markov) is DEFAULTS["other"]
    markov.kind = "evaluate"  # type: ignore[attr-defined]
    assert defaults_of(markov) is DEFAULTS["other"]
    assert set(MODEL_KINDS) <= set(DEFAULTS)


def test_python_and_evaluate_agree(markov: MarkovModel) -> None:
    for name in ("dbs", "diverse-sampling"):
        made = spec(name, DEFAULTS["evaluate"].widths)
        assert made.make(markov) == strategy_class(name)(groups=20)


def test_own_settings_are_no_widths() -> None:
    assert {name: own_settings(name) for name in ("bs", "dbs", "siblings", "divmbest", "sampling")} == {
        "bs": set(),
        "dbs": set(),
        "siblings": {"rate", "rank_root"},
        "divmbest": set(),
        "sampling": {"temperature", "top_k", "top_p", "min_p"},
    }
