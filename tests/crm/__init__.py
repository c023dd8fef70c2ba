"""An app that a Django project might have, with models of its own."""
