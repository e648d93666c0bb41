"""Training, and the figures of what was trained."""
