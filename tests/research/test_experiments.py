"""The page of results: tables between marks, and what was chosen on validation data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from beamsplit import metrics
from beamsplit.errors import ArgumentError
from beamsplit.evaluation import decoding, scoring
from beamsplit.jobs import batches
from research.experiments import runner
from research.experiments.choice import best_of_families, choice_table, deciding
from research.experiments.report import renew_tables

METHODS: dict[str, dict[str, Any]] = {
    "BS": {"family": "", "varied": {}},
    "DBS strength=0.2": {"family": "DBS", "varied": {"strength": 0.2}},
    "DBS strength=0.5": {"family": "DBS", "varied": {"strength": 0.5}},
    "DBS strength=0.8": {"family": "DBS", "varied": {"strength": 0.8}},
    "MMI strength=0.1": {"family": "MMI", "varied": {"mmi": {"strength": 0.1, "first": 3}}},
}


def column(*values: float) -> dict[str, dict[str, float]]:
    return {name: {"value": value} for name, value in zip(METHODS, values, strict=True)}


RESULTS: dict[str, Any] = {
    "task": "coco.valid",
    "model": "captioner",
    "items": 400,
    "refused": 0,
    "references": {"fewest": 5, "most": 5},
    "short": {},
    "unavailable": {},
    "methods": METHODS,
    "figures": {
        # At 1 the weakest is the best, of METEOR the strongest; neither decides.
        "oracle_cider_d@1": column(0.9, 0.8, 0.7, 0.6, 0.5),
        "oracle_cider_d@20": column(1.5, 1.6, 1.8, 1.7, 1.4),
        "oracle_meteor@1": column(25, 25, 25, 26, 20),
        "oracle_meteor@20": column(35, 35, 35, 36, 30),
        "list_distinct_2": column(0.2, 0.3, 0.4, 0.5, 0.25),
        "unique": column(1, 1, 0.9, 0.8, 1),
    },
    "examples": [],
    "parts": {},
}
PAGE = """# Results

<!-- coco: about -->
<!-- end -->

Some words.

<!-- validation/coco: oracle cider_d -->
what stood there before
<!-- end -->

More words.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One with two results."""
    (tmp_path / "validation").mkdir()
    for name, task in (("coco", "coco.test"), ("validation/coco", "coco.valid")):
        text = json.dumps({**RESULTS, "task": task})
        (tmp_path / f"{name}.json").write_text(text, encoding="utf-8")
    return tmp_path


def cells(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| ")]


# The page


def test_what_stands_between_marks_is_written_anew(folder: Path) -> None:
    lines = renew_tables(PAGE, folder).splitlines()
    assert "400 inputs of coco.test, 5 references each, model captioner." in lines
    assert "what stood there before" not in lines
    rows = cells(lines)
    assert rows[0] == ["", "CIDEr-D top-1", "CIDEr-D @20"]
    assert [row[0] for row in rows[1:]] == list(METHODS)
    assert rows[3][1:] == ["0.700", "**1.800**"]
    assert [line for line in lines if line.startswith("<!--")] == [
        line for line in PAGE.splitlines() if line.startswith("<!--")
    ]


def test_what_stands_elsewhere_is_left_alone(folder: Path) -> None:
    made = renew_tables(PAGE, folder)
    assert made.startswith("# Results\n\n<!-- coco: about -->\n\n400 inputs")
    assert "<!-- end -->\n\nSome words.\n\n<!-- validation/coco" in made
    assert made.endswith("<!-- end -->\n\nMore words.\n")
    assert renew_tables("No marks.\n", folder) == "No marks.\n"


def test_a_page_that_is_new_stays_as_it_is(folder: Path) -> None:
    made = renew_tables(PAGE, folder)
    assert renew_tables(made, folder) == made


def test_columns_and_choices(folder: Path) -> None:
    def table(what: str) -> list[list[str]]:
        return cells(renew_tables(f"<!-- coco: {what} -->\n<!-- end -->", folder).splitlines())

    assert table("columns unique oracle_meteor@20")[0] == ["", "unique", "METEOR @20"]
    assert table("lists")[0] == ["", "distinct-2", "unique"]
    assert table("chosen")[0] == ["", "best", "CIDEr-D @20", "distinct-2", "unique"]


def test_what_a_method_gains_in_several_results(folder: Path) -> None:
    for name, low, high in (("coco", 0.1, 0.5), ("validation/coco", -0.1, 0.7)):
        found = {**RESULTS, "model": "mine.safetensors"}
        against = {"difference": 0.3, "low": low, "high": high}
        cells = {
            **column(1.5, 1.6, 1.8, 1.7, 1.4),
            "DBS strength=0.5": {"value": 1.8, "against_first": against},
        }
        many = {**column(50, 50, 40, 50, 50), "DBS strength=0.5": {"value": 40, "against_first": against}}
        found["figures"] = {"oracle_cider_d@20": cells, "oracle_meteor@20": many}
        found["methods"] = {"BS": {}, "DBS": {}}
        for figure in found["figures"].values():
            figure["DBS"] = figure["DBS strength=0.5"]
        (folder / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")
    page = "<!-- gains: DBS oracle_cider_d@20,oracle_meteor@20 coco validation/coco -->\n<!-- end -->"
    head, first, second = cells_of(renew_tables(page, folder))
    assert head == ["", "task", "model", "CIDEr-D @20", "METEOR @20"]
    assert first == ["coco", "coco.valid", "mine", "1.500, 1.800: +20.0%\\*", "50.0, 40.0: -20.0%\\*"]
    assert second == ["coco", "coco.valid", "mine", "1.500, 1.800: +20.0%", "50.0, 40.0: -20.0%"]


def cells_of(page: str) -> list[list[str]]:
    return cells(page.splitlines())


def test_a_table_that_is_none(folder: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^there is no table 'orakel': there are about, oracle, lists, "):
        renew_tables(PAGE.replace("oracle cider_d", "orakel cider_d"), folder)


# The choice


def test_the_best_of_the_most_decides() -> None:
    assert deciding(RESULTS) == "oracle_cider_d@20"


def test_the_best_of_each_family() -> None:
    assert best_of_families(RESULTS) == {"BS": "BS", "DBS": "DBS strength=0.5", "MMI": "MMI strength=0.1"}


def test_of_equals_the_first_is_chosen() -> None:
    alike = {**RESULTS, "figures": {**RESULTS["figures"], "oracle_cider_d@20": column(1, 1, 1, 1, 1)}}
    assert best_of_families(alike)["DBS"] == "DBS strength=0.2"


def test_a_choice_is_shown_with_its_figures() -> None:
    assert cells(choice_table(RESULTS))[1:] == [
        ["BS", "", "1.500", "0.200", "1.000"],
        ["DBS", "strength 0.5", "1.800", "0.400", "0.900"],
        ["MMI", "strength 0.1, first 3", "1.400", "0.250", "1.000"],
    ]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_experiments_are_run_and_written(jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    (tmp_path / "mine.jsonl").write_text('{"input": "a", "references": ["le chat dort"]}\n', encoding="utf-8")
    (tmp_path / "said.jsonl").write_text('{"id": 0, "hypotheses": ["le chat dort"]}\n', encoding="utf-8")
    experiment = 'task = "mine.jsonl"\nmetrics = ["chrf"]\nshow = 1\n[methods.A]\n'
    (tmp_path / "mine.toml").write_text(experiment + 'file = "said.jsonl"\n', encoding="utf-8")
    (tmp_path / "paper").mkdir()
    beside = experiment.replace("mine", "../mine") + 'file = "../said.jsonl"\n'
    (tmp_path / "paper" / "ours.toml").write_text(beside, encoding="utf-8")
    done = CliRunner().invoke(runner.main, ["--out", str(tmp_path / "out"), "--draws", "10", "--jobs", jobs])
    assert done.exit_code == 0
    found = json.loads((tmp_path / "out" / "mine.json").read_text(encoding="utf-8"))
    assert found["figures"]["oracle_chrf@1"]["A"]["value"] == 100
    assert found["examples"][0]["lists"]["A"][0]["text"] == "le chat dort"
    assert found["examples"][0]["references"] == []  # not ours to print
    assert not (tmp_path / "out" / "paper").exists()  # unless it is named
    named = CliRunner().invoke(runner.main, ["paper/ours", "--out", str(tmp_path / "out"), "--draws", "10"])
    assert named.exit_code == 0
    assert (tmp_path / "out" / "paper" / "ours.json").exists()
    unknown = CliRunner().invoke(runner.main, ["yours", "--out", str(tmp_path / "out")])
    assert unknown.exit_code == 2
    assert "there is no experiment 'yours': there are mine" in unknown.output


# Decoding first


def decoding_experiments(folder: Path, *methods: str) -> None:
    """Two experiments on the same sentences, one on both and one on the first of them."""
    lines = [{"input": text, "references": [text]} for text in ("I see a dog.", "Come here!")]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "mine.jsonl").write_text(text, encoding="utf-8")
    for name, more in (("whole", ""), ("part", "limit = 1\n")):
        content = f'task = "mine.jsonl"\nmodel = "en-fr"\nmetrics = ["chrf"]\nmax_length = 8\n{more}'
        (folder / f"{name}.toml").write_text(content + "\n".join(methods), encoding="utf-8")


BS = '[methods.BS]\nstrategy = "bs"\nbeams = 2\n'
DBS = '[methods.DBS]\nstrategy = "dbs"\ngroups = 2\n'


def invoke(folder: Path, *arguments: str) -> Result:
    options = ["--out", str(folder / "out"), "--cache", str(folder / "cache"), "--draws", "10", "--jobs", "1"]
    return CliRunner().invoke(runner.main, [*options, *arguments])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Inputs that are decoded, call by call."""
    calls: list[list[Any]] = []
    plain = batches.decode_in_batches

    def counting(model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        calls.append(list(inputs))
        return plain(model, inputs, *rest, **options)

    monkeypatch.setattr(decoding, "decode_in_batches", counting)
    return calls


def test_lists_can_be_decoded_here_and_scored_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[list[Any]]
) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    decoding_experiments(tmp_path, BS)
    done = invoke(tmp_path, "--decode-only")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "out").exists()
    assert decoded == [["I see a dog.", "Come here!"]]  # once for both experiments
    decoded.clear()
    assert invoke(tmp_path).exit_code == 0
    assert decoded == []
    assert {path.name for path in (tmp_path / "out").glob("*.json")} == {"whole.json", "part.json"}


def test_experiments_are_scored_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr(runner, "JOBS_EACH", 1)
    decoding_experiments(tmp_path, BS)
    assert invoke(tmp_path).exit_code == 0
    alone = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.json")}
    assert invoke(tmp_path, "--jobs", "2", "--out", str(tmp_path / "both")).exit_code == 0
    assert alone == {path.name: path.read_bytes() for path in (tmp_path / "both").glob("*.json")}


def test_a_new_method_leaves_the_others_lists_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[list[Any]]
) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    decoding_experiments(tmp_path, BS)
    assert invoke(tmp_path, "--decode-only").exit_code == 0
    kept = {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()}
    decoding_experiments(tmp_path, BS, DBS)
    assert invoke(tmp_path, "--decode-only").exit_code == 0
    assert len(decoded) == 2
    now = {path.name: path.read_bytes() for path in (tmp_path / "cache").iterdir()}
    assert len(now) == 2
    assert kept.items() <= now.items()


def test_what_cannot_be_scored_is_said_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decoded: list[list[Any]]
) -> None:
    monkeypatch.setattr(runner, "HERE", tmp_path)
    monkeypatch.setattr("beamsplit.metrics.coco.shutil.which", lambda _: None)
    decoding_experiments(tmp_path, BS)
    path = tmp_path / "part.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('"chrf"', '"chrf", "meteor"'), encoding="utf-8")
    refused = invoke(tmp_path)
    assert isinstance(refused.exception, ArgumentError)
    assert str(refused.exception) == (
        "meteor of part cannot be measured, since there is no 'java', which METEOR and the Penn Treebank "
        "tokenizer run on: install a Java runtime; or decode here with --decode-only, and score where there "
        "is Java"
    )
    assert decoded == []
    assert invoke(tmp_path, "--decode-only").exit_code == 0


def test_figures_that_cannot_be_measured_again_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        name = signature = "gone"

        def scores(self, _: Any) -> Any:
            raise metrics.Unavailable("it is gone")

    monkeypatch.setattr(runner, "HERE", tmp_path)
    decoding_experiments(tmp_path, BS)
    assert invoke(tmp_path, "part").exit_code == 0
    before = (tmp_path / "out" / "part.json").read_bytes()
    monkeypatch.setitem(scoring.TEXT_METRICS, "chrf", Gone)
    refused = invoke(tmp_path, "part")
    assert str(refused.exception) == (
        f"{tmp_path / 'out' / 'part.json'} has figures of chrf, which cannot be measured here, and is left "
        "as it is: it is gone; or give --out another folder"
    )
    assert (tmp_path / "out" / "part.json").read_bytes() == before


def test_all_pages_are_renewed_and_their_pictures_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DOCS", tmp_path)
    results = tmp_path / "results"
    (results / "paper").mkdir(parents=True)
    (results / "paper" / "coco.json").write_text(json.dumps(RESULTS), encoding="utf-8")
    for name in ("shown", "other", "hidden"):
        (results / "paper" / f"{name}.svg").touch()
    for page, picture in zip(runner.PAGES, ("shown", "other", "shown", "other"), strict=True):
        text = f"![It](results/paper/{picture}.svg)\n<!-- paper/coco: chosen -->\n<!-- end -->\n"
        (tmp_path / page).write_text(text, encoding="utf-8")
    assert CliRunner().invoke(runner.main, ["--tables"]).exit_code == 0
    for page in runner.PAGES:
        assert "strength 0.5" in (tmp_path / page).read_text(encoding="utf-8")
    assert sorted(file.stem for file in results.rglob("*.svg")) == ["other", "shown"]
