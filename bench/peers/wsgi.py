"""hookrow as a WSGI application."""

from __future__ import annotations

import logging
import os

from hookrow import Postmark, Receiver
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI

logging.getLogger("hookrow").setLevel(logging.ERROR)
store = SQLStore(os.environ["HOOKROW_DATABASE_URL"])
app = WSGI(Receiver(Postmark(os.environ["HOOKROW_SECRET"]), store))
