"""The door to Hugging Face transformers, on small random models of every kind."""
