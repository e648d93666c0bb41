"""The callable on a real Spark, with Python workers of its own, on this machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batch.jobs import MODEL, write_lines
from beamsplit import DiverseBeamSearch
from beamsplit.batch import COLUMNS, SPARK_COLUMNS, Decoder

pyspark: Any = pytest.importorskip("pyspark", reason="pip install pyspark")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # Spark and Py4J warn of themselves

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """A session with two threads, whose Python workers get three rows at a time."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT / "src", ROOT, ROOT / "tests"))))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "3").getOrCreate()
    yield session
    session.stop()


def test_lists_are_those_of_the_decoder_itself(spark: Any) -> None:
    """Row by row, wherever Spark has cut; an input that is refused has an error and the others have lists."""
    texts = [f"text {'x' * (number % 5)}" for number in range(20)]
    texts[7] = "bad"
    decoder = Decoder(MODEL, DiverseBeamSearch(groups=2, strength=0.5), max_length=4)
    rows = spark.createDataFrame(list(enumerate(texts)), "id bigint, text string").repartition(3)
    found = rows.mapInPandas(decoder.frames, f"id bigint, text string, {SPARK_COLUMNS}").collect()
    by_id = {row["id"]: row.asDict() for row in found}
    assert sorted(by_id) == list(range(20))
    here = decoder({"text": texts})
    for number, text in enumerate(texts):
        assert by_id[number]["text"] == text
        for name in COLUMNS:
            assert by_id[number][name] == here[name][number], (number, name)
    assert by_id[7]["error"]
    assert by_id[7]["texts"] == []


def test_the_example_of_spark_runs(spark: Any, tmp_path: Path) -> None:
    """As the page has it, with folders instead of a store."""
    page = (ROOT / "docs" / "big-jobs.md").read_text(encoding="utf-8")
    (code,) = (
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "mapInPandas" in block
    )
    write_lines(
        tmp_path / "sentences.jsonl", ['{"id": 7, "text": "I\'m cold."}', '{"id": 8, "text": ""}'] * 4
    )
    exec(code.replace("s3://bucket", str(tmp_path)), {"spark": spark})
    rows = [row.asDict() for row in spark.read.parquet(str(tmp_path / "lists")).collect()]
    assert sorted(row["id"] for row in rows) == [7] * 4 + [8] * 4
    for row in rows:
        counts = {len(row["texts"]), len(row["log_probs"]), len(row["groups"]), len(row["tokens"])}
        if row["id"] == 7:
            assert (row["error"], row["texts"][0], counts) == (None, "J'ai froid.", {6})
        else:
            assert (row["error"], counts) == ("is empty: there is nothing to translate", {0})
