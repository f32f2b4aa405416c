from datetime import timedelta

import pytest

from ordered_queue import InvalidSetting
from ordered_queue.settings import load_settings

PREFIX = "PREFECT_INTEGRATIONS_ORDERED_QUEUE_"


def test_settings_have_defaults():
    settings = load_settings()

    assert settings.promoted_timeout == timedelta(minutes=30)
    assert settings.stall_timeout == timedelta(seconds=60)


@pytest.mark.parametrize("text", ["PT45M", "00:45:00"])
def test_a_setting_is_read_from_the_environment(monkeypatch, text):
    monkeypatch.setenv(f"{PREFIX}PROMOTED_TIMEOUT", text)

    assert load_settings().promoted_timeout == timedelta(minutes=45)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("prefect.toml", '[integrations.ordered_queue]\npromoted_timeout = "PT45M"\n'),
        ("pyproject.toml", '[tool.prefect.integrations.ordered_queue]\npromoted_timeout = "PT45M"\n'),
        (".env", f"{PREFIX}PROMOTED_TIMEOUT=PT45M\n"),
    ],
)
def test_a_setting_is_read_from_a_file(monkeypatch, tmp_path, file, content):
    (tmp_path / file).write_text(content)
    monkeypatch.chdir(tmp_path)
    # Prefect looks for its files nowhere else while its test mode is on.
    monkeypatch.delenv("PREFECT_TEST_MODE", raising=False)

    assert load_settings().promoted_timeout == timedelta(minutes=45)


@pytest.mark.parametrize(
    ("name", "value", "shown", "bounds"),
    [
        ("PROMOTED_TIMEOUT", "soon", "'soon'", "from PT1M to P1D"),
        ("PROMOTED_TIMEOUT", "1800", "'1800'", "from PT1M to P1D"),
        ("PROMOTED_TIMEOUT", "00:00:01", "PT1S", "from PT1M to P1D"),
        ("STALL_TIMEOUT", "P2D", "P2D", "from PT1S to PT1H"),
    ],
)
def test_a_bad_value_is_named_with_what_it_must_be(monkeypatch, name, value, shown, bounds):
    monkeypatch.setenv(f"{PREFIX}{name}", value)

    with pytest.raises(InvalidSetting) as caught:
        load_settings()

    assert str(caught.value) == (
        f"{name.lower()} ({PREFIX}{name}) is {shown}; it must be a duration such as PT30M or 00:30:00, {bounds}."
    )


def test_every_bad_value_is_named(monkeypatch):
    for name in ("PROMOTED_TIMEOUT", "STALL_TIMEOUT"):
        monkeypatch.setenv(f"{PREFIX}{name}", "soon")

    with pytest.raises(InvalidSetting, match=r"promoted_timeout .* P1D\. stall_timeout .* PT1H\.$"):
        load_settings()
