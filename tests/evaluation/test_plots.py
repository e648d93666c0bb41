"""Pictures show the figures that they are made from; what cannot be shown is left out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from beamsplit import ArgumentError
from beamsplit.evaluation.plots import plots, save
from beamsplit.extras import install_line

matplotlib = pytest.importorskip("matplotlib")

KS = (5, 1, 20)  # as an experiment may have them, in any order
SINGLE: dict[str, dict[str, Any]] = {"BS": {}, "DBS": {}, "MMI": {}}
# Not in the order of their values.
SWEPT: dict[str, dict[str, Any]] = {
    "BS": {},
    **{f"DBS strength={value}": {"strength": value} for value in (0.2, 0.8, 0.5)},
    **{f"G groups={value}": {"groups": value, "beams_per_group": 20 // value} for value in (1, 2, 20)},
}


def figure(value: float, first: float | None, interval: bool = True) -> dict[str, Any]:
    """With intervals that are not in the middle, so that ends cannot be mixed up."""
    made: dict[str, Any] = {"value": value}
    if interval:
        made |= {"low": value - 0.01, "high": value + 0.03}
        if first is not None:
            gain = value - first
            made["against_first"] = {"difference": gain, "low": gain - 0.02, "high": gain + 0.01, "p": 0.5}
    return made


def by_method(names: Mapping[str, Any], start: float, step: float, interval: bool = True) -> dict[str, Any]:
    """The first has `start`, each other `step` more than the one before."""
    return {
        name: figure(start + step * place, start if place else None, interval)
        for place, name in enumerate(names)
    }


def figures(names: Mapping[str, Any], ks: tuple[int, ...] = KS, step: float = 0.1) -> dict[str, Any]:
    made = {f"oracle_cider_d@{k}": by_method(names, 1 + k / 10, step) for k in ks}
    made |= {f"oracle_meteor@{k}": by_method(names, 1 + k / 5, 2 * step) for k in ks}
    made |= {f"oracle_mbr_cider_d@{k}": by_method(names, 9 + k, 9) for k in ks}
    made |= {"list_distinct_1": by_method(names, 0.1, 0.01), "list_distinct_2": by_method(names, 0.3, 0.05)}
    return made | {
        "corpus_distinct_2": by_method(names, 0.01, 0.01, interval=False),
        "length": by_method(names, 9.0, 0.5),
    }


def results(names: Mapping[str, dict[str, Any]] = SINGLE, **changes: Any) -> dict[str, Any]:
    methods = {
        name: {"strategy": "bs", "family": name.rsplit(" ", 1)[0] if varied else "", "varied": varied}
        for name, varied in names.items()
    }
    return {"title": "Made up", "methods": methods, "figures": figures(names), "parts": {}, **changes}


def parts(names: Mapping[str, Any] = SINGLE) -> dict[str, Any]:
    return {
        "simple": {"items": 3, "figures": figures(names)},
        "complex": {"items": 4, "figures": figures(names, step=0.2)},
    }


def drawn(names: Mapping[str, dict[str, Any]] = SINGLE, **changes: Any) -> dict[str, Any]:
    return dict(plots(results(names, **changes)))


def lines(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def segments(axes: Any) -> list[list[float]]:
    """Of all intervals: x and y of the one end, then of the other."""
    return [s.ravel().tolist() for each in axes.collections for s in each.get_segments()]


def texts(figure: Any) -> list[str]:
    return [each.get_text() for legend in figure.legends for each in legend.get_texts()]


def near(*values: float) -> Any:
    return pytest.approx(list(values))


def test_there_are_the_pictures_that_results_allow() -> None:
    assert list(drawn()) == ["oracle", "tradeoff"]
    assert list(drawn(parts={"people": parts()})) == ["oracle", "tradeoff", "complexity"]
    assert list(drawn(SWEPT)) == ["oracle", "tradeoff", "sweep-DBS", "sweep-G"]
    only = {name: each for name, each in figures(SWEPT).items() if "distinct" in name}
    assert list(drawn(SWEPT, figures=only)) == ["sweep-DBS", "sweep-G"]
    without = {name: each for name, each in figures(SWEPT).items() if "distinct" not in name}
    assert list(drawn(SWEPT, figures=without)) == ["oracle", "sweep-DBS", "sweep-G"]
    assert drawn(figures={"length": by_method(SINGLE, 9, 1)}) == {}


def test_more_methods_than_colours_are_not_told_apart() -> None:
    eight, many, most = ({str(each): SINGLE["BS"] for each in range(count)} for count in (8, 9, 30))
    assert list(drawn(eight, parts={"people": parts(eight)})) == ["oracle", "tradeoff", "complexity"]
    assert list(drawn(many, parts={"people": parts(many)})) == ["tradeoff"]
    looks = {(line.get_color(), line.get_marker()) for line in drawn(eight)["oracle"].axes[0].lines}
    assert len({colour for colour, _ in looks}) == 8
    # Further down the colours come again, with other markers.
    made = drawn(most)["tradeoff"].axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in made}) == 30


def test_the_best_of_k_is_a_line_a_method() -> None:
    figure = drawn()["oracle"]
    cider, meteor = figure.axes
    assert (cider.get_title("left"), meteor.get_title("left")) == ("CIDEr-D", "METEOR")
    assert lines(cider) == {
        "BS": ([1, 5, 20], near(1.1, 1.5, 3.0)),
        "DBS": ([1, 5, 20], near(1.2, 1.6, 3.1)),
        "MMI": ([1, 5, 20], near(1.3, 1.7, 3.2)),
    }
    assert lines(meteor)["DBS"] == ([1, 5, 20], near(1.4, 2.2, 5.2))
    band = cider.collections[1].get_paths()[0].vertices
    assert sorted({(x, round(y, 6)) for x, y in band}) == [
        (1, 1.19), (1, 1.23), (5, 1.59), (5, 1.63), (20, 3.09), (20, 3.13)
    ]  # fmt: skip
    assert cider.get_xscale() == "log"
    assert [tick.get_text() for tick in cider.get_xticklabels()] == ["1", "5", "20"]
    assert texts(figure) == ["BS", "DBS", "MMI"]


def test_one_k_makes_no_line() -> None:
    assert list(drawn(figures=figures(SINGLE, (20,)))) == ["tradeoff"]


def test_quality_is_set_against_diversity() -> None:
    [axes] = drawn()["tradeoff"].axes
    assert axes.get_ylabel() == "CIDEr-D, best of 20"
    assert axes.get_xlabel() == "distinct-2 (different 2-grams per word)"
    assert lines(axes) == {
        "BS": (near(0.3), near(3.0)),
        "DBS": (near(0.35), near(3.1)),
        "MMI": (near(0.4), near(3.2)),
    }
    across, up = segments(axes)[:2]
    assert across == near(0.29, 3.0, 0.33, 3.0)
    assert up == near(0.3, 2.99, 0.3, 3.03)
    assert [(note.get_text(), note.xy) for note in axes.texts] == [
        ("BS", near(0.3, 3.0)),
        ("DBS", near(0.35, 3.1)),
        ("MMI", near(0.4, 3.2)),
    ]


def test_what_has_no_interval_has_no_bar() -> None:
    found = {name: each for name, each in figures(SINGLE).items() if not name.startswith("list_")}
    [axes] = drawn(figures=found)["tradeoff"].axes
    assert axes.get_xlabel() == "corpus distinct-2 (different 2-grams per word)"
    assert all(x == other for x, _, other, _ in segments(axes))
    assert len(segments(axes)) == 3


def test_families_are_joined_in_their_order_and_labelled_with_what_varies() -> None:
    figure = drawn(SWEPT)["tradeoff"]
    [axes] = figure.axes
    assert lines(axes)["DBS, by strength"] == (near(0.35, 0.4, 0.45), near(3.1, 3.2, 3.3))
    assert [note.get_text() for note in axes.texts] == ["BS", "0.2", "0.8", "0.5", "1", "2", "20"]
    assert texts(figure) == ["DBS, by strength", "G, by groups"]


def test_labels_do_not_cover_one_another() -> None:
    """Four with long names at nearly one place, in a picture that another makes large."""
    names: dict[str, dict[str, Any]] = {"far": {}, **{f"a method of name {each}": {} for each in range(4)}}
    near_one = {name: {"value": 0.3 + place * 1e-3} for place, name in enumerate(names)}
    found = {"oracle_cider_d@20": near_one | {"far": {"value": 0.9}}}
    found["list_distinct_2"] = found["oracle_cider_d@20"]
    [axes] = drawn(names, figures=found)["tradeoff"].axes
    boxes = [note.get_window_extent() for note in axes.texts]
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
    for box, (x, y) in zip(boxes, axes.transData.transform([note.xy for note in axes.texts]), strict=True):
        assert box.x0 >= axes.bbox.x0
        assert box.padded(50).contains(x, y)


def test_gains_are_shown_by_complexity() -> None:
    figure = drawn(parts={"predicted": parts(), "people": parts()})["complexity"]
    assert [axes.get_title("left") for axes in figure.axes] == [
        "By complexity, as predicted",
        "By complexity, as people found it",
    ]
    for axes in figure.axes:
        assert lines(axes)["DBS"] == (near(-0.08, 0.92), near(0.1, 0.2))
        assert lines(axes)["MMI"] == (near(0.08, 1.08), near(0.2, 0.4))
        assert segments(axes)[:2] == [near(-0.08, 0.08, -0.08, 0.11), near(0.92, 0.18, 0.92, 0.21)]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["simple\n(3)", "complex\n(4)"]
    assert figure.axes[0].get_ylabel() == "CIDEr-D, best of 20:\ngain over BS"
    assert texts(figure) == ["DBS", "MMI"]
    alone = {"BS": SINGLE["BS"]}
    assert "complexity" not in drawn(alone, parts={"people": parts(alone)})


def test_a_method_has_one_colour_in_all_pictures() -> None:
    made = drawn(parts={"people": parts()})
    looks = [
        {
            (line.get_color(), line.get_marker())
            for line in made[name].axes[0].lines
            if line.get_label() == "MMI"
        }
        for name in ("oracle", "tradeoff", "complexity")
    ]
    assert looks[0] == looks[1] == looks[2]


def test_a_sweep_is_in_order_of_what_varies() -> None:
    figure = drawn(SWEPT)["sweep-DBS"]
    quality, diversity = figure.axes
    assert lines(quality)["best of 20"] == ([0.2, 0.5, 0.8], near(3.1, 3.3, 3.2))
    assert lines(quality)["top-1"] == ([0.2, 0.5, 0.8], near(1.2, 1.4, 1.3))
    [(x, y)] = [each for label, each in lines(diversity).items() if label.startswith("distinct-2")]
    assert (x, y) == ([0.2, 0.5, 0.8], near(0.35, 0.45, 0.4))
    assert (quality.get_title("left"), quality.get_xlabel()) == ("CIDEr-D", "strength of DBS")
    assert texts(figure) == ["top-1", "best of 5", "best of 20", "BS"]


def test_a_sweep_is_beside_the_first_method_that_varies_nothing() -> None:
    quality, diversity = drawn(SWEPT)["sweep-DBS"].axes
    dashed = [line for line in quality.lines if line.get_label() == "BS"]
    assert [line.get_ydata()[0] for line in dashed] == near(1.1, 1.5, 3.0)
    assert {line.get_linestyle() for line in dashed} == {"--"}
    assert lines(diversity)["BS"][1] == near(0.3, 0.3)
    alone = {name: varied for name, varied in SWEPT.items() if varied}
    figure = drawn(alone)["sweep-DBS"]
    assert texts(figure) == ["top-1", "best of 5", "best of 20"]
    assert {line.get_linestyle() for axes in figure.axes for line in axes.lines} == {"-"}


@pytest.mark.parametrize(
    ("values", "scale", "ticks"),
    [
        ([0.2, 0.5, 0.8], "linear", ["0.2", "0.5", "0.8"]),
        ([1, 2, 4, 5, 10, 20], "log", ["1", "2", "4", "5", "10", "20"]),
        ([0, 1, 10, 100], "linear", ["0", "10", "100"]),  # 1 would be written over 0
        ([3], "linear", ["3"]),
        (["hamming", "ngram"], "linear", ["hamming", "ngram"]),
        ([{"term": "ngram", "n": 2}, {"term": "ngram", "n": 3}], "linear", ["ngram 2", "ngram 3"]),
        ([{"strength": 0.2}, {"strength": 0.5}, {"strength": 0.8}], "linear", ["0.2", "0.5", "0.8"]),
    ],
)
def test_scales_suit_the_values(values: list[Any], scale: str, ticks: list[str]) -> None:
    names = {f"DBS {place}": {"setting": value} for place, value in enumerate(values)}
    for axes in drawn(names)["sweep-DBS"].axes:
        assert axes.get_xscale() == scale
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ticks


def test_names_may_have_dollars() -> None:
    made = drawn({"$a_1$": {}, "b": {}})["oracle"]
    assert not any(text.get_parse_math() for legend in made.legends for text in legend.get_texts())


def test_files_are_written_and_the_same_each_time(tmp_path: Path) -> None:
    swept = results({"BS": {}, "G & H/I strength=1": {"strength": 1}})
    first, again = (save(swept, tmp_path / each, "coco") for each in ("first", "again"))
    assert [path.name for path in first] == [
        f"coco-{name}.{kind}" for name in ("oracle", "tradeoff", "sweep-G-H-I") for kind in ("svg", "png")
    ]
    assert sorted(first) == sorted((tmp_path / "first").iterdir())
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert first[1].read_bytes().startswith(b"\x89PNG")
    svg = first[0].read_text(encoding="utf-8")
    assert ">CIDEr-D</text>" in svg
    assert "sans-serif" in svg
    assert "<dc:date>" not in svg


def test_formats(tmp_path: Path) -> None:
    assert {path.suffix for path in save(results(), tmp_path, "a", ("pdf",))} == {".pdf"}
    with pytest.raises(ArgumentError, match=r"^formats has 'bmp': there are svg, png, pdf$"):
        save(results(), tmp_path, "b", ("svg", "bmp"))
    assert not list(tmp_path.glob("b*"))


def test_the_settings_of_matplotlib_are_the_readers(tmp_path: Path) -> None:
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "black"}):
        before = dict(matplotlib.rcParams)
        mine = save(results(), tmp_path, "mine", ("svg",))
        assert dict(matplotlib.rcParams) == before
    usual = save(results(), tmp_path, "usual", ("svg",))
    assert [path.read_bytes() for path in mine] == [path.read_bytes() for path in usual]


def test_matplotlib_is_not_needed_until_there_is_something_to_draw() -> None:
    hidden = "import sys; sys.modules['matplotlib'] = None"
    code = f"{hidden}; from beamsplit.evaluation import plots; plots.plots({{}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: beamsplit.evaluation.plots needs matplotlib: {install_line('evaluate')}"
    )
