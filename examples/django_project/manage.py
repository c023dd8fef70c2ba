"""hookrow in Django: the application saves dispatches, and hookrow records notifications.

In a clone of the repository:

pip install 'hookrow[django]'
cd examples/django_project
export HOOKROW_SECRET=the-secret-of-this-example
python manage.py migrate
python manage.py createsuperuser
python manage.py runserver &
curl -X POST 'http://127.0.0.1:8000/dispatches?email=ada@example.com&message_id=m-1'
python manage.py hookrow simulate delivery ada@example.com m-1
curl http://127.0.0.1:8000/dispatches/m-1
"""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
execute_from_command_line(sys.argv)
