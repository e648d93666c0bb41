"""Run the experiments. The command is in `runner`, a module that child processes can import."""

import sys

from beamsplit.errors import BeamsplitError
from research.experiments.runner import main

try:
    main(prog_name="python -m research.experiments")
except BeamsplitError as error:
    sys.exit(f"python -m research.experiments: {error}")
