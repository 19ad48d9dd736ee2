"""Private representations."""
