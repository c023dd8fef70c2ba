"""The four tables of hookrow's own as a Django app, for a project that has none."""
