"""A Django project as somebody might have it, whose settings come from the environment."""
