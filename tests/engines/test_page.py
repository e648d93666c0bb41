"""The page about engines says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from beamsplit.engines.connecting import KINDS
from beamsplit.engines.http import KEY_VARIABLE
from engines.serving import END, Server
from research.benchmarks.engines import report

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "engines.md").read_text(encoding="utf-8")


def test_its_first_example_runs() -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    with Server("vllm") as server:
        names: dict[str, Any] = {}
        own = code[1].replace("http://localhost:8000", server.url)
        exec(own.replace("The best way to start the day is", "5 7 9"), names)
        assert names["found"].best.certified
        assert len(names["found"].texts) == 6
        assert names["model"].end == [END]
        names["model"].close()


def test_its_figures_are_those_that_were_measured() -> None:
    shown = re.search(
        r"<!-- figures of docs/results/engines.json -->\n(.*)<!-- end of figures -->", PAGE, re.DOTALL
    )
    assert shown is not None
    found = json.loads((DOCS / "results" / "engines.json").read_text(encoding="utf-8"))
    assert shown[1].strip() == report(found).strip()


def test_it_names_what_may_be_given() -> None:
    for kind in KINDS:
        assert kind in PAGE
    assert KEY_VARIABLE in PAGE
