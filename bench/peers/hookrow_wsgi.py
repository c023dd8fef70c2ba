"""hookrow as a WSGI application; without the log where `BENCH_LOG` is 0."""

from __future__ import annotations

import logging
import os

from data import SECRET
from hookrow import Postmark, Receiver, Schema
from hookrow.stores.sql import SQLStore
from hookrow.wsgi import WSGI

logging.getLogger("hookrow").setLevel(logging.ERROR)
_schema = Schema() if os.environ["BENCH_LOG"] == "1" else Schema(log=None)
app = WSGI(Receiver(Postmark(SECRET), SQLStore(os.environ["BENCH_DATABASE_URL"], _schema)))
