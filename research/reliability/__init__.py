"""What the package holds out: many decodes in one process, and many people at the demo and at a study."""
