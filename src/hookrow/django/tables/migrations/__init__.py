"""The migrations of the four tables."""
