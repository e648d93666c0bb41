"""Big jobs: many inputs on many machines, on engines that exist."""
