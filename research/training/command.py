"""The command line of training: `python -m research.training ...`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from beamsplit.errors import ArgumentError, BeamsplitError
from beamsplit.models import load
from beamsplit.models.pictures import Captioner, PictureModel
from beamsplit.models.storage import WEIGHTS
from research.data import (
    Described,
    Features,
    Projection,
    data_folder,
    read_described,
    read_features,
    read_pairs,
    read_projection,
)
from research.data.shortened import shorten_captions
from research.training import captioner, complexity, features, figures, translator, vectors
from research.training.captioner import CaptionerSettings, ConsensusSettings, Part, QuestionerSettings
from research.training.translator import TranslatorSettings

__all__ = ["main"]


def train_translator(options: argparse.Namespace) -> None:
    """Train a translator, or one of its teachers."""
    train, valid = (
        read_pairs(*(given or [_shared(options, f"translation/tatoeba.{part}.jsonl.gz")]))
        for given, part in ((options.train, "train"), (options.valid, "valid"))
    )
    settings = _shortened(TranslatorSettings(), options)
    training = translator.apprenticeship(
        train[: options.limit], valid, settings, work=options.work, seed=options.seed, device=options.device
    )
    if options.teacher is not None:
        training.train_teacher(options.teacher)
    else:
        training.train().save(options.out)


def train_captioner(options: argparse.Namespace) -> None:
    """Train a captioner, or one of its teachers."""
    train, valid = (_captions(part, options) for part in ("train", "valid"))
    train = Part(_without(train.described, options)[: options.limit], train.features)
    projection = _projection(options, train.features)
    settings = _with_given(_shortened(CaptionerSettings(), options), options, "at_least", "smoothing")
    run: Any = {"work": options.work, "seed": options.seed, "device": options.device}
    training = captioner.apprenticeship(train, valid, settings, **run)
    if options.teacher is not None:
        training.train_teacher(options.teacher)
        return
    model = training.train()
    model.save(options.work / "imitation.safetensors")
    if options.until == "consensus":
        consensus = _with_epochs(ConsensusSettings(), options)
        captioner.seek_consensus(model, train, valid, consensus, smoothing=settings.smoothing, **run)
    _save_whole(model.cpu(), projection, options.out)


def train_questioner(options: argparse.Namespace) -> None:
    """Train a questioner that begins as a captioner."""
    seen = read_features(options.features or _shared(options, "questions/vqg.features.npz"))
    train, valid = (
        Part(read_described(given or _shared(options, f"questions/vqg.{part}.jsonl.gz")), seen)
        for given, part in ((options.train, "train"), (options.valid, "val"))
    )
    begin = Captioner.from_file(options.captioner or WEIGHTS / "captioner.safetensors")
    projection = _projection(options, seen)
    if projection and begin.sizes.features != seen.values.shape[1]:
        captioner.fold_projection(begin, projection)
    model = captioner.train_questioner(
        begin,
        Part(train.described[: options.limit], train.features),
        valid,
        _with_given(_with_recipe(QuestionerSettings(), options), options, "smoothing"),
        work=options.work,
        seed=options.seed,
        device=options.device,
    )
    _save_whole(model.cpu(), projection, options.out)


def train_complexity(options: argparse.Namespace) -> None:
    """Train the predictor of image complexity, and print how good it is."""
    _print_json(complexity.train(data_folder(options.data), options.out, options.seed))


def choose_vectors(options: argparse.Namespace) -> None:
    """Write the word vectors of all words that the captioner and the questioner know."""
    models = [load(name) for name in ("captioner", "questioner")]
    vectors.write(
        data_folder(options.data) / "vectors" / "glove100.en.npz",
        {word for model in models for word in model.words.words},
        options.out,
    )


def make_features(options: argparse.Namespace) -> None:
    """Write the features of a folder of pictures."""
    features.write(options.pictures, options.out, options.device)


def shorten(options: argparse.Namespace) -> None:
    """Write a data folder whose captions are short."""
    shorten_captions(data_folder(options.data), options.out, options.words)


def measure(options: argparse.Namespace) -> None:
    """Print the figures of a model."""
    model = load(options.model)
    _print_json(figures.measure_model(model, data_folder(options.data), options.limit))


def _print_json(found: dict[str, Any]) -> None:
    print(json.dumps(found, indent=2, ensure_ascii=False))


def _shared(options: argparse.Namespace, name: str) -> Path:
    """Return the path of a file in the data folder; without one, a folder is not needed."""
    return data_folder(options.data) / name


def _captions(part: str, options: argparse.Namespace) -> Part:
    given = vars(options)
    file = given[part] or _shared(options, f"captions/coco.{part}.jsonl.gz")
    seen = given[f"{part}_features"] or _shared(options, f"captions/coco.{part}.features.npz")
    return Part(read_described(file, split=given[f"{part}_split"]), read_features(seen))


def _without(described: Sequence[Described], options: argparse.Namespace) -> list[Described]:
    """Return the pictures that are not in some files: by default, those that questions are tested on."""
    files = options.without
    if files is None:
        files = [_shared(options, f"questions/vqg.{part}.jsonl.gz") for part in ("val", "test")]
    held_out = {each.image for file in files for each in read_described(file)}
    return [each for each in described if each.image not in held_out]


def _projection(options: argparse.Namespace, features: Features) -> Projection | None:
    """Return the projection of the features, or None if they are whole."""
    if options.whole_features:
        return None
    found = read_projection(options.projection or _shared(options, "captions/features.projection.npz"))
    width, expected = features.values.shape[1], found.components.shape[0]
    if width != expected:
        raise ArgumentError(
            f"the features have {width} numbers and the projection {expected}: give --whole-features if they "
            "were not projected"
        )
    return found


def _save_whole(model: PictureModel, projection: Projection | None, path: Path) -> None:
    """Save a model of features that are not projected."""
    if projection:
        captioner.unfold_projection(model, projection)
    model.save(path)


def _with_epochs(settings: Any, options: argparse.Namespace) -> Any:
    return replace(settings, recipe=_with_given(settings.recipe, options, "epochs"))


def _with_recipe(settings: Any, options: argparse.Namespace) -> Any:
    """Return the settings with the epochs and the dropout of the options, if these have any."""
    return replace(settings, recipe=_with_given(settings.recipe, options, "epochs", "dropout"))


def _with_given(settings: Any, options: argparse.Namespace, *names: str) -> Any:
    """Return the settings with those of these names that the options have."""
    given = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    return replace(settings, **given)


def _shortened(settings: Any, options: argparse.Namespace) -> Any:
    """Return the settings with the epochs and teachers of the options, if these have any."""
    settings = replace(
        settings,
        student=_with_recipe(settings.student, options),
        teacher=_with_recipe(settings.teacher, options),
    )
    return _with_given(settings, options, "teachers")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (BeamsplitError, ImportError, OSError) as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        where = f"; the same command resumes from {options.work}" if options.work else ""
        print(f"{_PROGRAM}: stopped{where}", file=sys.stderr)
        return 130
    return 0


_PROGRAM = "python -m research.training"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Train the models that come with beamsplit, or your own of their kind. A training that "
        "was stopped resumes when the same command is given again.",
    )
    kinds = parser.add_subparsers(required=True, metavar="MODEL")
    for add in (
        _add_translator,
        _add_captioner,
        _add_questioner,
        _add_complexity,
        _add_vectors,
        _add_features,
        _add_shorten,
        _add_figures,
    ):
        add(kinds)
    return parser


def _add_translator(kinds: Any) -> None:
    made = _add(kinds, "translator", train_translator, "translation/tatoeba.{train,valid}.jsonl.gz")
    for part in ("train", "valid"):
        made.add_argument(
            f"--{part}",
            type=Path,
            nargs="+",
            metavar="FILE",
            help="sentence pairs: a .jsonl or .tsv file, or two text files line by line",
        )
    _add_teachers(made)


def _add_captioner(kinds: Any) -> None:
    made = _add(kinds, "captioner", train_captioner, "captions/coco.{train,valid}.{jsonl.gz,features.npz}")
    for part in ("train", "valid"):
        made.add_argument(
            f"--{part}", type=Path, metavar="FILE", help="captions: COCO's or Karpathy's .json, or .jsonl"
        )
        made.add_argument(f"--{part}-split", metavar="NAME", help="the split of Karpathy's file to read")
        made.add_argument(f"--{part}-features", type=Path, metavar="FILE", help="features of its pictures")
    made.add_argument(
        "--at-least",
        type=_count,
        metavar="N",
        help="learn words that occur at least so often (default: 5)",
    )
    made.add_argument(
        "--without",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="leave out the pictures in these files (default: those that questions are tested on)",
    )
    made.add_argument(
        "--until",
        choices=("imitation", "consensus"),
        default="consensus",
        help="the last stage: imitation of captions alone, or the training for consensus after it "
        "(default: %(default)s)",
    )
    _add_regularisation(made)
    _add_projection(made)
    _add_teachers(made)


def _add_questioner(kinds: Any) -> None:
    made = _add(
        kinds, "questioner", train_questioner, "questions/vqg.{train,val}.jsonl.gz and vqg.features.npz"
    )
    for part in ("train", "valid"):
        made.add_argument(f"--{part}", type=Path, metavar="FILE", help="questions: VQG's .csv, or .jsonl")
    made.add_argument("--features", type=Path, metavar="FILE", help="features of the pictures")
    made.add_argument(
        "--captioner",
        type=Path,
        metavar="FILE",
        help="the captioner to begin with (default: the one that ships; ours began with the file "
        "imitation.safetensors in a captioner's work folder, saved before the training for consensus)",
    )
    _add_regularisation(made)
    _add_projection(made)


def _add_complexity(kinds: Any) -> None:
    made = _add_command(kinds, "complexity", train_complexity, "train the predictor of image complexity")
    made.add_argument("--data", metavar="DIR", help=_DATA)
    _add_out(made, "complexity")
    made.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the bootstrap (default: %(default)s)"
    )


def _add_vectors(kinds: Any) -> None:
    made = _add_command(kinds, "vectors", choose_vectors, "choose GloVe vectors for the words of captions")
    made.add_argument("--data", metavar="DIR", help=_DATA)
    _add_out(made, "words")


def _add_features(kinds: Any) -> None:
    made = _add_command(
        kinds, "features", make_features, "features of your pictures, to train on with --whole-features"
    )
    made.add_argument(
        "pictures", type=Path, metavar="DIR", help="a folder of pictures; their names are the ids"
    )
    made.add_argument("--out", type=_new_file, required=True, metavar="FILE", help="an .npz file")
    _add_device(made)


def _add_shorten(kinds: Any) -> None:
    made = _add_command(
        kinds, "shorten", shorten, "make a data folder whose COCO captions are cut after a few words"
    )
    made.add_argument("--data", metavar="DIR", help=_DATA)
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new data folder")
    made.add_argument(
        "--words", type=_count, default=5, metavar="N", help="words of a caption (default: %(default)s)"
    )


def _add_figures(kinds: Any) -> None:
    made = _add_command(kinds, "figures", measure, "measure a model, for its card, and print JSON")
    made.add_argument("model", help="en-fr, captioner, questioner or a file")
    made.add_argument("--data", metavar="DIR", help=_DATA)
    made.add_argument("--limit", type=_count, metavar="N", help="only so many inputs of each test set")


_DATA = "the data folder (default: $BEAMSPLIT_DATA)"


def _add_out(made: argparse.ArgumentParser, name: str) -> None:
    made.add_argument(
        "--out",
        type=_new_file,
        default=Path(f"{name}.safetensors"),
        metavar="FILE",
        help="where to put it (default: %(default)s)",
    )


def _new_file(text: str) -> Path:
    if Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder: give a file")
    return Path(text)


def _add_command(kinds: Any, name: str, run: Any, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = kinds.add_parser(
        name, help=about, description=f"{about[0].upper()}{about[1:]}."
    )
    made.set_defaults(run=run, work=None)
    return made


def _add(kinds: Any, name: str, run: Any, reads: str) -> argparse.ArgumentParser:
    made = _add_command(kinds, name, run, f"train a {name}; reads {reads} in the data folder")
    made.add_argument("--data", metavar="DIR", help=_DATA)
    _add_out(made, name)
    made.add_argument(
        "--work",
        type=Path,
        default=Path(f"{name}-training"),
        metavar="DIR",
        help="a folder for unfinished work (default: %(default)s)",
    )
    made.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    made.add_argument("--epochs", type=_count, metavar="N", help="instead of those of our recipe")
    made.add_argument("--limit", type=_count, metavar="N", help="only so many examples, to try things out")
    _add_device(made)
    return made


def _device(name: str) -> torch.device:
    try:
        return torch.zeros(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise argparse.ArgumentTypeError(f"{name!r} is not available on this machine: try cpu") from error


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to below 1")
    return value


def _add_regularisation(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--smoothing",
        type=_share,
        metavar="X",
        help="how much of each label goes to all words alike, instead of our recipe's; 0 is plain imitation",
    )
    made.add_argument("--dropout", type=_share, metavar="X", help="instead of that of our recipe")


def _add_device(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--device",
        type=_device,
        default=_device("cuda" if torch.cuda.is_available() else "cpu"),
        help="cpu or cuda (default: %(default)s)",
    )


def _add_projection(made: argparse.ArgumentParser) -> None:
    made.add_argument("--projection", type=Path, metavar="FILE", help="how the features were projected")
    made.add_argument("--whole-features", action="store_true", help="the features were not projected")


def _add_teachers(made: argparse.ArgumentParser) -> None:
    made.add_argument("--teachers", type=_number, metavar="N", help="how many large networks to learn from")
    made.add_argument(
        "--teacher",
        type=int,
        metavar="I",
        help="train only this one, to run several of these commands at once",
    )
