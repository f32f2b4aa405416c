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
    ("name", "value"), [("PROMOTED_TIMEOUT", "soon"), ("PROMOTED_TIMEOUT", "PT1S"), ("STALL_TIMEOUT", "P2D")]
)
def test_a_bad_value_is_named(monkeypatch, name, value):
    monkeypatch.setenv(f"{PREFIX}{name}", value)

    with pytest.raises(InvalidSetting, match=rf"{name.lower()} \({PREFIX}{name}\) is .*: (\w+ )?[iI]nput should be"):
        load_settings()
