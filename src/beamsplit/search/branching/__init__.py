"""Late branching: lists of likely and different outputs. Each leaves the others where it costs least.

tree       what is known: prefixes with their likeliest next tokens, and complete outputs
choice     which outputs the list should have, also such as nobody has followed to the end yet
rounds     follow those
explorer   ask the model about prefixes, by its kept states or by walking to them again
searching  all of it in turn
"""
