"""What others write is data: no file, picture or setting of theirs runs anything without a word."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from beamsplit import ArgumentError, cli
from beamsplit.evaluation import read_experiment
from cli.commands import give_stdin, refusal

ROOT = Path(__file__).parent.parent

# Code that a model's name runs

MINE = """
from pathlib import Path
from beamsplit.models import load

Path("it ran").touch()
make = lambda: load("en-fr")
"""

EXPERIMENT = """
task = "in.jsonl"
model = "theirs.py:make"
lists = ["unique"]

[methods.BS]
strategy = "bs"
beams = 2
"""

WARNING = (
    "warning: theirs.toml names the model theirs.py:make, and to load it is to run the code of theirs.py"
)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "in.jsonl").write_text('{"input": "Hello."}\n')
    (tmp_path / "theirs.py").write_text(MINE)
    (tmp_path / "theirs.toml").write_text(EXPERIMENT)
    return tmp_path


@pytest.mark.filterwarnings("always")  # which is shown as a user sees it, and is no error
def test_an_experiment_that_runs_code_says_so_first(theirs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", "theirs.toml"]) == 0
    assert capsys.readouterr().err.splitlines()[0] == f"beamsplit: {WARNING}"
    assert (theirs / "it ran").exists()


def test_the_warning_is_there_before_the_code_runs(theirs: Path) -> None:
    with pytest.warns(UserWarning, match=f"^{WARNING}$"):
        read_experiment(Path("theirs.toml"))
    assert not (theirs / "it ran").exists()


@pytest.mark.parametrize("model", ["en-fr", "mine.py:make"])
def test_nobody_is_warned_of_a_model_that_they_name_themselves(
    model: str, theirs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (theirs / "mine.py").write_text("from beamsplit.models import load\nmake = lambda: load('en-fr')\n")
    assert cli.main(["evaluate", "theirs.toml", "--model", model]) == 0
    assert "warning" not in capsys.readouterr().err
    assert not (theirs / "it ran").exists()


@pytest.mark.parametrize("model", ["en-fr", "some/folder", "a.gguf"])
def test_nobody_is_warned_of_models_that_are_data(model: str, theirs: Path) -> None:
    (theirs / "theirs.toml").write_text(EXPERIMENT.replace("theirs.py:make", model))
    assert read_experiment(Path("theirs.toml")).model == model  # a warning would be an error here


@pytest.mark.parametrize("command", ["generate", "evaluate", "demo"])
def test_help_says_that_code_is_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "FILE.py:NAME" in words
    assert "of your own, whose code is run" in words


# Pictures

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 40 40
%%EndComments
(it ran) (w) file closefile
showpage
%%EOF
"""


def described(path: Path) -> None:
    from beamsplit.models.vision import features

    features([path])


def piped(path: Path) -> None:
    from beamsplit.cli import inputs

    with pytest.MonkeyPatch.context() as monkeypatch:
        give_stdin(monkeypatch, path.read_bytes())
        for given in inputs.pictures(["-"], None, "caption"):
            given.value.load()


def shown_to_people(path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="studies need '.[study]'")
    from beamsplit.study.pictures import to_jpeg

    to_jpeg(path)


def sent(path: Path) -> None:
    pytest.importorskip("fastapi", reason="the demo needs '.[web]'")
    from beamsplit.web import DemoLimits
    from beamsplit.web.pictures import picture_features
    from beamsplit.web.problems import Problem

    try:
        picture_features(path.read_bytes(), DemoLimits())
    except Problem as error:
        raise ArgumentError(error.line) from error


DOORS = [described, piped, shown_to_people, sent]


@pytest.fixture
def ghostscript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in Ghostscript's place, and the file that it leaves when it is started."""
    eps = pytest.importorskip("PIL.EpsImagePlugin", reason="pictures need '.[vision]'")
    pytest.importorskip("efficientnet_lite_pytorch", reason="pictures need '.[vision]'")
    ran, program = tmp_path / "it ran", tmp_path / "programs" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n: > '{ran}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(eps, "gs_binary", None)  # what Pillow remembers of an earlier look
    return ran


@pytest.mark.parametrize("door", DOORS)
def test_a_picture_starts_no_program(door: Callable[[Path], None], ghostscript: Path, tmp_path: Path) -> None:
    """Pillow has Ghostscript read a file of PostScript, whatever its name; and PostScript is a language."""
    path = tmp_path / "photo.jpg"
    path.write_bytes(EPS)
    with pytest.raises(ArgumentError) as caught:
        door(path)
    assert "\n" not in str(caught.value)
    assert not ghostscript.exists()


def test_the_program_would_be_seen(ghostscript: Path, tmp_path: Path) -> None:
    """If it were asked as Pillow asks it where nobody says which formats are meant."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "photo.jpg").write_bytes(EPS)
    with suppress(OSError), image.open(tmp_path / "photo.jpg") as opened:
        opened.load()
    assert ghostscript.exists()


def header_of(width: int, height: int) -> bytes:
    """A file that promises so many pixels, and has none."""
    return f"P6 {width} {height} 255\n".encode()


@pytest.mark.filterwarnings("always")  # as outside of tests
@pytest.mark.parametrize("door", [described, piped, shown_to_people])
@pytest.mark.parametrize("side", [9_999, 99_999])  # of which Pillow warns, and which it refuses
def test_bombs_are_refused_by_their_header(side: int, door: Callable[[Path], None], tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch", reason="pictures need '.[vision]'")
    path = tmp_path / "photo.jpg"
    path.write_bytes(header_of(side, side))
    with pytest.raises(ArgumentError, match=r"pixels.*: make it smaller") as caught:
        door(path)
    assert "\n" not in str(caught.value)


# What the sources say


class Call(NamedTuple):
    """A call somewhere in the sources."""

    where: str
    name: str
    """What is called, as it is written: `np.load`."""
    options: dict[str, str]
    """What it is given by name."""


@cache
def calls() -> list[Call]:
    return [
        call for folder in ("src", "research") for path in (ROOT / folder).rglob("*.py") for call in _of(path)
    ]


def _of(path: Path) -> Iterator[Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            options = {each.arg or "**": ast.unparse(each.value) for each in node.keywords}
            yield Call(f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node.func), options)


@pytest.mark.parametrize(
    ("name", "option", "values"),
    [
        ("torch.load", "weights_only", {"True"}),
        ("np.load", "allow_pickle", {"False"}),
        ("Image.open", "formats", {"FORMATS", "_FORMATS"}),
    ],
)
def test_readers_that_can_do_more_are_told_not_to(name: str, option: str, values: set[str]) -> None:
    found = [call for call in calls() if call.name == name]
    assert found
    assert [call.where for call in found if call.options.get(option) not in values] == []


def test_nothing_is_unpickled_or_evaluated() -> None:
    refused = {"pickle.load", "pickle.loads", "yaml.load", "eval", "exec", "os.system", "os.popen"}
    assert [call for call in calls() if call.name in refused or call.options.get("shell") == "True"] == []


def test_models_of_transformers_bring_no_code_of_their_own() -> None:
    """All that loads them is told not to run any."""
    found = [call for call in calls() if call.name.endswith(".from_pretrained")]
    data = "GenerationConfig.from_pretrained"  # a table of settings
    loading = [call for call in found if call.where.startswith("src/") and not call.name.endswith(data)]
    assert len(loading) > 2
    source = "src/beamsplit/huggingface/loading.py"
    assert '"trust_remote_code": False' in (ROOT / source).read_text(encoding="utf-8")
    for call in loading:
        told = call.options.get("trust_remote_code") == "False"
        assert told or (call.where.startswith(source) and call.options.get("**") == "source"), call


def test_a_refusal_of_a_pipe_without_a_picture_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL", reason="pictures need '.[vision]'")
    give_stdin(monkeypatch, EPS)
    assert "bytes that are no picture" in refusal(capsys, "caption", "-")
