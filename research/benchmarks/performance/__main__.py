"""Run the measurement."""

from research.benchmarks.performance.command import main

main()
