"""hookrow's own four tables as a Django app, for a project that has none."""
