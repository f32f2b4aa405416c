"""Keep credentials out of what is logged, raised and printed."""

from __future__ import annotations

import re

from prefect.settings import get_current_settings

HIDDEN = "***"

SHORTEST_SECRET = 4
"""To blot out anything shorter would blot out half of every message."""


def without_secrets(message: str) -> str:
    """The message with the API key, the auth string and the user and password of the API's URL blotted out."""
    for secret in _secrets():
        message = message.replace(secret, HIDDEN)
    return message


def _secrets() -> list[str]:
    """What must never be told, the longest first, so that no part of one survives another's removal."""
    api = get_current_settings().api
    known = [secret.get_secret_value() for secret in (api.key, api.auth_string) if secret is not None]
    # By hand, because a URL that cannot be parsed is just the one that lands in an error message.
    user_info = (api.url or "").partition("://")[2].rpartition("@")[0]
    if user_info:
        known += [f"{user_info}@", user_info.partition(":")[2], *user_info.split(":")[1:]]
    # A stray line break or accent makes a header invalid, and the error shows it escaped: what is around it is told.
    known += [part for secret in known for part in re.findall(r"[!-~]+", secret)]
    return sorted({secret for secret in known if len(secret) >= SHORTEST_SECRET}, key=len, reverse=True)
