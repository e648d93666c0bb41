"""Train a model: python -m beamsplit.training translator --data DIR."""

import sys

from beamsplit.training.command import main

sys.exit(main())
