"""hookrow in a Django project."""
