"""What another implementation of the method returned, and what is needed to compare with it."""
