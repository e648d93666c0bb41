"""Pictures of searches, read back from their SVG: all is there, nothing stands on anything else."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamsplit import (
    ArgumentError,
    BeamSearch,
    Cumulative,
    DiverseBeamSearch,
    DivMBest,
    Hypotheses,
    Hypothesis,
    LateBranching,
    Sampling,
    Strategy,
    models,
    steps,
)
from beamsplit.recording import Branch, Recorder, Recording, record
from beamsplit.testing import PrefixHashModel
from beamsplit.tree import draw, svg, text
from beamsplit.tree.drawing import COLOURS, DASHES

SVG = "{http://www.w3.org/2000/svg}"
SENTENCE = "I have to find a new job before the summer."
DIVERSE = DiverseBeamSearch(groups=3, beams_per_group=2, strength=1.5, diversity=Cumulative(temperature=2.0))
STRATEGIES: dict[str, Strategy] = {
    "beam": BeamSearch(beams=6),
    "diverse": DIVERSE,
    "staggered": DiverseBeamSearch(groups=3, beams_per_group=2, schedule="staggered"),
    "divmbest": DivMBest(runs=3, beams=2),
    "sampling": Sampling(samples=6),
    "branching": LateBranching(outputs=6),
}


# Reading a picture


@dataclass(frozen=True)
class Box:
    """Where a text stands."""

    left: float
    top: float
    right: float
    bottom: float
    said: str
    looks: str

    def has(self, x: float, y: float) -> bool:
        return self.left < x < self.right and self.top < y < self.bottom


@dataclass(frozen=True)
class Line:
    start: tuple[float, float]
    turn: float
    end: tuple[float, float]
    looks: str
    stroke: str
    width: float

    @property
    def points(self) -> list[tuple[float, float]]:
        """Along the line: straight to the turn, and the bow from there."""
        (x0, y0), (x1, y1) = self.start, self.end
        straight = [(x0 + (self.turn - x0) * i / 40, y0) for i in range(41)]
        middle = (self.turn + x1) / 2
        bow = (self.turn, middle, middle, x1), (y0, y0, y1, y1)
        return straight + [(_bezier(i / 40, bow[0]), _bezier(i / 40, bow[1])) for i in range(41)]


def _bezier(t: float, four: Sequence[float]) -> float:
    return sum(math.comb(3, i) * t**i * (1 - t) ** (3 - i) * each for i, each in enumerate(four))


class Picture:
    """What a reader sees."""

    def __init__(self, source: str) -> None:
        self.root = ET.fromstring(source)
        _, _, self.width, self.height = map(float, self.root.attrib["viewBox"].split())
        self.boxes = [_box(each) for each in self.root.iter(f"{SVG}text")]
        self.lines = [_line(each) for each in self.root.iter(f"{SVG}path")]
        self.roots = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in self.root.iter(f"{SVG}circle")]
        self.squares = [
            each for each in self.root.iter(f"{SVG}rect") if "bs-paper" not in each.attrib["class"]
        ]

    def texts(self, looks: str) -> list[str]:
        return [box.said for box in self.boxes if box.looks == looks]

    def drawn(self, looks: str) -> list[Line]:
        return [line for line in self.lines if line.looks == looks]

    def read(self, place: str) -> list[str]:
        """The words on the way to a hypothesis, found by following the lines back from its place."""
        (words,) = self.read_all(place)
        return words

    def read_all(self, place: str) -> list[list[str]]:
        """The same, where several have a place, since they read alike."""
        boxes = [box for box in self.boxes if box.looks == "bs-place" and box.said == place]
        return [self._read_from(box) for box in boxes]

    def _read_from(self, box: Box) -> list[str]:
        (leader,) = [line for line in self.drawn("bs-leader") if box.has(box.left + 0.1, line.end[1])]
        at, words = leader.start, list[str]()
        while at not in self.roots:
            before = [line for line in self.drawn("bs-kept") if line.end[1] == at[1] and line.end[0] < at[0]]
            line = max(before, key=lambda line: line.end)
            x, y = line.end
            words += [b.said for b in self.boxes if b.looks == "bs-text" and b.has(x + 3.1, y)]
            at = line.start
        return words[::-1]


def _box(element: ET.Element) -> Box:
    x, y, size = (float(element.attrib[key]) for key in ("x", "y", "font-size"))
    said = element.text or ""
    length = float(element.get("textLength", text.width(said, size)))
    return Box(x, y - 0.72 * size, x + length, y + 0.21 * size, said, element.attrib["class"])


def _line(element: ET.Element) -> Line:
    bare = re.fullmatch(r"M([\d.]+),([\d.]+)H([\d.]+)(?:C\S+ \S+ ([\d.]+),([\d.]+))?", element.attrib["d"])
    assert bare, element.attrib["d"]
    x0, y0, turn = (float(bare[i]) for i in (1, 2, 3))
    end = (float(bare[4]), float(bare[5])) if bare[4] else (turn, y0)
    looks, stroke = element.attrib["class"], element.attrib["stroke"]
    return Line((x0, y0), turn, end, looks, stroke, float(element.get("stroke-width", 1)))


# What is drawn


@cache
def _translated(name: str) -> Recording:
    (made,) = record(models.load("en-fr"), [SENTENCE], STRATEGIES[name], max_length=20, title=name)
    return made


class Wordy(PrefixHashModel):
    def to_text(self, tokens: Sequence[int]) -> str:
        return " ".join("considerably"[: 2 + token % 9] for token in tokens)


Path = tuple[int, Sequence[str], bool]  # group, texts, and whether it is a hypothesis


def _recording(*paths: Path, cost: float = 0.0, title: str = "by hand", finished: bool = True) -> Recording:
    """A search that tried these and nothing else; equal texts are equal tokens."""
    branches: list[Branch] = []
    known: dict[tuple[int, tuple[str, ...]], int] = {}
    for group, texts, kept in paths:
        for t in range(len(texts)):
            before = known.get((group, tuple(texts[:t])), -1)
            if (group, tuple(texts[: t + 1])) not in known:
                known[group, tuple(texts[: t + 1])] = len(branches)
                fate: Any = "lives" if kept or t + 1 < len(texts) else "dropped"
                token = _token(texts[t])
                branches.append(Branch(before, group, t, token, texts[t], -1.0, -1.0, cost, fate))
    found = [
        Hypothesis(tuple(map(_token, texts)), -float(i), -float(i), group, finished, "".join(texts))
        for i, (group, texts, kept) in enumerate(paths)
        if kept
    ]
    return Recording(title, tuple(branches), Hypotheses(found))


def _token(said: str) -> int:
    return int.from_bytes(said.encode("utf-8", "surrogatepass"), "big")


ODD = [
    "",
    " ",
    "a",
    " b",
    "<&>\"'",
    "]]>",
    "\0\n\t",
    "\ud800",
    "\u202e",
    "漢字",
    " العربية",
    "👩‍👩‍👧",
    "e\u0301",
    "W" * 40,
]


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Anything that a search might have done, and more: odd texts, many groups, ends in the midst."""
    said = st.sampled_from(ODD) | st.text(max_size=6)
    branches: list[Branch] = []
    tokens: list[tuple[int, ...]] = []
    for group in range(draw(st.integers(1, 8))):
        last = [-1]
        for time in range(draw(st.integers(1, 5))):
            born = []
            for parent in draw(st.lists(st.sampled_from(last), min_size=1, max_size=4)):
                token, cost = (
                    draw(st.integers(0, 3)),
                    draw(st.sampled_from([0.0, 0.0, 0.5, 1234.5, math.inf])),
                )
                fate: Any = draw(st.sampled_from(["lives", "ended", "dropped"]))
                born.append(len(branches))
                branches.append(Branch(parent, group, time, token, draw(said), -1.0, -1.0, cost, fate))
                tokens.append((*(() if parent == -1 else tokens[parent]), token))
            last = born
    ends = draw(st.lists(st.sampled_from(range(len(branches))), max_size=6))
    found = [Hypothesis(tokens[end], -float(i), 0.0, branches[end].group) for i, end in enumerate(ends)]
    return Recording(draw(st.text(max_size=30)), tuple(branches), Hypotheses(found), draw(st.booleans()))


def _check(source: str) -> Picture:
    """The laws of every picture."""
    picture = Picture(source)
    for box in picture.boxes:
        assert 0 <= box.left <= box.right <= picture.width
        assert 0 <= box.top <= box.bottom <= picture.height
        assert box.said.strip(), "a text that says nothing"
    for one, other in itertools.combinations(picture.boxes, 2):
        apart = one.right <= other.left or other.right <= one.left
        assert apart or one.bottom <= other.top or other.bottom <= one.top, (one, other)
    for line in picture.lines:
        near = [box for box in picture.boxes if box.left < line.end[0] and line.start[0] < box.right]
        for x, y in line.points:
            assert 0 <= x <= picture.width
            assert 0 <= y <= picture.height
            assert not any(box.has(x, y) for box in near), line
    _check_policy(source, picture)
    return picture


def _check_policy(source: str, picture: Picture) -> None:
    """What a strict page forbids, and what has no place in a picture."""
    names = {element.tag.removeprefix(SVG) for element in picture.root.iter()}
    assert names <= {"svg", "title", "desc", "g", "rect", "circle", "path", "text"}
    attributes = {name for element in picture.root.iter() for name in element.attrib}
    assert not attributes & {"style", "href", "id", "onload", "onclick"}
    assert not any("url(" in value for element in picture.root.iter() for value in element.attrib.values())
    source.encode()  # no half characters


# Laws


@settings(max_examples=50, deadline=None)
@given(st.lists(recordings(), min_size=1, max_size=2), st.sampled_from([None, True, False]), st.booleans())
def test_any_recording_makes_a_picture_in_which_nothing_overlaps(
    several: list[Recording], dropped: bool | None, fold: bool
) -> None:
    source = draw(several, dropped=dropped, fold=fold)
    assert source == draw(several, dropped=dropped, fold=fold)
    picture = _check(source)
    outcomes = sum(
        len({(h.group * (not each.one_tree), h.tokens) for h in each.hypotheses}) for each in several
    )
    assert len(picture.texts("bs-place")) == len(picture.drawn("bs-leader")) == outcomes


@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_overlaps_in_the_picture_of_a_translation(name: str) -> None:
    _check(_translated(name).svg())
    _check(draw([_translated(name)], fold=True, dropped=False))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_hypothesis_can_be_read_along_its_branches(name: str) -> None:
    recording = _translated(name)
    picture = Picture(recording.svg())
    distinct = recording.hypotheses.distinct()
    assert {*picture.texts("bs-place")} == {str(place) for place in range(1, len(distinct) + 1)}
    for place, found in enumerate(distinct, 1):  # as lists are shown: each text once
        assert found.text is not None
        for words in picture.read_all(str(place)):
            assert "".join(words).replace("·", "") == found.text.replace(" ", "")


@pytest.mark.parametrize("name", STRATEGIES)
def test_folding_changes_how_the_words_are_set_and_no_word(name: str) -> None:
    recording = _translated(name)
    picture, folded = (Picture(draw([recording], dropped=False, fold=fold)) for fold in (False, True))
    assert folded.width < picture.width
    for place in folded.texts("bs-place"):
        for words, runs in zip(picture.read_all(place), folded.read_all(place), strict=True):
            assert len(runs) < len(words)
            assert re.sub("[ ·]", "", "".join(runs)) == re.sub("[ ·]", "", "".join(words))


@pytest.mark.parametrize("name", STRATEGIES)
def test_kept_branches_are_strong_and_the_others_faint(name: str) -> None:
    recording = _translated(name)
    picture = Picture(recording.svg())
    spelled: dict[int, tuple[int, ...]] = {}
    for place, branch in enumerate(recording.branches):
        before = spelled[branch.parent] if branch.time else (branch.group * (not recording.one_tree),)
        spelled[place] = (*before, branch.token)
    kept = {spelled[place] for place in recording.kept}
    strong, faint = picture.drawn("bs-kept"), picture.drawn("bs-dropped")
    assert (len(strong), len(faint)) == (len(kept), len({*spelled.values()} - kept))
    assert {(line.stroke, line.width) for line in strong} == {("currentColor", 1.8)}
    assert {(line.stroke, line.width) for line in faint} <= {(svg.FAINT_LINE, 0.8)}


def test_penalties_stand_below_the_words_that_paid() -> None:
    recording = _recording((0, ["one", " two"], True), (0, ["one", " three"], False))
    paid = [replace(b, cost=c) for b, c in zip(recording.branches, [0.5, 0.0, 2.25], strict=True)]
    picture = _check(replace(recording, branches=tuple(paid)).svg())
    costs = {box.said: box for box in picture.boxes if box.said.startswith("−")}
    words = {box.said: box for box in picture.boxes}
    assert set(costs) == {"−0.5", "−2.2"}
    assert costs["−0.5"].left == words["one"].left
    assert costs["−2.2"].left == words["three"].left
    assert 0 < costs["−2.2"].top - words["three"].bottom < 6


def test_penalties_of_a_folded_run_are_added() -> None:
    recording = _recording((0, ["on", " top", " of"], True), cost=0.5)
    assert "−1.5" in Picture(draw([recording], fold=True)).texts("bs-faint")
    assert "−1.5" not in Picture(draw([recording])).texts("bs-faint")


def test_the_list_at_the_right_has_places_and_log_probabilities() -> None:
    recording = _translated("diverse")
    picture = Picture(recording.svg())
    rows = {box.top: box.said for box in picture.boxes if box.looks == "bs-place"}
    worths = {rows[box.top]: box for box in picture.boxes if box.said.startswith("−") and box.top in rows}
    shown = [worths[str(place)].said for place in range(1, 7)]
    assert shown == [f"{h.log_prob:.2f}".replace("-", "−") for h in recording.hypotheses]
    assert len({round(box.right, 1) for box in worths.values()}) == 1


def test_samples_that_repeat_share_branches_and_a_line_of_the_list() -> None:
    (again,) = record(PrefixHashModel(2, seed=1, scale=1.0), [0], Sampling(samples=8), max_length=1)
    picture = _check(again.svg())
    assert len(picture.drawn("bs-kept")) == len(picture.texts("bs-place")) == 2
    assert {*picture.texts("bs-place")} == {"1", "2"}


def test_what_reads_alike_has_one_place() -> None:
    """As in lists, where each text stands once, whatever pieces it is made of."""
    branches = tuple(Branch(-1, g, 0, token, "a", -1.0, -1.0, 0.0, "lives") for g, token in ((0, 5), (1, 6)))
    outputs = [Hypothesis((branch.token,), -1.0, -1.0, branch.group, text="a") for branch in branches]
    picture = Picture(Recording("", branches, Hypotheses(outputs)).svg())
    assert picture.texts("bs-place") == ["1", "1"]


def test_a_hypothesis_that_another_goes_on_from_has_a_place_of_its_own() -> None:
    recording = _recording((0, ["a", " b"], True), (0, ["a", " b", " c"], True))
    picture = _check(recording.svg())
    assert (picture.read("1"), picture.read("2")) == (["a", "b"], ["a", "b", "c"])


def test_a_hypothesis_that_only_the_dead_go_on_from_ends_a_run() -> None:
    recording = _recording((0, ["a", " b"], True), (0, ["a", " b", " c"], False))
    picture = _check(draw([recording], fold=True))
    assert picture.read("1") == ["a b"]
    assert "c" in picture.texts("bs-faint")


def test_the_best_goes_straight_on_and_the_dead_stand_close_to_what_they_come_from() -> None:
    """By hand:

    o─ a ─ b ─ c        1
         ╰ f ─ h ─ i
             ╰ g ╰ j
         ╰ d ─ e        2
    """
    dead: list[Path] = [(0, ["a", " f", *rest], False) for rest in ([" g"], [" h", " i"], [" h", " j"])]
    recording = _recording((0, ["a", " b", " c"], True), *dead, (0, ["a", " d", " e"], True))
    picture = _check(recording.svg())
    heights = {box.said: box.top for box in picture.boxes if box.said in "abcdefghij"}
    rows = {top: row for row, top in enumerate(sorted({*heights.values()}))}
    placed = ["".join(word for word in sorted(heights) if rows[heights[word]] == row) for row in range(4)]
    assert placed == ["abc", "fhi", "gj", "de"]


def test_kept_lines_are_drawn_over_the_others() -> None:
    looks = [line.looks for line in Picture(_translated("beam").svg()).lines]
    assert looks.index("bs-kept") > max(i for i, each in enumerate(looks) if each == "bs-dropped")


# Ends, words and signs


def test_ends_are_squares_and_what_is_not_finished_has_none() -> None:
    ended = _recording((0, ["a", ""], True), (0, ["b", ""], False))
    picture = _check(ended.svg())
    assert [each.attrib["class"] for each in picture.squares] == ["bs-end", "bs-faint"]
    running = _recording((0, ["a", " b"], True), (0, ["b", "c"], False), finished=False)
    assert not Picture(running.svg()).squares


def test_an_end_that_says_something_has_its_word_and_a_square() -> None:
    picture = _check(_recording((0, ["a", " stop"], True)).svg())
    assert picture.read("1") == ["a", "stop"]
    assert len(picture.squares) == 1


def test_a_token_that_says_nothing_though_others_follow_gets_a_sign() -> None:
    assert Picture(_recording((0, ["a", "", " b"], True)).svg()).read("1") == ["a", "∅", "b"]


@pytest.mark.parametrize(
    ("before", "said", "shown"),
    [
        ("", "boul", "boul"),
        ("un boul", "ot", "·ot"),
        ("l'", "été", "·été"),
        ("un", " boul", "boul"),
        ("un", ".", "."),
        ("1", "2", "·2"),
        ("(", "x", "x"),
        ("今日", "は", "は"),
        ("한국", "어", "·어"),
        ("ไทย", "ดี", "ดี"),
        ("a", " ", "␣"),
        ("a", "\u202e", "␣"),
        ("a", "\u3000\xa0", "␣"),
        ("a", "\u0301", "◌\u0301"),
        ("", "", ""),
    ],
)
def test_what_goes_on_with_a_word_is_marked(before: str, said: str, shown: str) -> None:
    assert text.label(said, before) == shown


def test_markup_and_what_xml_forbids_come_out_as_text() -> None:
    said = "<script>alert('&')</script>"
    recording = _recording(
        (0, ["<b>", " \0", " \n", " \ud800", " \ufffe", " \x9f", " \u202e!"], True), title=said
    )
    picture = _check(recording.svg())
    assert picture.read("1") == ["<b>", "␀", "⏎", "\ufffd", "\ufffd", "\ufffd", "!"]
    assert said in picture.texts("bs-text")
    title = picture.root.find(f"{SVG}title")
    assert title is not None
    assert title.text == said


def test_a_long_word_is_cut_and_whole_where_one_points_at_it() -> None:
    word = "Donaudampfschifffahrtsgesellschaft"
    picture = _check(_recording((0, [word, " fährt"], True)).svg())
    short, _ = picture.read("1")
    assert short.endswith("…")
    assert word.startswith(short[:-1])
    assert 8 < len(short) < 24
    tips = [title.text for each in picture.root.iter(f"{SVG}text") for title in each.iter(f"{SVG}title")]
    assert any(tip and tip.startswith(word + ":") for tip in tips)


@given(st.text(max_size=40), st.floats(30, 200))
def test_what_is_shortened_fits_and_begins_alike(long: str, room: float) -> None:
    for shorten in (text.shorten, text.shorten_middle):
        short = shorten(long, 12, room)
        assert short == long or text.width(short, 12) <= room + 0.1
        assert long.startswith(short.split("…")[0]) or "…" in long


@pytest.mark.parametrize(
    ("said", "ems"),
    [
        ("", 0),
        ("i", 0.222),
        ("m", 0.833),
        ("é", 0.556),
        ("e\u0301", 0.556),
        ("漢", 1),
        ("👩‍👩‍👧", 1),
        ("👋🏽", 1),
    ],
)
def test_widths_are_those_of_a_plain_face(said: str, ems: float) -> None:
    assert text.width(said, 100) == pytest.approx(105 * ems, abs=0.1)


# Groups and colours


def test_groups_have_names_and_colours_of_their_own() -> None:
    recording = _recording(*((group, ["a", ""], True) for group in range(8)))
    picture = _check(recording.svg())
    assert picture.texts("bs-name") == [f"group {n}" for n in range(8)]
    groups = [each for each in picture.root.iter(f"{SVG}g") if "bs-group" in each.attrib["class"]]
    assert [each.attrib["color"] for each in groups] == [*COLOURS, *COLOURS[:2]]
    dashes = [next(each.iter(f"{SVG}path")).get("stroke-dasharray") for each in groups]
    assert dashes == [None] * 6 + [DASHES[1]] * 2


def test_groups_that_share_prefixes_make_one_tree() -> None:
    first, second = (0, ["we", " leave", " now", ""], True), (1, ["we", " go", " now", ""], True)
    third = (2, ["we", " leave", " soon", ""], True)
    dropped = (2, ["you", " go"], False)
    recording = replace(_recording(first, second, third, dropped), one_tree=True)
    picture = _check(recording.svg())
    assert not picture.texts("bs-name")
    assert len(picture.roots) == 1
    assert [picture.read(place) for place in "123"] == [
        ["we", "leave", "now"],
        ["we", "go", "now"],
        ["we", "leave", "soon"],
    ]
    assert _colours_of_words(picture) == {
        COLOURS[0]: ["we", "you", "leave", "go", "now", "1", "0.00"],  # and what was dropped
        COLOURS[1]: ["go", "now", "2"],
        COLOURS[2]: ["soon", "3"],
    }
    assert "by hand: one tree, 14 branches. 1. we leave now" in recording.svg()
    assert Recording.from_json(recording.to_json()).svg() == recording.svg()


def _colours_of_words(picture: Picture) -> dict[str, list[str]]:
    """The words and places of a picture by the colour of the group that they stand in."""
    found: dict[str, list[str]] = {}

    def look(element: ET.Element, colour: str) -> None:
        colour = element.get("color", colour)
        if element.tag == f"{SVG}text" and colour and not (element.text or "").startswith("−"):
            found.setdefault(colour, []).append(element.text or "")
        for child in element:
            look(child, colour)

    look(picture.root, "")
    return found


def test_the_tree_of_late_branching_says_where_each_output_leaves() -> None:
    recording = _translated("branching")
    picture = Picture(recording.svg())
    assert recording.one_tree
    assert len(picture.roots) == 1
    prefixes = {h.tokens[: t + 1] for h in recording.hypotheses for t in range(len(h.tokens))}
    assert len(picture.drawn("bs-kept")) == len(prefixes)  # each once
    assert {COLOURS[h.group] for h in recording.hypotheses} == set(_colours_of_words(picture))


def test_one_group_needs_no_name() -> None:
    assert not Picture(_translated("beam").svg()).texts("bs-name")


# Of Machado, Oliveira and Fernandes (2009), severity 1.
EYES = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def _linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _luminance(rgb: Sequence[float]) -> float:
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def _contrast(colour: str) -> float:
    return (_luminance(_linear(svg.PAPER)) + 0.05) / (_luminance(_linear(colour)) + 0.05)


def _lab(rgb: Sequence[float]) -> tuple[float, float, float]:
    x = (0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505
    z = (0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089
    a, b, c = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, _luminance(rgb), z))
    return 116 * b - 16, 500 * (a - b), 200 * (b - c)


def _seen(colour: str, eyes: str) -> tuple[float, float, float]:
    rgb = _linear(colour)
    return _lab([min(max(sum(map(lambda m, c: m * c, row, rgb)), 0), 1) for row in EYES[eyes]])


@pytest.mark.parametrize("eyes", EYES)
def test_colours_can_be_told_apart_by_all_eyes(eyes: str) -> None:
    for one, other in itertools.combinations(COLOURS, 2):
        assert math.dist(_seen(one, eyes), _seen(other, eyes)) > 15, (one, other)


def test_colours_can_be_seen_on_white() -> None:
    assert all(_contrast(colour) >= 4.5 for colour in (*COLOURS, svg.TEXT, svg.FAINT_TEXT))
    assert _contrast(svg.FAINT_LINE) >= 3
    picture = Picture(draw([_translated("diverse"), _translated("beam")]))
    fills = {each.get("fill") for each in picture.root.iter(f"{SVG}text")}
    strokes = {line.stroke for line in picture.lines if line.looks != "bs-rule"}
    assert fills == {svg.TEXT, svg.FAINT_TEXT, "currentColor"}
    assert strokes == {svg.FAINT_LINE, "currentColor"}


# Size


@cache
def _large() -> list[Recording]:
    both: list[Strategy] = [BeamSearch(beams=20), DiverseBeamSearch(groups=20, strength=1.0)]
    model = Wordy(200, seed=1, scale=6.0)
    return [record(model, [0], each, max_length=30, end=0)[0] for each in both]


def test_a_large_picture_is_not_too_large_and_says_what_is_missing() -> None:
    source = draw(_large())
    picture = _check(source)
    assert picture.width <= 2000
    assert picture.height <= 1250
    notes = [said for said in picture.texts("bs-faint") if "not drawn" in said]
    left_out = [len(each.branches) - len(each.kept) for each in _large()]
    assert notes == [f"+{count} dropped branches not drawn" for count in left_out]
    assert not picture.drawn("bs-dropped")
    assert any("–" in said for said in picture.texts("bs-faint"))


def test_a_small_search_is_drawn_with_all_that_it_dropped() -> None:
    picture = Picture(_translated("beam").svg())
    assert len(picture.lines) - len(picture.drawn("bs-leader")) == len(_translated("beam").branches)
    assert not any("not drawn" in said for said in picture.texts("bs-faint"))
    assert not any("–" in said for said in picture.texts("bs-faint"))


def test_what_is_asked_for_is_drawn_however_large() -> None:
    dropped = sum(len(each.branches) - len(each.kept) for each in _large())
    picture = Picture(draw(_large(), dropped=True, fold=False))
    assert len(picture.drawn("bs-dropped")) == dropped
    assert [said for said in picture.texts("bs-faint") if said in ("1", "30")] == ["1", "30"] * 2


def test_picks_that_never_lived_are_the_first_to_go() -> None:
    paths: list[Path] = [(0, ["a", "b"], True), *((0, [f" {i}", "c"], False) for i in range(40))]
    never: list[Path] = [(0, ["a", f" x{i}"], False) for i in range(70)]
    recording = _recording(*paths, *never)
    picture = _check(recording.svg())
    shown = picture.texts("bs-faint")
    assert "x7" not in shown
    assert "17" in shown
    assert "+110 dropped branches not drawn" in shown


def test_columns_are_the_same_for_searches_that_are_compared() -> None:
    picture = _check(draw([_translated("beam"), _translated("diverse")]))
    numbers = [box for box in picture.boxes if box.looks == "bs-faint" and box.said == "7"]
    assert len(numbers) == 2
    assert numbers[0].left == numbers[1].left
    assert [said for said in picture.texts("bs-text") if said in STRATEGIES] == ["beam", "diverse"]


def test_steps_fold_only_where_nothing_forks_or_ends() -> None:
    recording = _recording(
        (0, ["a", " b", " c", " d"], True), (0, ["a", " b", " e", " f"], True), (1, ["g", " h"], True)
    )
    picture = _check(draw([recording], fold=True))
    assert [said for said in picture.texts("bs-faint") if said[0].isdigit()] == ["1–2", "3–4"]
    assert (picture.read("1"), picture.read("3")) == (["a b", "c d"], ["g h"])


# On the way, and nothing at all


@pytest.mark.parametrize("name", ["diverse", "staggered", "divmbest"])
def test_a_running_search_is_drawn_as_far_as_it_has_come(name: str) -> None:
    model = models.load("en-fr")
    recorder = Recorder(model.to_text, "running")
    for step in itertools.islice(steps(model, [SENTENCE], STRATEGIES[name], max_length=20), 4):
        recorder.add(step)
        picture = _check(recorder.recording.svg())
        for place, found in enumerate(step.hypotheses[0].distinct(), start=1):
            assert found.text is not None
            for words in picture.read_all(str(place)):
                assert "".join(words).replace("·", "") == found.text.replace(" ", "")
    assert not picture.squares


def test_an_empty_recording_says_so() -> None:
    picture = _check(Recording("beam search", (), Hypotheses()).svg())
    assert picture.texts("bs-faint") == ["nothing was recorded"]
    assert picture.width < 300
    assert picture.height < 100


def test_a_group_that_found_nothing_is_drawn_all_the_same() -> None:
    picture = _check(_recording((0, ["a"], True), (1, ["b", " c"], False)).svg())
    assert {"b", "c"} <= {*picture.texts("bs-faint")}
    assert len(picture.roots) == 2


def test_a_picture_says_in_words_what_it_shows() -> None:
    root = Picture(draw([_translated("beam"), _translated("diverse")])).root
    title, description = (root.findtext(SVG + name) or "" for name in ("title", "desc"))
    assert root.attrib["role"] == "img"
    assert title == "beam and diverse"
    assert "diverse: 3 groups, 156 branches. 1. Je dois trouver" in description
    assert all(h.text and h.text in description for h in _translated("diverse").hypotheses)
    nothing_said = Recording("", (), Hypotheses([Hypothesis((2,), -1.0, -1.0, text="")]))
    assert "1. (empty) (−1.00)" in (Picture(nothing_said.svg()).root.findtext(SVG + "desc") or "")


def _legend(*paths: Path, cost: float = 0.0) -> Iterator[str]:
    picture = Picture(_recording(*paths, cost=cost).svg())
    yield from picture.boxes[-1].said.split("; ")


def test_the_legend_explains_what_there_is_and_nothing_else() -> None:
    kept, dropped, paid = "coloured: in the result", "grey: dropped", "below a word: the penalty it paid"
    assert list(_legend((0, ["a", " b"], True))) == [kept, "square: the end"]
    assert list(_legend((0, ["a", " b"], False), cost=0.5)) == [dropped, paid]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (Recording("", (), Hypotheses()), r"draw takes a list of recordings: write draw\(\[recording\]\)"),
        ([], "there is nothing to draw: no recordings"),
        (["a"], r"draw takes a list of recordings, such as record returns, not \['a'\]"),
        (7, "draw takes a list of recordings, such as record returns, not 7"),
    ],
)
def test_what_cannot_be_drawn_is_named(wrong: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError, match=complaint):
        draw(wrong)
