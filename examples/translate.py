"""A first look: translations of English into French by beam search and by late branching.

The translator comes with the package and needs no network:

    python examples/translate.py "Where did you leave the keys?"
"""

from __future__ import annotations

import argparse
import sys
from itertools import zip_longest

from beamsplit import BeamSearch, BeamsplitError, Hypotheses, Hypothesis, LateBranching
from beamsplit.models import Translator, load

TEXT = "I need to talk to you in person."


def show(text: str, beams: Hypotheses, diverse: Hypotheses) -> None:
    width = 4 + max(len(line(each)) for each in beams)
    print(text)
    print(f"  {'beam search':{width}}late branching")
    for left, right in zip_longest(beams, diverse):
        print(f"  {line(left):{width}}{line(right)}".rstrip())


def line(hypothesis: Hypothesis | None) -> str:
    return f"{hypothesis.log_prob:5.1f}  {hypothesis.text}" if hypothesis else ""


def translate(model: Translator, texts: list[str], strength: float) -> None:
    diverse = LateBranching(outputs=6, strength=strength)
    lists = [model.translate(texts, strategy) for strategy in (BeamSearch(beams=6), diverse)]
    for place, (text, left, right) in enumerate(zip(texts, *lists, strict=True)):
        print("\n" * (place > 0), end="")
        show(text, left, right)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", nargs="*", help="English sentences (default: one of ours)")
    parser.add_argument("--strength", type=float, default=0.8, help="of diversity (default: %(default)s)")
    options = parser.parse_args()
    try:
        translate(load("en-fr"), options.text or [TEXT], options.strength)
    except BeamsplitError as error:
        print(f"translate.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
