"""An app of a Django project, with its own models of subscribers and dispatches."""
