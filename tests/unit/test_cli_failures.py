import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_KEY, PREFECT_API_URL, temporary_settings

from ordered_queue.cli.failures import CommandFailed, Misused, api_address, in_one_line, printable
from ordered_queue.errors import DeploymentNotFound, RequestFailed

URL = "http://me:hunter22@prefect.example:4200/api"


def test_a_failure_names_the_server_without_credentials_when_it_gave_no_answer():
    with temporary_settings({PREFECT_API_URL: URL}):
        failure = CommandFailed.of(RequestFailed("Reading it", 0, "no answer (ConnectTimeout)"))

    assert failure.exit_code == 1
    assert str(failure) == (
        "Reading it failed: no answer (ConnectTimeout) from http://prefect.example:4200/api. Check that the server is "
        "running and that PREFECT_API_URL, or the active Prefect profile, names it."
    )


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "PREFECT_API_KEY"), (403, "PREFECT_API_KEY"), (404, "ends in /api"), (200, "/api")]
)
def test_a_failure_says_what_to_check_when_the_answer_tells(status, advice):
    assert advice in str(CommandFailed.of(RequestFailed("Reading it", status, "no")))


@pytest.mark.parametrize("detail", ["Deployment not found", "Deployment not found.", "Flow run not found"])
def test_a_failure_says_what_is_gone_and_suspects_no_address_when_the_api_itself_says_so(detail):
    failure = str(CommandFailed.of(RequestFailed("Creating runs", 404, f"the server answered 404 ({detail})")))

    assert "It was deleted while this command ran" in failure
    assert "PREFECT_API_URL" not in failure


def test_a_failure_suspects_the_address_when_the_path_is_unknown_there():
    failure = str(CommandFailed.of(RequestFailed("Reading it", 404, "the server answered 404 (Not Found)")))

    assert "PREFECT_API_URL" in failure


def test_a_failure_is_told_as_it_is_when_it_says_all():
    error = DeploymentNotFound("a/b", ["a/c"])

    assert str(CommandFailed.of(error)) == str(error)


def test_a_failure_names_the_file_when_it_cannot_be_read():
    assert str(CommandFailed.of(PermissionError(13, "Permission denied", "runs.csv"))) == "runs.csv: Permission denied."


def test_a_misuse_stays_what_it_is():
    misused = Misused("no")

    assert CommandFailed.of(misused) is misused
    assert misused.exit_code == 2


def test_a_message_is_one_line_without_credentials():
    settings = {PREFECT_API_URL: URL, PREFECT_API_KEY: "pnu_12345", PREFECT_API_AUTH_STRING: "admin:letmein"}
    with temporary_settings(settings):
        line = in_one_line(f"at {URL}\nwith pnu_12345, admin:letmein and hunter22\x1b[2J")

    assert line == "at http://***prefect.example:4200/api with ***, *** and ***\N{REPLACEMENT CHARACTER}[2J"


def test_an_address_is_not_told_when_it_cannot_be_parsed():
    with temporary_settings({PREFECT_API_URL: "http://me:hunter22@host:nope/api"}):
        assert api_address() == "the server"


def test_text_keeps_its_letters_and_loses_what_steers_a_terminal():
    assert printable("größe 表\t\x07") == "größe 表\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"
