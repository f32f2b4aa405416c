"""What every test stands on: a Prefect home of its own, nothing of the caller's settings, asyncio."""

import os
import tempfile
from pathlib import Path

# Before Prefect is imported, which reads its settings once.
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
_home = tempfile.TemporaryDirectory(prefix="ordered-queue-tests-")
os.environ.update(
    {
        "PREFECT_HOME": _home.name,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
)

import pytest  # noqa: E402  # after the environment is clean

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def anyio_backend():
    """Prefect runs on asyncio."""
    return "asyncio"
