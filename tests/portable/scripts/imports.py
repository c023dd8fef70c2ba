"""Imports every public module, and prints their names."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

from django.conf import settings

import hookrow


def public_modules(package: str) -> Iterator[str]:
    """Yield the modules of a package whose names do not begin with an underscore."""
    spec = find_spec(package)
    assert spec is not None
    for _, name, is_package in pkgutil.iter_modules(spec.submodule_search_locations):
        if not name.startswith("_"):
            yield f"{package}.{name}"
            if is_package:
                yield from public_modules(f"{package}.{name}")


settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=[
        "django.contrib.admin",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.messages",
        "hookrow.django",
        "hookrow.django.tables",
    ],
    HOOKROW={"SECRET": "a-secret-for-the-tests"},
)
django = import_module("django")
django.setup()
for module in public_modules("hookrow"):
    import_module(module)
    print(module)
for name in hookrow.__all__:
    getattr(hookrow, name)
