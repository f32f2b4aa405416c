"""The version of this package, from its metadata."""

from importlib.metadata import version

__version__ = version("ordered-queue")
