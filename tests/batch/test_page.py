"""docs/big-jobs.md: its tables are those of the files, and what it shows runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from beamsplit.batch import SPARK_COLUMNS
from beamsplit.errors import ArgumentError
from research.benchmarks.jobs import command
from research.benchmarks.jobs.report import KINDS, big_jobs_page, lines_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "big-jobs.md").read_text(encoding="utf-8")
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_says_what_its_files_say() -> None:
    assert big_jobs_page(PAGE) == PAGE
    performance = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"<!-- jobs: {kind} -->" in (PAGE if kind == "scale" else performance)


def test_no_run_of_those_that_were_disturbed_has_lost_anything() -> None:
    found = json.loads((ROOT / "docs" / "results" / "chaos.json").read_text(encoding="utf-8"))
    assert len(found["runs"]) == found["total"]["runs"] >= 50
    assert found["total"]["equal"] == len(found["runs"])
    assert (found["total"]["lost"], found["total"]["twice"]) == (0, 0)
    assert set(found["total"]["killed"]) == {"worker", "node", "driver"}


def test_the_callable_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = (block for block in BLOCKS if "LateBranching(outputs=3)" in block)
    exec(code, {})
    assert capsys.readouterr().out.splitlines()[1].startswith("I'm cold. [\"J'ai froid.\", ")


def test_the_function_for_spark_runs() -> None:
    """With a session that calls it as Spark would, on partitions of two rows."""
    pandas: Any = pytest.importorskip("pandas", reason="pip install '.[ray]'")
    (code,) = (block for block in BLOCKS if "mapInPandas" in block)
    schemas: list[str] = []

    class Session:
        """What stands for a session, a reader, a frame and a writer."""

        def __init__(self) -> None:
            self.read = self.write = self

        def json(self, _: str) -> Session:
            return self

        def parquet(self, _: str) -> None:
            self.written = True

        def mapInPandas(self, function: Any, schema: str) -> Session:  # noqa: N802 (Spark's name)
            schemas.append(schema)
            parts = [pandas.DataFrame({"id": [n, n + 1], "text": ["I'm cold.", ""]}) for n in (0, 2)]
            self.frames = list(function(iter(parts)))
            return self

    session = Session()
    exec(code, {"spark": session})
    assert session.written
    assert schemas == [f"id bigint, text string, {SPARK_COLUMNS}"]
    columns = [name for name, _ in (each.split(" ") for each in schemas[0].split(", "))]
    assert [list(frame.columns) for frame in session.frames] == [columns, columns]
    assert [frame["texts"][0][0] for frame in session.frames] == ["J'ai froid."] * 2


def test_an_unknown_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match="there is no table 'jobs: warp': there are chaos: runs, jobs: mach"
    ):
        lines_of("jobs", ["warp"])
    for kind in KINDS:
        table = lines_of("jobs", [kind], tmp_path)
        assert len(table) == 2 or "not measured yet" in table[2]


def test_the_simulation_runs(tmp_path: Path) -> None:
    """In tiny sizes. The parts that start Ray are run by hand."""
    command.main(["--tiny", "--only", "scale", "--out", str(tmp_path / "jobs.json")])
    head, _, row = lines_of("jobs", ["scale"], tmp_path)
    cells = dict(zip(head.split("|")[1:-1], row.split("|")[1:-1], strict=True))
    assert {name.strip(): cell.strip() for name, cell in list(cells.items())[:2]} == {
        "inputs": "20,000 in 2 files",
        "shards": "80",
    }
