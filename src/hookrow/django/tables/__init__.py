"""A Django app with hookrow's own four tables, for projects without models for them."""
