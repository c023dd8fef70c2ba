"""`examples/django_project` for tests, with the dashboard added to its URLs."""
