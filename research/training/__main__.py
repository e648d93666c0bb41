"""Train a model: python -m research.training translator --data DIR."""

import sys

from research.training.command import main

sys.exit(main())
