"""A picture of yours: what the captioner says of it, and what the questioner asks.

pip install '.[vision]'
python examples/describe.py photo.jpg
"""

from __future__ import annotations

import argparse
import sys

import beamsplit
from beamsplit import BeamSearch, BeamsplitError, Hypotheses, LateBranching, Strategy
from beamsplit.models import load, vision


def show(title: str, found: Hypotheses) -> None:
    print(f"  {title}")
    for each in found:
        print(f"    {each.log_prob:6.1f}  {each.text}")


def describe(pictures: list[str], outputs: int, strength: float) -> None:
    captioner, questioner, complexity = load("captioner"), load("questioner"), load("complexity")
    features = vision.features(pictures)  # once for all three
    searches: dict[str, Strategy] = {
        "beam search": BeamSearch(beams=outputs),
        "late branching": LateBranching(outputs=outputs, strength=strength),
    }
    for picture, seen, score in zip(pictures, features, complexity.predict(features), strict=True):
        print(f"{picture}: complexity {score:.2f}")
        for kind, model in (("captions", captioner), ("questions", questioner)):
            for title, search in searches.items():
                found = beamsplit.decode(model, seen.unsqueeze(0), search, max_length=20)
                show(f"{kind}, {title}", found[0].distinct())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", nargs="+")
    parser.add_argument("--outputs", type=int, default=6, help="default: %(default)s")
    parser.add_argument("--strength", type=float, default=0.8, help="of diversity (default: %(default)s)")
    options = parser.parse_args()
    try:
        describe(options.picture, options.outputs, options.strength)
    except (BeamsplitError, ImportError) as error:
        print(f"describe.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
