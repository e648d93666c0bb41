"""Write what `tune` found: a report of the settings that no other beats, and lines that run the best one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beamsplit.diversity.names import needs_word_vectors, term_class, write_term
from beamsplit.evaluation import blocks
from beamsplit.evaluation.tables import render as render_markdown
from beamsplit.evaluation.tex import render as render_latex
from beamsplit.evaluation.tidy import write_rows

if TYPE_CHECKING:
    from beamsplit.evaluation.running import RunSettings
    from beamsplit.evaluation.tuning import Tuning

__all__ = [
    "Setting",
    "report",
    "report_latex",
    "setting_command",
    "setting_python",
    "setting_toml",
    "setting_words",
    "to_csv",
]

Setting = Mapping[str, Any]
"""A method's table, as in an experiment."""


# The report


def report(found: Mapping[str, Any]) -> str:
    """Return the front beside beam search, and the recommendation, as Markdown."""
    return render_markdown(_page(found))


def report_latex(found: Mapping[str, Any]) -> str:
    """Return the same with the table as LaTeX, and the rest as comments."""
    return render_latex(_page(found), _title(found))


def to_csv(found: Mapping[str, Any]) -> str:
    """Return beam search and all settings that were tried, one a row."""
    rows = [_csv_row(found, each) for each in (found["beam_search"], *found["trials"])]
    return write_rows(rows[0], rows)


def _csv_row(found: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    setting = entry["setting"]
    quality, diversity = found["figures"]
    return {
        "task": found["task"],
        "model": found["model"],
        "strategy": setting["strategy"],
        "groups": setting.get("groups", 1),
        "beams_per_group": setting.get("beams_per_group", setting.get("beams")),
        "strength": setting.get("strength", 0),
        "diversity": write_term(setting["diversity"]) if "diversity" in setting else "",
        quality: entry["quality"],
        diversity: entry["diversity"],
        "on_front": entry in found["front"],
        "recommended": setting == found["recommended"]["setting"],
    }


def _title(found: Mapping[str, Any]) -> str:
    target, keep = found["target"]["name"], found["target"].get("keep")
    kept = f" that keeps {keep:g} of beam search's quality" if keep else ""
    return f"Diverse Beam Search, tuned for {target}{kept}"


def _page(found: Mapping[str, Any]) -> list[blocks.Block]:
    chosen = found["recommended"]
    return [
        blocks.Heading(_title(found)),
        blocks.Paragraph(_about(found)),
        _front_table(found),
        *([blocks.Paragraph(found["note"])] if found["note"] else []),
        blocks.Paragraph(_gains(found)),
        blocks.Paragraph("For the file of an experiment, and for Python:"),
        blocks.Code(chosen["toml"], "toml"),
        blocks.Code(chosen["python"], "python"),
        *_confirmation(chosen.get("command")),
    ]


def _confirmation(command: str | None) -> list[blocks.Block]:
    """Return what to do before the setting is trusted; the command is not known for a model in memory."""
    warning = (
        "On the inputs that it was chosen on, a setting looks better than it is: compare it with beam search "
        "on other inputs"
    )
    if command is None:
        return [blocks.Paragraph(f"{warning}.")]
    how = "by this command with another `--task`. `beamsplit decode` takes the same -g, -b, -s and -d."
    return [blocks.Paragraph(f"{warning}, {how}"), blocks.Code(command, "sh")]


def _about(found: Mapping[str, Any]) -> str:
    sentences = [f"{found['items']} inputs of {found['task']}, model {found['model']}."]
    if found["refused"]:
        sentences.append(blocks.about_refused(found["refused"]))
    sentences.append(
        f"{len(found['trials'])} settings were tried. The table shows beam search, and the settings that no "
        "other setting beats in both figures."
    )
    return " ".join(sentences)


def _front_table(found: Mapping[str, Any]) -> blocks.Table:
    def name(entry: Mapping[str, Any]) -> str:
        words = setting_words(entry["setting"])
        return f"{words} (recommended)" if entry["setting"] == found["recommended"]["setting"] else words

    rows = [found["beam_search"], *found["front"]]
    figures = {
        figure: {name(each): {"value": each[kind]} for each in rows}
        for figure, kind in zip(found["figures"], ("quality", "diversity"), strict=True)
    }
    return blocks.column_table({"figures": figures}, found["figures"], "settings that no other beats")


def _gains(found: Mapping[str, Any]) -> str:
    against = found["recommended"]["against_beam_search"]
    gains = [
        f"{blocks.title(figure)} {{difference:+.2g}} [{{low:+.2g}} to {{high:+.2g}}]".format(**against[kind])
        for figure, kind in zip(found["figures"], ("quality", "diversity"), strict=True)
    ]
    return f"Recommended, compared with beam search: {', '.join(gains)} (95% intervals, paired bootstrap)."


def setting_words(setting: Setting) -> str:
    """Return a setting as a short line."""
    if setting["strategy"] == "bs":
        return "beam search"
    settings = "".join(f" ({name} {value})" for name, value in _term_settings(setting).items())
    groups = f"{setting['groups']} groups of {setting['beams_per_group']}"
    return f"{setting['diversity']['term']}{settings}, {groups}, strength {setting['strength']}"


def _term_settings(setting: Setting) -> dict[str, Any]:
    """Return the settings of the term."""
    return {name: value for name, value in setting["diversity"].items() if name != "term"}


# What is recommended, ready to be run


def setting_toml(setting: Setting) -> str:
    """Return the table of a method, for the file of an experiment."""
    term = ", ".join(f"{name} = {json.dumps(value)}" for name, value in setting["diversity"].items())
    plain = [f"{name} = {json.dumps(value)}" for name, value in setting.items() if name != "diversity"]
    return "\n".join(["[methods.DBS]", *plain, f"diversity = {{ {term} }}", ""])


def setting_command(setting: Setting, tuning: Tuning, settings: RunSettings) -> str:
    """Return the command that compares the setting with beam search on the inputs it was chosen on."""
    words: list[object] = ["beamsplit", "evaluate", "--task", tuning.task, "--model", tuning.model]
    words += ["--data", settings.data] if settings.data else []
    words += ["--device", settings.device] if settings.device else []
    words += [
        "--strategies",
        "bs,dbs",
        "-g",
        setting["groups"],
        "-b",
        setting["beams_per_group"],
        "-s",
        setting["strength"],
    ]
    words += ["-d", write_term(setting["diversity"]), "--metrics", tuning.metric]
    words += ["--k", tuning.k or tuning.beams, "--max-length", tuning.max_length]
    words += ["--min-length", tuning.min_length] if tuning.min_length else []
    words += ["--unique"] if tuning.unique else []
    return shlex.join(map(str, words))


def setting_python(setting: Setting, tuning: Tuning, example: str | None, *, loads: bool) -> str:
    """Return lines that make the strategy; they decode the example if there is one."""
    term = term_class(setting["diversity"]["term"]).__name__
    options = {"max_length": tuning.max_length, "min_length": tuning.min_length, "unique": tuning.unique}
    given = "".join(f", {name}={value}" for name, value in options.items() if value)
    names = ["DiverseBeamSearch", term, *([] if example is None else ["decode"])]
    lines = [
        f"from beamsplit import {', '.join(sorted(names))}",
        *(["from beamsplit.loading import load_model"] if loads else []),
        "",
        *([f"model = load_model({tuning.model!r})"] if loads else []),
        f"strategy = {_strategy(setting)}",
        *([] if example is None else [f"lists = decode(model, [{example!r}], strategy{given})"]),
    ]
    return "\n".join(lines)


def _strategy(setting: Setting) -> str:
    term = setting["diversity"]["term"]
    settings = ["vectors=model.word_vectors"] if needs_word_vectors(term) else []
    settings += [f"{name}={value}" for name, value in _term_settings(setting).items()]
    own = [f"{name}={setting[name]}" for name in ("groups", "beams_per_group", "strength")]
    return (
        f"DiverseBeamSearch({', '.join(own)}, diversity={term_class(term).__name__}({', '.join(settings)}))"
    )
