"""The search: one loop, and the small things that it is made of."""
