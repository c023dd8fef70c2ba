"""The alternatives, each written as a developer with only these requirements would write it."""
