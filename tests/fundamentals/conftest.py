"""The papers' examples and the tutorial run on a real server, made as for the server tests."""

from tests.server.conftest import client, deploy, server

__all__ = ["client", "deploy", "server"]
