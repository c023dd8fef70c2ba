"""A newsletter: hookrow records when its dispatches are delivered and opened."""
