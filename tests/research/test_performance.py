"""The measurement of performance runs as a whole, keeps what it has, and its page says what its file says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit.errors import ArgumentError
from research.benchmarks import generation_worker
from research.benchmarks.performance import command, contestants, floor
from research.benchmarks.performance.bench import Bench, Settings
from research.benchmarks.performance.contestants import FreeModel, Variant, variants
from research.benchmarks.performance.figures import Figures
from research.benchmarks.performance.goals import COMPILED, GOALS, GROUPS
from research.benchmarks.performance.parts import PARTS
from research.benchmarks.performance.record import Record, machine, read
from research.benchmarks.performance.report import KINDS, renew_page
from research.benchmarks.performance.sizes import LLAMA, Size
from research.benchmarks.performance.turns import Clock, Go, measure, measure_whole

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
FIGURES = ROOT / "docs" / "results" / "performance.json"


# The command


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the figures of all parts with tiny sizes."""
    out = tmp_path_factory.mktemp("performance") / "figures.json"
    command.main(["--tiny", "--device", "cpu", "--threads", "1", "--out", str(out)])
    return read(out)["parts"]


def test_every_part_runs_to_its_end(tiny: Any) -> None:
    assert list(tiny) == list(PARTS)
    assert {name: (part["complete"], part["left_out"]) for name, part in tiny.items()} == {
        name: (True, []) for name in PARTS
    }


def test_every_contestant_has_figures(tiny: Any) -> None:
    found = {
        (name, row["key"], contestant): figures
        for name, part in tiny.items()
        for row in part["rows"]
        for contestant, figures in row.get("figures", {}).items()
    }
    assert {key: each["error"] for key, each in found.items() if "error" in each} == {}
    assert {each["turns"] for each in found.values()} == {2}
    assert ("llama", "(2, 4, 4), prompt 9", "transformers, beam search") in found
    assert ("terms", "(1, 4, 4), prompt 4", "embedding") in found


def test_figures_name_the_machine_and_the_versions(tiny: Any) -> None:
    about = tiny["llama"]["machine"]
    assert about["torch"] == torch.__version__
    assert about["tiny"] is True
    assert about["device"] == "cpu"
    assert tiny["llama"]["rows"][0]["code"]


def test_a_trial_with_tiny_sizes_is_no_measurement(tiny: Any) -> None:
    assert renew_page(_empty_page(), tiny).count("not measured yet") >= len(GOALS)
    assert all(goal.read(Figures(tiny)) is None for goal in GOALS)


def test_parts_that_need_a_gpu_are_refused_on_a_processor() -> None:
    with pytest.raises(
        SystemExit, match=r"^performance: part llama needs a GPU: leave it out, or add --tiny$"
    ):
        command.main(["--device", "cpu", "--only", "cpu", "llama"])


def test_cases_and_contestants_can_be_chosen(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    chosen = ["--cases", "(2, 4, 4), prompt 9", "--without", "transformers", "greedy"]
    command.main(["--tiny", "--device", "cpu", "--only", "llama", *chosen, "--out", str(out)])
    (row,) = read(out)["parts"]["llama"]["rows"]
    assert row["key"] == "(2, 4, 4), prompt 9"
    assert row["figures"]
    assert all(name.startswith("ours") for name in row["figures"])


def test_a_case_that_comes_too_late_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARTS, "terms", replace(PARTS["terms"], limit=0))
    out = tmp_path / "figures.json"
    command.main(["--tiny", "--device", "cpu", "--only", "terms", "--out", str(out)])
    part = read(out)["parts"]["terms"]
    assert part["rows"] == []
    assert part["left_out"] == ["(1, 4, 4), prompt 4: the time was out"]


def test_a_part_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Bench) -> None:
        raise RuntimeError("out of\nluck")

    monkeypatch.setitem(PARTS, "search", _part(fail))
    monkeypatch.setitem(PARTS, "terms", _part(lambda bench: bench.add({"key": "one"})))
    out = tmp_path / "figures.json"
    arguments = ["--tiny", "--device", "cpu", "--only", "search", "terms", "--out", str(out)]
    with pytest.raises(SystemExit, match=f"^performance: search failed; the other figures are in {out}$"):
        command.main(arguments)
    parts = read(out)["parts"]
    assert parts["search"]["left_out"] == ["the rest: RuntimeError: out of"]
    assert not parts["search"]["complete"]
    assert [row["key"] for row in parts["terms"]["rows"]] == ["one"]
    assert "out of\nluck" in capsys.readouterr().err


def _part(run: Callable[[Bench], None]) -> Any:
    return replace(PARTS["terms"], run=run)


def test_all_parts_for_a_gpu_take_eight_minutes_at_most() -> None:
    assert sum(part.estimate for name, part in PARTS.items() if name != "cpu") <= 480
    assert all(part.estimate <= part.limit for part in PARTS.values())


# The record


ABOUT = machine("cpu", tiny=True)


def _rows(path: Path, part: str = "llama") -> list[Any]:
    return [(row["key"], row["value"]) for row in read(path)["parts"][part]["rows"]]


def test_rows_are_written_at_once_and_a_later_run_adds_to_them(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "figures.json"
    first = Record(path, ABOUT)
    first.begin("llama")
    first.add("llama", {"key": "a", "value": 1})
    assert _rows(path) == [("a", 1)]
    first.add("llama", {"key": "b", "value": 2})
    # It is cut off here; the next run measures one case again and another part.
    second = Record(path, ABOUT)
    second.begin("llama")
    second.add("llama", {"key": "a", "value": 3})
    second.complete("llama")
    second.begin("terms")
    second.add("terms", {"key": "c", "value": 4})
    assert _rows(path) == [("a", 3), ("b", 2)]
    assert _rows(path, "terms") == [("c", 4)]
    assert [part["complete"] for part in read(path)["parts"].values()] == [True, False]


def test_figures_of_two_machines_are_never_mixed(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    first = Record(path, ABOUT)
    first.begin("llama")
    first.add("llama", {"key": "a", "value": 1})
    other = Record(path, {**ABOUT, "torch": "0.1"})
    other.begin("llama")
    other.add("llama", {"key": "b", "value": 2})
    assert _rows(path) == [("b", 2)]


@pytest.mark.parametrize(("text", "said"), [("{", "is no JSON"), ("[1]", "holds no figures")])
def test_other_files_are_left_alone(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArgumentError, match=said):
        Record(path, ABOUT)
    assert path.read_text(encoding="utf-8") == text


# Turns


@dataclass
class Clockwork:
    """Generates in a time that is known: so long for the prompt, so long for each step after the first."""

    prompt: float
    step: float
    warm_tokens: int | None = None
    error_at: int = -1

    def __post_init__(self) -> None:
        self.asked: list[int] = []

    def go(self, tokens: int) -> Go:
        self.asked.append(tokens)
        if len(self.asked) == self.error_at:
            raise RuntimeError("CUDA out of memory.\nTried to allocate")
        return Go(self.prompt + self.step * (tokens - 1), mib=100.0 * tokens)


def test_a_run_begins_nothing_after_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.json"
    only = ["--tiny", "--device", "cpu", "--only", "search", "terms", "--out", str(out)]
    monkeypatch.setitem(PARTS, "search", _part(lambda bench: bench.add({"key": "one"})))
    monkeypatch.setitem(PARTS, "terms", _part(lambda bench: bench.add({"key": "two"})))
    command.main([*only, "--within", "0"])
    assert "the time was out before search terms" in capsys.readouterr().err
    monkeypatch.setattr(command, "_is_lost", lambda device: True)
    with pytest.raises(SystemExit, match="search has spoilt the GPU for what follows: run --only terms"):
        command.main(only)
    assert list(read(out)["parts"]) == ["search"]


def test_a_step_is_what_further_tokens_take() -> None:
    found = measure({"ours": Clockwork(prompt=0.5, step=0.002)}, 64, turns=3, clock=Clock(60))["ours"]
    assert found["ms_per_step"] == pytest.approx({"median": 2, "low": 2, "high": 2})
    assert found["first_token_ms"]["median"] == pytest.approx(500)
    assert found["end_to_end_ms"]["median"] == pytest.approx(500 + 63 * 2)
    assert found["mib"] == 6400
    assert found["turns"] == 3


def test_the_first_go_does_not_count_and_peers_have_a_short_one() -> None:
    ours, peer = Clockwork(0.1, 0.1), Clockwork(0.1, 0.1, warm_tokens=4)
    measure({"ours": ours, "peer": peer}, 8, turns=2, clock=Clock(60))
    assert ours.asked == [8, 1, 8, 1, 8, 1]
    assert peer.asked == [4, 8, 1, 8, 1]


def test_figures_are_told_after_every_turn() -> None:
    told: list[Any] = []
    measure({"ours": Clockwork(0.1, 0.1)}, 3, turns=3, clock=Clock(60), note=told.append)
    assert [each["ours"]["turns"] for each in told] == [1, 2, 3]


def test_a_slow_contestant_gets_two_turns() -> None:
    found = measure({"slow": Clockwork(5, 0.1), "quick": Clockwork(0.1, 0.1)}, 3, turns=4, clock=Clock(60))
    assert [each["turns"] for each in found.values()] == [2, 4]


def test_after_the_time_is_out_there_is_one_turn_of_those_that_began() -> None:
    clock = Clock(60)
    late = Clockwork(0.1, 0.1)

    class Slow(Clockwork):
        def go(self, tokens: int) -> Go:
            clock._end = 0.0  # the time is out
            return super().go(tokens)

    found = measure({"slow": Slow(0.1, 0.1), "late": late}, 3, turns=4, clock=clock)
    assert found["slow"]["turns"] == 1
    assert found["late"] == {"error": "the time was out"}
    assert late.asked == []


@pytest.mark.parametrize("error_at", [1, 3])
def test_what_a_contestant_raises_is_its_result(error_at: int) -> None:
    found = measure(
        {"bad": Clockwork(0.1, 0.1, error_at=error_at), "good": Clockwork(0.1, 0.1)},
        3,
        turns=2,
        clock=Clock(60),
    )
    assert found["bad"] == {"error": "RuntimeError: CUDA out of memory."}
    assert found["good"]["turns"] == 2


def test_whole_runs_have_two_turns_however_late_it_is() -> None:
    said: list[str] = []
    runs = {name: (lambda name=name: said.append(name)) for name in ("a", "b")}
    found = measure_whole(runs, turns=9, clock=Clock(0))
    assert said == ["a", "b"] * 3
    assert found["a"]["turns"] == 2


def test_a_whole_run_that_fails_has_an_error_for_a_figure() -> None:
    found = measure_whole({"bad": lambda: 1 // 0, "good": lambda: 1}, turns=2, clock=Clock(60))
    assert found["bad"]["error"].startswith("ZeroDivisionError: ")
    assert found["good"]["turns"] == 2


# Contestants


def test_memory_counts_what_a_contestant_keeps_from_go_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use, peak = 1000 * 2**20, 0  # the weights, and those of whoever came before

    def run(needs: int, keeps: int) -> float:
        nonlocal in_use, peak
        peak, in_use = in_use + needs * 2**20, in_use + keeps * 2**20
        return 1.0

    goes = iter([(300, 200), (50, 0), (60, 0)])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: in_use)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak)
    monkeypatch.setattr(generation_worker, "run", lambda *_: run(*next(goes)))
    ours = contestants.Generating(None, "ours", Size(1, 2, 2, 3, 4), "cuda")
    assert [ours.go(4).mib for _ in range(2)] == [300, 250]
    peer = contestants.Generating(None, "beam", Size(1, 2, 2, 3, 4), "cuda")
    assert peer.go(4).mib == 60


def test_a_switch_that_is_not_there_is_left_out() -> None:
    chosen = [
        Variant("ours"),
        Variant("wide", {"list_width": 9}),
        Variant("warp", {"warp": 9}),
        Variant("plain torch", environment={"BEAMSPLIT_KERNELS": "0"}),
        Variant("warp two", environment={"BEAMSPLIT_WARP": "0"}),
        Variant("on a GPU", environment={"BEAMSPLIT_KERNELS": "0"}, device="cuda"),
    ]
    known = variants(contestants.decode_options(), "cpu", chosen)
    assert [each.name for each in known] == ["ours", "wide", "plain torch"]
    term = Variant("ngram", {"diversity": "ngram"})
    assert variants(contestants.generate_options(), "cpu", [term]) == [term]


def test_a_variable_is_set_for_a_contestant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BEAMSPLIT_KERNELS", raising=False)
    seen = []

    class Watching(FreeModel):
        def start(self, inputs: Any) -> Any:
            seen.append(os.environ.get("BEAMSPLIT_KERNELS"))
            return super().start(inputs)

    model = Watching(inputs=1, beams=2, vocabulary=9, device="cpu")
    off = Variant("plain torch", environment={"BEAMSPLIT_KERNELS": "0"})
    for variant in (off, Variant("ours")):
        contestants.Decoding(model, [0], beamsplit.BeamSearch(beams=2), "cpu", variant).go(2)
    monkeypatch.setenv("BEAMSPLIT_KERNELS", "1")
    with off.switched():
        pass
    assert seen == ["0", None]
    assert os.environ["BEAMSPLIT_KERNELS"] == "1"


def test_the_free_model_can_be_searched() -> None:
    model = FreeModel(inputs=2, beams=4, vocabulary=50, device="cpu")
    strategy = beamsplit.DiverseBeamSearch(groups=4, beams_per_group=1, strength=0.5)
    found = beamsplit.decode(model, [0, 1], strategy, max_length=6, end=None)
    assert [len(each) for each in found] == [4, 4]
    assert {len(hypothesis.tokens) for each in found for hypothesis in each} == {6}


def test_another_version_takes_part_in_a_process_of_its_own(tmp_path: Path) -> None:
    source = Path(beamsplit.__file__).parents[1]
    settings = Settings(device="cpu", tiny=True, turns=2, old_python=sys.executable, before=source)
    bench = Bench(Record(tmp_path / "figures.json", ABOUT), settings)
    try:
        found = bench.searches("llama-1.2b", Size(1, 4, 4, 4, 3))
        assert found["before"].go(3).seconds > 0
        # The new transformers has no groups, which is what it says; or it is not the version that counts.
        with pytest.raises(RuntimeError, match=r"trust_remote_code|not 4\.55\.4"):
            found[GROUPS].go(3)
        before, after = (bench.cpu_workers()[when] for when in ("before", "after"))
        task = {"model": "gru-tiny", "beams": 3, "tokens": 2, "threads": 1, "run": "beam_search"}
        assert before.run(dict(task)) == after.run(dict(task))
        assert before.run({**task, "run": "fly"})["error"].startswith("AttributeError")
    finally:
        bench.close()


# The floor


def test_the_bare_forward_attends_to_the_prompt_and_to_its_ancestors() -> None:
    """Attention to both, merged, is attention to a beam's whole sequence, spelled out."""
    torch.manual_seed(0)
    size = Size(inputs=2, beams=3, groups=3, prompt=5, tokens=4)
    decoder = floor.BareDecoder(floor.Shape.of("llama-tiny"), size, "cpu")
    stored, now = decoder.stored[0], decoder.now
    shape, rows = decoder.shape, 6
    query = torch.randn(rows, shape.kv_heads, shape.heads // shape.kv_heads, shape.head)
    merged = floor._merged(decoder._of_prompt(query, stored), decoder._of_beam(query, stored, now))
    seen = int(now.place) + 1
    assert 1 < seen < size.tokens
    for row in range(rows):
        own = [(step, int(now.ancestors[row, step])) for step in range(seen)]
        keys, values = (
            torch.cat([prompt[row // size.beams], torch.stack([kept[place] for place in own], dim=1)], dim=1)
            for prompt, kept in (
                (stored.prompt_keys, stored.keys),
                (stored.prompt_values, stored.values),
            )
        )
        weights = (query[row] @ keys.transpose(1, 2) * shape.head**-0.5).softmax(-1)
        torch.testing.assert_close(merged[row], weights @ values)


def test_the_bare_forward_has_the_weights_of_the_model() -> None:
    from research.benchmarks.generation_worker import build

    decoder = floor.BareDecoder(floor.Shape.of("llama-tiny"), Size(1, 2, 2, 3, 2), "cpu")
    model = build("llama-tiny", "cpu")
    assert decoder.weight_bytes == sum(each.numel() * 4 for each in model.parameters())
    assert decoder.step().shape == (2, 300)


def test_the_large_llama_is_the_one_that_is_written_about() -> None:
    assert floor.Shape.of("llama-1.2b") == floor.Shape(2048, 8192, 16, 32, 8, 64, 128256)
    assert floor.Shape.of("qwen3-1.7b") == floor.Shape(2048, 6144, 28, 16, 8, 128, 151936)


# The page


def _empty_page() -> str:
    return "\n".join(f"<!-- performance: {kind} -->\n<!-- end -->" for kind in KINDS)


def test_the_page_says_what_its_file_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert renew_page(page, read(FIGURES)["parts"]) == page


def test_the_page_has_every_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"<!-- performance: {kind} -->" not in page] == []


def test_what_is_not_measured_is_said_to_be_missing() -> None:
    page = renew_page(_empty_page(), {})
    assert page.count("| not measured yet") >= 2 * len(GOALS)
    assert " yes " not in page


def _figures(median: float) -> dict[str, Any]:
    spread = {"median": median, "low": median * 0.9, "high": median * 1.2}
    return {
        "turns": 2,
        "ms_per_step": spread,
        "end_to_end_ms": {name: 64 * value for name, value in spread.items()},
        "first_token_ms": spread,
        "mib": 1234.5,
        "warm_up_s": 30.25,
        "all_end_to_end_ms": [64 * median, 32 * median],
        "all_first_token_ms": [median, median],
    }


def _measured(**medians: float) -> dict[str, Any]:
    row = {
        "key": LLAMA.full[0].key,
        "code": "abc",
        "figures": {name: _figures(each) for name, each in medians.items()},
    }
    part = {"machine": {**ABOUT, "tiny": False}, "complete": True, "left_out": [], "rows": [row]}
    return {"llama": part}


@pytest.mark.parametrize(("median", "verdict"), [(2.0, "yes"), (2.01, "no")])
def test_goals_are_judged_by_the_median(median: float, verdict: str) -> None:
    page = renew_page("<!-- performance: goals -->\n<!-- end -->", _measured(**{COMPILED: median}))
    (line,) = [line for line in page.splitlines() if "prompt 128, compiled" in line and "(1, 20, 20)" in line]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[2:4] == ["<= 2.0", f"{median:.2f} [{median * 0.9:.2f}-{median * 1.2:.2f}]"]
    assert cells[5] == verdict


def test_peers_are_compared_with_the_fastest_of_ours_end_to_end() -> None:
    parts = _measured(**{"ours": 4.0, COMPILED: 2.0, GROUPS: 36.0})
    (goal,) = [goal for goal in GOALS if goal.title.startswith(LLAMA.full[0].key) and GROUPS in goal.title]
    found = goal.read(Figures(parts))
    assert found is not None
    assert found.value == 18
    assert "(ours, compiled)" in found.shown


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(ArgumentError, match="there is no table 'performance: warp': there are performance: "):
        renew_page("<!-- performance: warp -->\n<!-- end -->", {})


def test_errors_stand_in_the_table() -> None:
    parts = _measured(ours=3.0)
    parts["llama"]["rows"][0]["figures"]["greedy"] = {"error": "RuntimeError: CUDA out of memory."}
    page = renew_page("<!-- performance: llama -->\n<!-- end -->", parts)
    assert "RuntimeError: CUDA out of memory." in page
    assert "1,234" in page
    assert "30.2" in page


def test_the_file_is_complete_json_with_a_machine_for_each_part() -> None:
    parts = json.loads(FIGURES.read_text(encoding="utf-8"))["parts"]
    assert parts
    assert all(not part["machine"]["tiny"] for part in parts.values())
