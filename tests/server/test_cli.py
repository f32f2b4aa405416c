"""The `ordered-queue` command against a real server.

Most tests call it in this process, which is quick; those about pipes and credentials start it as a user does.
"""

import io
import json
import re
import subprocess
import sys
from datetime import datetime, timezone
from types import SimpleNamespace
from uuid import UUID

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from ordered_queue import PARKED_TAG, fill_free_slots_sync
from ordered_queue._calls import PROMOTED_MESSAGE
from ordered_queue._drive import drive_sync
from ordered_queue._steps.queue import cancel_submission, list_queue, unpark
from ordered_queue.cli import main
from ordered_queue.embedded import free_port
from tests.conftest import ROOT
from tests.interruption import counting_requests, with_interruption
from tests.server.deployed import give_work_pool, wait_until
from tests.server.slots import lapse, zombie_beside_a_live_run

API_KEY = "pnu_this-must-not-be-seen"
SCHEMA = {
    "title": "Parameters",
    "type": "object",
    "properties": {"number": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["number"],
}


@pytest.fixture
def command(client, capsys):
    """Call the command; its exit code, output lines and error text."""

    def call(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return call


@pytest.fixture
def process(server, tmp_path):
    """Run the command in a process of its own, on pipes, with an API key in its environment."""

    def run(*arguments, typed="", **settings):
        env = {**server.env, "PREFECT_API_KEY": API_KEY, **settings}
        result = subprocess.run(
            [sys.executable, "-m", "ordered_queue.cli", *map(str, arguments)],
            env=env,
            cwd=tmp_path,
            input=typed,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert API_KEY not in result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        return result.returncode, result.stdout.splitlines(), result.stderr

    return run


def json_lines(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def runs_of(queue):
    """All runs of the deployment, in the order of submission."""
    body = {"deployments": {"id": {"any_": [str(queue.id)]}}, "sort": "EXPECTED_START_TIME_ASC"}
    return queue.client.request("POST", "/flow_runs/filter", json=body).json()


def parameters_of(queue):
    return [run["parameters"] for run in runs_of(queue)]


def ids(parked):
    return [str(run.flow_run_id) for run in parked]


def due_for_prefect(queue):
    """What a poller of Prefect's own would take now, in its order."""
    body = {"deployment_ids": [str(queue.id)], "scheduled_before": datetime.now(timezone.utc).isoformat()}
    return [run["id"] for run in queue.client.request("POST", "/deployments/get_scheduled_flow_runs", json=body).json()]


def test_park_reads_each_value_as_json_or_else_as_text(command, deploy):
    queue = deploy(limit=1)
    values = ["number=1", "text=hello there", "flag=true", 'nested={"a": [1, null]}', 'quoted="1"', "sum=a=b", "empty="]

    code, out, err = command("park", queue.name, "--name", "mine", *(f"--param={value}" for value in values))

    assert code == 0, err
    (run,) = runs_of(queue)
    assert out == [run["id"]]
    assert (run["name"], run["state_name"]) == ("mine", "Late")
    assert run["parameters"] == {
        "number": 1,
        "text": "hello there",
        "flag": True,
        "nested": {"a": [1, None]},
        "quoted": "1",
        "sum": "a=b",
        "empty": "",
    }


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "runs.jsonl",
            '{"number": 0, "note": "ü"}\n\n{"number": 1}\n{"number": 2}',
            [{"number": 0, "note": "ü"}, {"number": 1}, {"number": 2}],
        ),
        (
            "runs.csv",
            '\ufeffnumber,note\r\n0,"a, ""b"""\r\n1,\r\n2,true\r\n',
            [{"number": 0, "note": 'a, "b"'}, {"number": 1}, {"number": 2, "note": True}],
        ),
    ],
    ids=["jsonl", "csv"],
)
def test_park_parks_each_line_of_a_file_in_order(command, deploy, tmp_path, name, content, expected):
    queue = deploy(limit=1)
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")

    code, out, err = command("park", queue.id, "--params-file", tmp_path / name)

    assert code == 0, err
    assert parameters_of(queue) == expected
    assert out == [run["id"] for run in runs_of(queue)]
    assert [run["state_name"] for run in runs_of(queue)] == ["Late", "Parked", "Parked"]


def test_park_parks_what_is_missing_and_nothing_twice_when_repeated_with_its_key(command, deploy, tmp_path):
    queue = deploy(limit=1)
    file = tmp_path / "runs.jsonl"
    rows = [{"number": number} for number in range(5)]
    arguments = ("park", queue.name, "--params-file", file, "--submission-key", "monday")
    file.write_text(json_lines(rows[:3]))
    _, first, err = command(*arguments)
    assert "Submission key: monday" in err

    _, again, told_again = command(*arguments)
    file.write_text(json_lines(rows))
    code, longer, told_longer = command(*arguments)

    assert code == 0
    assert "3 of 3 runs were there already." in told_again
    assert "3 of 5 runs were there already." in told_longer
    assert again == first
    assert longer[:3] == first
    assert parameters_of(queue) == rows
    assert longer == [run["id"] for run in runs_of(queue)]


@pytest.mark.parametrize(
    ("name", "content", "line", "reason"),
    [
        ("runs.jsonl", '{"number": 0}\n\n{"number": 1}\n{"number": \n', 4, "not valid JSON"),
        ("runs.csv", 'number,note\n0,"two\nlines"\n1,a,b\n', 4, "3 cells"),
        ("schema.jsonl", '{"number": 0}\n{"number": "one"}\n', 2, "'one' is not of type 'integer'"),
        ("names.jsonl", '{"number": 0}\n{"numbre": 1}\n', 2, "no parameter 'numbre'; it has number, note."),
        ("pipe.jsonl", "number,note\n0,a\n", 1, "If it is CSV, add --format csv."),
    ],
    ids=["jsonl", "csv", "schema", "names", "csv as jsonl"],
)
def test_park_names_the_line_and_parks_nothing_when_a_file_has_a_bad_one(
    command, deploy, tmp_path, name, content, line, reason
):
    queue = deploy(limit=1, parameter_openapi_schema=SCHEMA, enforce_parameter_schema=True)
    (tmp_path / name).write_text(content)

    code, out, err = command("park", queue.name, "--params-file", tmp_path / name)

    assert (code, out) == (1, [])
    assert f"{name}, line {line}: " in err
    assert reason in err
    assert "Nothing was parked." in err
    assert runs_of(queue) == []


def test_park_refuses_another_list_under_a_key_that_was_used(command, deploy, tmp_path):
    queue = deploy(limit=1)
    file = tmp_path / "runs.jsonl"
    arguments = ("park", queue.name, "--params-file", file, "--submission-key", "monday")
    file.write_text(json_lines([{"number": 0}, {"number": 1}]))
    command(*arguments)
    file.write_text(json_lines([{"number": 0}, {"number": 7}, {"number": 8}]))

    code, out, err = command(*arguments)

    assert (code, out) == (1, [])
    assert "runs.jsonl, line 2: submission 'monday' already has another run at this position" in err
    assert "use a new key for a new list. The run before it is parked.\n" in err
    assert parameters_of(queue) == [{"number": 0}, {"number": 1}]


def test_park_takes_a_value_for_text_when_the_flow_wants_text(command, deploy, tmp_path):
    queue = deploy(limit=1, parameter_openapi_schema=SCHEMA, enforce_parameter_schema=True)
    (tmp_path / "runs.csv").write_text("number,note\n1,12\n")

    for arguments in (["-p", "number=0", "-p", "note=12"], ["--params-file", tmp_path / "runs.csv"]):
        code, _, err = command("park", queue.name, *arguments)
        assert code == 0, err

    assert parameters_of(queue) == [{"number": 0, "note": "12"}, {"number": 1, "note": "12"}]


def test_park_says_so_when_there_is_nothing_to_park(command, deploy, tmp_path):
    queue = deploy(limit=1)
    (tmp_path / "runs.csv").write_text("number\n")

    code, out, err = command("park", queue.name, "--params-file", tmp_path / "runs.csv")

    assert (code, out) == (0, [])
    assert err.endswith("\nNothing to park.\n")


def test_park_says_that_nothing_was_parked_when_it_is_interrupted_before_the_first_chunk(command, deploy, monkeypatch):
    queue = deploy(limit=1)

    class Terminal:
        """One line, then Ctrl-C."""

        def __iter__(self):
            yield b'{"number": 0}\n'
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Terminal(), isatty=lambda: False))

    code, out, err = command("park", queue.name, "--params-file", "-")

    assert (code, out) == (130, [])
    assert err.endswith("\nInterrupted. Nothing was parked.\n")
    assert runs_of(queue) == []


def test_park_parks_a_pipe_up_to_its_bad_line_and_goes_on_when_it_is_corrected(process, command, deploy, monkeypatch):
    queue = deploy(limit=1)
    good = '{"number": 0}\n\n{"number": 1}\n'

    code, first, err = process("park", queue.name, "--params-file", "-", typed=good + "number 2\n")

    assert code == 1
    assert "standard input, line 4: it is not valid JSON" in err
    assert "The 2 runs before it are parked." in err
    # Everything that a program reads is an id; the rest is on standard error.
    assert first == [run["id"] for run in runs_of(queue)]
    assert parameters_of(queue) == [{"number": 0}, {"number": 1}]

    key = re.search(r"--submission-key (\S+)`", err).group(1)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((good + '{"number": 2}\n').encode())))
    code, again, _ = command("park", queue.name, "--params-file", "-", "--submission-key", key)

    assert code == 0
    assert again[:2] == first
    assert parameters_of(queue) == [{"number": 0}, {"number": 1}, {"number": 2}]


def test_park_prints_one_id_a_line_when_csv_comes_through_a_pipe(process, deploy):
    queue = deploy(limit=1)
    csv = "number\n" + "".join(f"{number}\n" for number in range(120))

    code, out, err = process("park", queue.name, "--params-file", "-", "--format", "csv", typed=csv)

    assert code == 0, err
    assert len(out) == 120
    assert [str(UUID(line)) for line in out] == [run["id"] for run in runs_of(queue)]
    # A progress bar would be noise in a log.
    assert re.fullmatch(r"Submission key: \S+\n", err)


@pytest.fixture
def busy_queue(deploy):
    """One run that runs, one that is promoted, three that wait; with the ids of all, in order."""
    queue = deploy(limit=2)
    parked = queue.park(5, submission_key="tuesday")
    queue.start(parked[0])
    return queue, parked


def test_ls_shows_what_runs_what_is_promoted_and_what_waits_in_order(command, busy_queue):
    queue, parked = busy_queue

    code, out, err = command("ls", queue.name)

    assert (code, err) == (0, "")
    assert out[0] == f"{queue.name}: limit 2, 2 occupied, 3 waiting"
    rows = out[2:]
    for run, row in zip(parked, rows, strict=True):
        assert str(run.flow_run_id) in row
        assert "tuesday" in row
    shown = [re.split(r"\s{2,}", row.strip())[:2] for row in rows]
    assert [first for first, _ in shown] == ["Running", "promoted", "0", "1", "2"]
    assert [second for _, second in shown[2:]] == ["waiting"] * 3


def test_ls_prints_one_json_object_for_a_program(command, busy_queue):
    queue, parked = busy_queue

    _, out, _ = command("ls", queue.id, "--json")
    shown = json.loads("\n".join(out))
    _, out, _ = command("ls", queue.id, "--json", "--limit", "1")
    cut = json.loads("\n".join(out))

    assert (shown["deployment"], shown["deployment_id"]) == (queue.name, str(queue.id))
    assert (shown["limit"], shown["occupied"], shown["waiting"], shown["more_waiting"]) == (2, 2, 3, False)
    assert [run["flow_run_id"] for run in shown["runs"]] == ids(parked)
    assert [run["standing"] for run in shown["runs"]] == ["active", "promoted", "waiting", "waiting", "waiting"]
    assert [run["position"] for run in shown["runs"]] == [None, None, 0, 1, 2]
    assert {run["submission"] for run in shown["runs"]} == {"tuesday"}
    assert [run["flow_run_id"] for run in cut["runs"]] == ids(parked[:3])
    assert cut["more_waiting"] is True


def test_ls_gives_runs_out_of_reach_no_slot_and_no_position(command, deploy):
    queue = deploy(limit=1)
    stranded = queue.park(3)
    give_work_pool(queue)
    parked = queue.park(2)

    _, out, err = command("ls", queue.name, "--limit", "2")
    _, printed, _ = command("ls", queue.name, "--json", "--limit", "2")
    shown = json.loads("\n".join(printed))

    assert out[0] == f"{queue.name}: limit 1, 1 occupied, 1 waiting, 3 out of reach"
    assert [run["flow_run_id"] for run in shown["runs"]] == ids([*parked, *stranded[:2]])
    assert [run["standing"] for run in shown["runs"]] == ["promoted", "waiting", "out of reach", "out of reach"]
    assert [run["position"] for run in shown["runs"]] == [None, 0, None, None]
    assert [run["state"] for run in shown["runs"]] == ["Late", "Parked", "Late", "Parked"]
    assert "`ordered-queue doctor` says what to do" in err


def test_ls_marks_a_run_without_a_sign_of_life_as_doctor_names_it(command, deploy, doctor, later):
    queue = deploy(limit=1)
    parked = zombie_beside_a_live_run(queue)
    _, early, _ = command("ls", queue.name)
    later(6)

    _, out, err = command("ls", queue.name)
    _, printed, _ = command("ls", queue.name, "--json")
    shown = json.loads("\n".join(printed))

    assert early[0] == f"{queue.name}: limit 1, 2 occupied, 1 waiting"
    assert out[0] == f"{queue.name}: limit 1, 1 occupied, 1 waiting, 1 without a sign of life"
    assert [run["flow_run_id"] for run in shown["runs"]] == ids([parked[1], parked[0], parked[2]])
    assert [run["standing"] for run in shown["runs"]] == ["active", "zombie", "waiting"]
    assert "`ordered-queue doctor` says what to do about it" in err
    assert doctor(queue.name)[1]["zombie"]["flow_run_ids"] == ids(parked[:1])


def test_ls_makes_one_request_more_where_a_run_may_be_a_zombie(deploy, later):
    queue = deploy(limit=1)
    run = queue.park(2)[0]
    queue.start(run)
    healthy, suspicious = [], []

    later(6)
    drive_sync(queue.client, counting_requests(list_queue(queue.id, 50), healthy))
    lapse(queue, run)
    drive_sync(queue.client, counting_requests(list_queue(queue.id, 50), suspicious))

    assert (len(healthy), len(suspicious)) == (4, 5)


def test_sweep_fills_one_queue_or_every_queue(command, deploy):
    # Their first run has gone without a word: nobody handed its slot over.
    queues = [deploy(limit=1), deploy(limit=1), deploy(limit=1)]
    parked = [queue.park(3) for queue in queues]
    for queue, (first, *_) in zip(queues, parked, strict=True):
        queue.delete(first)

    code, out, err = command("sweep", queues[0].name)

    assert code == 0, err
    assert out == [f"{queues[0].name}: promoted 1"]
    assert [queue.state_of(runs[1]) for queue, runs in zip(queues, parked, strict=True)] == ["Late", "Parked", "Parked"]

    _, out, _ = command("sweep")

    # Other tests' queues are swept with them.
    assert {f"{queues[0].name}: promoted 0", *(f"{queue.name}: promoted 1" for queue in queues[1:])} <= set(out)
    for queue, runs in zip(queues, parked, strict=True):
        assert queue.states(runs[1:]) == ["Late", "Parked"]


def test_cancel_cancels_the_waiting_runs_of_a_submission_and_leaves_the_running_one(command, deploy):
    queue = deploy(limit=1)
    mine = queue.park(3, submission_key=f"mine-{queue.id}")
    others = queue.park(2)
    queue.start(mine[0])

    code, out, err = command("cancel", "--submission", f"mine-{queue.id}")

    assert code == 0, err
    assert out == ["Cancelled 2 runs."]
    assert queue.states(mine) == ["Running", "Cancelled", "Cancelled"]
    assert queue.states(others) == ["Parked", "Parked"]

    code, out, err = command("cancel", queue.name, "--submission", f"mine-{queue.id}")

    assert (code, out) == (0, ["Cancelled 0 runs."])
    assert "No run of that submission waits to start: all of it has started, or no submission has that key." in err


def test_cancel_fills_the_slot_that_it_freed_when_a_run_was_promoted(command, deploy):
    queue = deploy(limit=1)
    mine = queue.park(2, submission_key="mine")
    others = queue.park(2, submission_key="others")

    code, out, err = command("cancel", queue.name, "--submission", "mine", "--yes")

    assert code == 0, err
    assert out == ["Cancelled 2 runs."]
    assert queue.states(mine) == ["Cancelled", "Cancelled"]
    assert queue.states(others) == ["Late", "Parked"]


def test_cancel_leaves_a_run_alone_that_started_after_it_was_listed(client, deploy):
    queue = deploy(limit=1)
    parked = queue.park(3, submission_key="mine")
    cancelled = []

    # 1. The waiting runs are listed.  2. The due ones are.  (A worker takes the promoted run.)  3. The first request
    # for the last run. In a long submission minutes lie between 2 and the promoted run's turn.
    steps = cancel_submission("mine", queue.id, cancelled)
    drive_sync(client, with_interruption(steps, 3, lambda: queue.start(parked[0])))

    assert queue.states(parked) == ["Running", "Cancelled", "Cancelled"]
    assert [str(run_id) for run_id in cancelled] == ids(parked)[:0:-1]


def test_unpark_hands_a_run_back_once_when_it_is_promoted_while_the_runs_are_listed(client, deploy):
    queue = deploy(limit=1)
    runs = queue.create_waiting(2)
    unparked = []

    # 1. The deployment is read.  2. The waiting runs are.  (A hook promotes the first.)  3. The due ones are.
    steps = unpark(queue.id, unparked)
    drive_sync(client, with_interruption(steps, 3, lambda: fill_free_slots_sync(client, queue.id)))

    assert sorted(unparked) == sorted(runs)
    assert queue.states(runs) == ["Late", "Late"]
    assert [queue.read(run).tags for run in runs] == [[], []]


def test_unpark_hands_every_waiting_run_back_to_prefect(command, deploy):
    queue = deploy(limit=2, tags=["the-deployments-own"])
    parked = queue.park(6)
    queue.start(parked[0])

    code, out, err = command("unpark", queue.name)

    assert code == 0, err
    assert out == ["Handed 5 runs back to Prefect."]
    assert queue.states(parked) == ["Running", *["Late"] * 5]
    assert due_for_prefect(queue) == ids(parked[1:])
    handed_back = [queue.read(run.flow_run_id) for run in parked[1:]]
    assert [run.tags for run in handed_back] == [["the-deployments-own"]] * 5
    # The first was promoted before; the message of the others hides them from no alert.
    messages = [run.state.message for run in handed_back]
    assert messages == [PROMOTED_MESSAGE, *["Handed back to Prefect by ordered-queue unpark."] * 4]
    assert PARKED_TAG in queue.read(parked[0].flow_run_id).tags

    _, out, _ = command("ls", queue.name)
    assert out[0].endswith(" 0 waiting")

    # From here on Prefect alone: its poller takes them, its limit holds, and the queue has nothing to say.
    queue.start(parked[1])
    assert queue.set_state(parked[2], "PENDING") == "REJECT"
    assert queue.state_of(parked[2]) == "AwaitingConcurrencySlot"
    queue.finish(parked[0])
    assert fill_free_slots_sync(queue.client, queue.id) == 0
    assert due_for_prefect(queue) == ids(parked[3:])
    queue.start(parked[3])
    queue.finish(parked[3])

    assert command("unpark", queue.name)[:2] == (0, ["Handed 0 runs back to Prefect."])


def test_unpark_warns_when_prefect_will_cancel_what_finds_no_slot(command, deploy, client):
    queue = deploy(limit=1)
    parked = queue.park(3)
    options = {"concurrency_options": {"collision_strategy": "CANCEL_NEW"}}
    client.request("PATCH", f"/deployments/{queue.id}", json=options)

    code, out, err = command("unpark", queue.name, "--yes")

    assert (code, out) == (0, ["Handed 3 runs back to Prefect."])
    assert f"The collision strategy of {queue.name} is CANCEL_NEW: Prefect will cancel each of these runs" in err
    # It is true.
    queue.start(parked[0])
    queue.set_state(parked[1], "PENDING")
    assert queue.state_of(parked[1]) == "Cancelled"


def test_unpark_has_nothing_to_warn_of_otherwise(command, deploy):
    queue = deploy(limit=1)
    queue.park(2)

    assert "CANCEL_NEW" not in command("unpark", queue.name)[2]


def test_park_says_that_the_deployment_is_gone_when_it_is_deleted_under_it(command, deploy, client, monkeypatch):
    queue = deploy(limit=1)

    def is_deleted():
        try:
            client.request("DELETE", f"/deployments/{queue.id}")
        except PrefectHTTPStatusError as error:  # a busy SQLite server refuses it for a while
            return error.response.status_code == 404
        except httpx.TransportError:
            return False
        return True

    class Pipe:
        """The second chunk comes after somebody deleted the deployment."""

        def __iter__(self):
            for number in range(150):
                if number == 100:
                    wait_until(is_deleted, what="the deletion")
                yield f'{{"number": {number}}}\n'.encode()

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(), isatty=lambda: False))

    code, _, err = command("park", queue.name, "--params-file", "-")

    assert code == 1
    assert "(Deployment not found). It was deleted while this command ran" in err
    assert "PREFECT_API_URL" not in err


def test_init_writes_the_nightly_refresh_when_no_server_is_named(process, tmp_path):
    code, out, err = process("init", "project", PREFECT_API_URL="")

    assert code == 0, err
    for name in ("flows/refresh.py", "deployments.yaml"):
        assert f"Wrote project/{name}" in out
        assert (tmp_path / "project" / name).read_bytes() == (ROOT / name).read_bytes()


def test_each_command_names_the_nearest_deployments_when_there_is_none_of_that_name(command, deploy):
    # Among the first by name, however many deployments the other tests have made.
    queue = deploy(limit=1, name="a-nightly-export")
    flow_name = queue.name.split("/")[0]

    for arguments in (["park"], ["ls"], ["sweep"], ["unpark"], ["cancel", "--submission", "x"]):
        code, out, err = command(*arguments, f"{flow_name}/a-nightly-exprot")

        assert (code, out) == (1, []), arguments
        assert f"There is no deployment '{flow_name}/a-nightly-exprot'." in err
        assert f"Did you mean '{flow_name}/a-nightly-export'?" in err


def test_the_command_says_in_one_line_that_no_server_answers(process):
    address = f"127.0.0.1:{free_port()}/api"

    code, out, err = process("ls", "a/b", PREFECT_API_URL=f"http://me:hunter22@{address}")

    assert (code, out) == (1, [])
    assert re.fullmatch(r"Error: .*\n", err)
    assert f"http://{address}" in err
    assert "Check that the server is running" in err
    assert "hunter22" not in err
