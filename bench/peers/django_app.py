"""The Django project as gunicorn runs it: `peers.django_app:application`."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "peers.django_settings"
application = get_wsgi_application()
