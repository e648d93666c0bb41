"""`translate`, `caption`, `ask` and `generate`: what goes in, and what people and machines get."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from beamsplit import (
    BeamSearch,
    DiverseBeamSearch,
    Hypotheses,
    Hypothesis,
    LateBranching,
    LengthNormalised,
    NGram,
    Sampling,
    cli,
    decode,
)
from beamsplit.cli.showing import _marked, show_lists
from beamsplit.comparison import compare_lists
from beamsplit.extras import install_line
from beamsplit.loading import load_model
from beamsplit.models import load
from beamsplit.strategies.defaults import default_strategy
from cli.commands import Terminal, entries, give_stdin, printed, refusal

TEXT = "Where did you leave the keys?"
SMALL = ("--groups", "2", "--beams-per-group", "1", "--max-length", "12")


def test_the_lists_are_those_of_the_library(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = entries(capsys, "translate", TEXT)
    model = load("en-fr")
    for found, strategy in ((line, default_strategy(model)), (line["beside"], BeamSearch(beams=6))):
        (expected,) = decode(model, [TEXT], strategy, max_length=160)
        assert [each["text"] for each in found["hypotheses"]] == list(expected.distinct().texts)
        assert [each["log_prob"] for each in found["hypotheses"]] == [h.log_prob for h in expected.distinct()]
        assert found["repeats"] == len(expected) - len(expected.distinct())
    assert (line["id"], line["input"]) == ("0", TEXT)
    assert line["strategy"] == "late branching: 6 outputs"


def test_options_reach_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("-g", "4", "-b", "1", "-s", "2", "-d", "ngram:n=3", "--max-length", "9", "--alone")
    (line,) = entries(capsys, "translate", TEXT, *options)
    strategy = DiverseBeamSearch(groups=4, strength=2.0, diversity=NGram(n=3))
    (expected,) = decode(load("en-fr"), [TEXT], strategy, max_length=9)
    assert [each["text"] for each in line["hypotheses"]] == list(expected.distinct().texts)
    assert "beside" not in line


def said(lines: list[dict[str, Any]]) -> list[list[str]]:
    return [[each["text"] for each in line["hypotheses"]] for line in lines]


def test_samples_depend_on_the_seed_and_on_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--strategy", "sampling", "--temperature", "1.5", "--alone", "--max-length", "12", "--json")
    both = entries(capsys, "translate", "I'm cold.", TEXT, *options, "--seed", "3")
    apart = entries(capsys, "translate", "I'm cold.", TEXT, *options, "--seed", "3", "--batch-size", "1")
    other = entries(capsys, "translate", "I'm cold.", TEXT, *options, "--seed", "4")
    assert said(both) == said(apart) != said(other)
    strategy = Sampling(samples=6, temperature=1.5)
    expected = decode(load("en-fr"), ["I'm cold.", TEXT], strategy, max_length=12, seed=3)
    assert said(both) == [list(each.distinct().texts) for each in expected]


def test_arguments_files_and_standard_input_are_alike(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = "\ufeffI'm cold.\r\n  Thank you.  \n"
    (tmp_path / "lines.txt").write_text(lines, encoding="utf-8")
    argued = entries(capsys, "translate", "I'm cold.", "Thank you.", *SMALL)
    filed = entries(capsys, "translate", "--file", str(tmp_path / "lines.txt"), *SMALL)
    give_stdin(monkeypatch, lines.removeprefix("\ufeff"))
    piped = entries(capsys, "translate", *SMALL)
    give_stdin(monkeypatch, "Thank you.\n")
    mixed = entries(capsys, "translate", "I'm cold.", "-", *SMALL)
    assert argued == filed == piped == mixed
    assert [line["input"] for line in argued] == ["I'm cold.", "Thank you."]


def test_lines_keep_their_numbers_where_others_are_blank_or_cannot_be_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = b"I'm cold.\n\ncaf\xe9\nThank you.\n"
    (tmp_path / "lines.gz").write_bytes(gzip.compress(lines))
    for arguments in (("--file", str(tmp_path / "lines.gz")), ("-",), ()):
        give_stdin(monkeypatch, lines)
        assert cli.main(["translate", *arguments, *SMALL]) == 2
        shown = capsys.readouterr()
        found = [json.loads(line) for line in shown.out.splitlines()]
        assert [(line["id"], line["input"]) for line in found] == [("0", "I'm cold."), ("3", "Thank you.")]
        (error,) = shown.err.splitlines()
        assert error.startswith("beamsplit: input 3, 'caf\N{REPLACEMENT CHARACTER}': ")
        assert ", line 3 is not UTF-8 (byte 4 is 0xe9): convert the file" in error


def test_a_tree_is_drawn_of_the_one_line_that_is_not_blank(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree = tmp_path / "tree.svg"
    give_stdin(monkeypatch, "\nI'm cold.\n")
    (line,) = entries(capsys, "translate", "--tree", str(tree), *SMALL)
    assert (line["input"], tree.exists()) == ("I'm cold.", True)
    give_stdin(monkeypatch, b"\xe9\n")
    assert refusal(capsys, "translate", "--tree", str(tree), *SMALL).startswith(
        "standard input, line 1 is not "
    )


def test_one_bad_input_costs_no_other_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 200
    assert cli.main(["translate", "I'm cold.", " ", "Thank you.", long, *SMALL]) == 2
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == ["0", "2"]
    empty, too_long = shown.err.splitlines()
    assert empty == "beamsplit: input 2, ' ': is empty: there is nothing to translate"
    assert too_long.startswith("beamsplit: input 4, 'word word")
    assert "wo...': has " in too_long
    assert too_long.endswith("the translator reads at most 160: split it into sentences")


def test_a_text_in_another_script_is_not_translated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    russian, said = "Спасибо!!!", "in letters the translator does not know: it reads English"
    assert cli.main(["translate", russian, *SMALL]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"beamsplit: input 1, '{russian}': {said}\n")
    give_stdin(monkeypatch, russian)
    assert cli.main(["decode", "-", *SMALL]) == 2
    assert json.loads(capsys.readouterr().out)["error"] == said


def test_a_table_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    wide = printed(capsys, "translate", TEXT, "--table", "--strategy", "dbs", "--strength", "3")
    (both,) = [line for line in wide.splitlines() if line.count("Où as-tu laissé les clés ?") == 2]
    assert both.split()[0] == "-1.56"
    (head,) = [line for line in wide.splitlines() if "diverse beam search" in line]
    assert "beam search" in head.partition("diverse")[0]
    assert "+" in wide
    assert wide.count("distinct n-grams a word, n=1-4: 0.") == 2
    titles, heads = (
        next(line for line in wide.splitlines() if word in line) for word in ("6 beams", "log p")
    )
    assert "3 groups of 2" in titles  # beside it, and so are the lists
    assert heads.count("log p") == heads.count("output") == 2
    monkeypatch.setenv("COLUMNS", "60")
    narrow = printed(capsys, "translate", TEXT, "--table", "--strategy", "dbs", "--strength", "3")
    assert all(len(line) <= 60 for line in narrow.splitlines())
    (title,) = [line for line in narrow.splitlines() if "6 beams" in line]
    assert title.strip() == "6 beams"  # the other list stands below
    assert "Pourquoi" in narrow


def test_a_table_says_that_an_output_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = [Hypothesis((2,), -1.0, -1.0, text=""), Hypothesis((5, 6), -2.0, -2.0, group=1, text="\n")]
    lists = compare_lists([("BS", Hypotheses([*outputs, Hypothesis((8, 9), -3.0, -3.0)]))])
    show_lists("input", lists, ["log-prob"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("-")]
    assert rows == [["-1.00", "0", "(empty)"], ["-2.00", "1", "(blank)"], ["-3.00", "0", "8", "9"]]


def test_groups_have_the_same_numbers_in_tables_and_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("translate", TEXT, "--strategy", "dbs", "--strength", "3", "--alone")
    (line,) = entries(capsys, *asked)
    rows = re.findall(r"^ *(-\d+\.\d\d) +(\d) ", printed(capsys, *asked, "--table"), re.MULTILINE)
    assert rows == [(f"{each['log_prob']:.2f}", str(each["group"])) for each in line["hypotheses"]]
    assert {group for _, group in rows} == {"0", "1", "2"}


def test_what_differs_is_marked_where_it_stands_without_the_margin() -> None:
    marked = _marked(" to go home", ((4, 6),))
    assert marked.plain == "to go home"
    assert [(span.start, span.end) for span in marked.spans] == [(3, 5)]


def test_what_differs_is_marked_and_colours_are_given_up_on_demand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Terminal()
    for name in ("TERM", "FORCE_COLOR"):
        monkeypatch.setenv(name, "xterm-256color" if name == "TERM" else "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stdout", screen)
    assert (
        cli.main(["translate", TEXT, "--strategy", "dbs", "--strength", "3"]) == 0
    )  # a table, since this is a terminal
    assert "\x1b[1;4mavez\x1b[0m" in screen.getvalue()
    assert "\x1b[38;" in screen.getvalue()  # the groups' colours
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    monkeypatch.setattr(sys, "stdout", plain)
    assert cli.main(["translate", TEXT, "--strategy", "dbs", "--strength", "3"]) == 0
    assert "\x1b[38;" not in plain.getvalue()
    assert "\x1b[1;4mavez" in plain.getvalue()  # which is no colour


def test_nothing_given_on_a_terminal_is_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert cli.main(["translate", *SMALL]) == 0
    shown = capsys.readouterr()
    assert shown.err == "Nothing given, so here is an example: 'I need to talk to you in person.'\n"
    assert json.loads(shown.out)["input"] == "I need to talk to you in person."


def test_the_tree_is_that_of_the_search(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tree = tmp_path / "tree.svg"
    (drawn,) = entries(capsys, "translate", "I'm cold.", *SMALL, "--tree", str(tree))
    assert drawn == entries(capsys, "translate", "I'm cold.", *SMALL)[0]
    root = ElementTree.parse(tree).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    assert "froid" in text
    assert "diverse beam search" in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--tree", "x.svg", "a", "b"), "--tree draws the search for one input, and there are 2: give one"),
        (("a", "--strategy", "dps"), "there is no strategy 'dps': did you mean 'dbs'?"),
        (
            ("a", "--diversity", "haming"),
            "diversity is 'haming', and there is no such term: did you mean 'hamming'?",
        ),
        (("a", "--diversity", "ngram:2"), "diversity is 'ngram:2': give one such as cumulative, or "),
        (("a", "--diversity", "ngram:n=0"), "diversity: n must be a whole number of at least 1, not 0"),
        (("a", "--diversity", "ngram:m=2"), "diversity: ngram has no setting 'm': it has n"),
        (("a", "--strength", "-1"), "strength must be a finite number of 0 or more, not -1.0"),
        (("a", "--top-p", "0.9"), "branching has no setting 'top_p': it is for chunks, sampling, "),
        (
            ("a", "--strategy", "bs", "-s", "3"),
            "--strength is for dbs, branching, chunks, divmbest, diverse-sampling and diverse-arithmetic, ",
        ),
        (
            ("a", "--strategy", "nucleus", "-d", "ngram"),
            "--diversity is for dbs, divmbest, diverse-",
        ),
        (("a", "--tree", "x.png"), "--tree is 'x.png', and the picture is SVG: give FILE.svg"),
        (("a", "--tree", "new/x.svg"), "there is no folder new for x.svg: make it first"),
        (("a", "--tree", "."), ". is a folder: give the name of a file in it"),
        (("a", "--strategy", "nucleus", "--top-p", "2"), "top_p must be above 0 and at most 1, not 2.0"),
        (("a", "--groups", "0"), "Invalid value for '--groups' / '-g': 0 is not in the range 1<=x<=10000. "),
        (("a", "--length-penalty", "-1"), "--length-penalty is -1.0: give a finite number of 0 or more"),
        (("a", "--json", "--table"), "--json and --table exclude each other "),
        (("a", "--device", "tpu9"), "device 'tpu9' cannot be used: "),
        (("--file", "nowhere.txt"), "nowhere.txt cannot be read: No such file or directory"),
        (("a", "--min-length", "9", "--max-length", "3"), "min_length=9 is more than max_length=3: "),
    ],
)
def test_mistakes_are_one_line(
    arguments: tuple[str, ...],
    line: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert refusal(capsys, "translate", *arguments).startswith(line)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")],
)
def test_too_little_memory_is_said(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from beamsplit.jobs import batches

    def fails(_model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        if inputs:
            raise error

    monkeypatch.setattr(batches, "decode", fails)
    line = refusal(capsys, "translate", "a")
    assert line == "not enough memory: ask for fewer groups, beams or inputs at once"


def test_an_empty_pipe_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    give_stdin(monkeypatch, "\n")
    assert refusal(capsys, "translate") == "there is nothing to decode: the input is empty"
    (tmp_path / "latin.txt").write_bytes("été\n".encode("latin-1"))
    assert "latin.txt, line 1 is not UTF-8 (byte 1 is 0xe9): convert the file (" in refusal(
        capsys, "translate", "--file", str(tmp_path / "latin.txt")
    )
    (tmp_path / "lines.zip").write_bytes(b"PK\x03\x04")
    line = refusal(capsys, "translate", "--file", str(tmp_path / "lines.zip"))
    assert line.endswith("lines.zip is a zip archive, not lines of text: unpack it first (unzip)")


# Pictures


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("efficientnet_lite_pytorch")
    path = tmp_path / "sea.png"
    picture = image.new("RGB", (64, 48), "skyblue")
    picture.paste("navy", (0, 24, 64, 48))
    picture.save(path)
    return path


@pytest.mark.usefixtures("picture")
def test_no_picture_given_on_a_terminal_is_an_example(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert cli.main(["caption"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("Nothing given, so here is an example (beamsplit caption photo.jpg ")
    assert "boat" in json.loads(shown.out)["hypotheses"][0]["text"]


@pytest.mark.parametrize(("command", "name"), [("caption", "captioner"), ("ask", "questioner")])
def test_pictures_by_path_by_list_and_by_pipe(
    command: str,
    name: str,
    picture: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (line,) = entries(capsys, command, str(picture))
    (expected,) = decode(load_model(name), [str(picture)], LateBranching(outputs=6), max_length=20)
    assert [each["text"] for each in line["hypotheses"]] == list(expected.distinct().texts)
    (picture.parent / "list.txt").write_text("sea.png\n")
    (listed,) = entries(capsys, command, "--file", str(picture.parent / "list.txt"))
    give_stdin(monkeypatch, picture.read_bytes())
    (piped,) = entries(capsys, command, "-")
    assert [line["input"], listed["input"], piped["input"]] == [str(picture), "sea.png", "standard input"]
    assert line["hypotheses"] == listed["hypotheses"] == piped["hypotheses"]
    give_stdin(monkeypatch, f"{picture}\n{picture}\n")  # paths, not a picture
    assert said(entries(capsys, command)) == said([line, line])


def test_what_is_no_picture_is_said(
    picture: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = picture.with_name("bad.png")
    bad.write_bytes(picture.read_bytes()[:60])
    assert cli.main(["caption", str(bad), str(picture), str(picture.with_name("none.png"))]) == 2
    shown = capsys.readouterr()
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == ["1"]
    first, second = shown.err.splitlines()
    assert re.fullmatch(r"beamsplit: input 1, '.*': is damaged or of a kind that cannot be decoded .*", first)
    assert first.count("bad.png") <= 1  # which is enough
    assert "cannot be read: No such file or directory" in second
    give_stdin(monkeypatch, b"")
    assert refusal(capsys, "caption", "-").startswith("standard input is empty: give a picture")
    give_stdin(monkeypatch, b"not a picture")
    assert refusal(capsys, "caption", "-").startswith("standard input has 13 bytes that are no picture: ")


# Other models

OWN = """
import torch
from beamsplit.testing import MarkovModel

class Words(MarkovModel):
    def start(self, texts):
        return super().start(torch.tensor([len(text) % 3 for text in texts]))

    def to_text(self, tokens):
        return " ".join("abc"[i] for i in tokens)

def make():
    return Words(torch.tensor([[0.1, 0.7, 0.2], [0.3, 0.1, 0.6], [0.8, 0.15, 0.05]]).log())
"""


def test_a_model_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    model = f"{tmp_path / 'own.py'}:make"
    # After "xyz" (0): b likeliest, then c, then a, ...; each group says another first token.
    options = ("-g", "2", "-b", "1", "-s", "9", "--max-length", "3")
    (line,) = entries(capsys, "generate", "--model", model, "xyz", *options)
    assert [each["text"] for each in line["hypotheses"]] == ["b c a", "c a b"]
    assert [each["group"] for each in line["hypotheses"]] == [0, 1]
    assert refusal(capsys, "generate", "xyz") == (
        "--model is missing: give a model, or --engine (beamsplit generate --help says more)"
    )


def test_a_list_that_falls_short_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are three outputs of one token."""
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "own.py").write_text(OWN)
    command = ("generate", "--model", f"{tmp_path / 'own.py'}:make", "xyz", "--max-length", "1")
    (line,) = entries(capsys, *command, "--outputs", "5")
    assert (line["asked"], len(line["hypotheses"]), line["repeats"]) == (5, 3, 0)
    assert (line["beside"]["asked"], len(line["beside"]["hypotheses"])) == (5, 3)
    said = "3 different outputs of the 5 asked for"
    assert printed(capsys, *command, "--outputs", "5", "--table").count(said) == 2
    assert "asked for" not in printed(capsys, *command, "--outputs", "3", "--table", "--alone")
    alike = printed(capsys, *command, "-g", "3", "-b", "1", "-s", "0", "--table", "--alone")
    more = "2 more have the same text as one of these (see --strength, --unique)"
    assert f"1 different output of the 3 asked for; {more}" in alike
    chosen = printed(capsys, *command, "--outputs", "5", "--select", "4", "--table", "--alone")
    assert "3 different outputs of the 4 asked for" in chosen


def test_a_model_of_ones_own_that_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    failing = OWN.replace("super().start(", "super().begin(")
    (tmp_path / "own.py").write_text(failing)
    model = f"{tmp_path / 'own.py'}:make"
    (number,) = [i for i, line in enumerate(failing.splitlines(), 1) if "begin" in line]
    line = refusal(capsys, "generate", "--model", model, "xyz")
    assert line.startswith(f"{model} failed: AttributeError: 'super' object has no attribute 'begin'")
    assert line.endswith(f"(own.py, line {number}); its inputs are a list of texts")


def test_a_model_of_transformers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from huggingface.test_loading import save

    folder = str(save("llama", tmp_path / "model"))
    (line,) = entries(capsys, "generate", "-m", folder, "ab", "-g", "3", "-b", "1", "--max-length", "4")
    strategy = DiverseBeamSearch(groups=3, strength=1.0)
    scorer = LengthNormalised(stop="first")
    (expected,) = decode(
        load_model(folder), ["ab"], strategy, max_length=4, min_length=2, no_repeat_ngram=4, scorer=scorer
    )
    assert [each["text"] for each in line["hypotheses"]] == list(expected.distinct().texts)
    assert line["order"] == "score"


# The program itself


def test_no_extra_is_needed(tmp_path: Path) -> None:
    """What a bare installation has is enough for texts; for pictures, it says what to install."""
    extras = (
        "transformers PIL efficientnet_lite_pytorch sacrebleu pycocoevalcap optuna matplotlib sklearn scipy"
    )
    more = "fastapi uvicorn starlette pydantic sqlalchemy jinja2 krippendorff psycopg"
    program = f"""
import sys
for name in "{extras} {more}".split():
    sys.modules[name] = None
from beamsplit import cli
assert cli.main(["translate", "I'm cold.", "--tree", "tree.svg"]) == 0
assert cli.main(["models"]) == 0
sys.exit(cli.main(["caption", "photo.jpg"]))
"""
    found = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        timeout=120,
    )
    assert found.returncode == 2, found.stderr
    assert "froid" in found.stdout
    (line,) = found.stderr.splitlines()
    assert line.endswith(install_line("vision"))


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "many.txt").write_text("I'm cold.\n" * 40)
    command = f"{sys.executable} -m beamsplit translate -f many.txt --batch-size 1 -g 1 -b 1 | head -n 1"
    found = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120
    )
    assert json.loads(found.stdout)["input"] == "I'm cold."
    assert found.stderr == ""


def test_a_strength_alone_is_that_of_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    (plain,) = entries(capsys, "translate", TEXT, "--alone")
    (same,) = entries(capsys, "translate", TEXT, "--alone", "-s", "0.8")
    (strong,) = entries(capsys, "translate", TEXT, "--alone", "-s", "3")
    assert plain["hypotheses"] == same["hypotheses"] != strong["hypotheses"]
    assert strong["order"] == "choice"
