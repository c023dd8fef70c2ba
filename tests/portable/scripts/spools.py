"""Prints the error of a receiver with a spool."""

from hookrow import ConfigurationError, Postmark, Receiver
from hookrow.stores.sql import SQLStore
from hookrow.testing import SECRET

try:
    Receiver(Postmark(SECRET), SQLStore("sqlite://"), spool="spool.db")
except ConfigurationError as error:
    print(error)
