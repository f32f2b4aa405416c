import io
from pathlib import Path

import pytest

from ordered_queue import InvalidRun
from ordered_queue.cli.failures import Misused
from ordered_queue.cli.rows import FileRows, Rows, StreamRows, format_of, split_params


def a_stream(text: str | bytes, row_format="jsonl") -> StreamRows:
    data = text if isinstance(text, bytes) else text.encode()
    return StreamRows("standard input", io.BytesIO(data), row_format)


def problem_of(rows: Rows) -> tuple[int, str, str]:
    with pytest.raises(InvalidRun) as caught:
        list(rows)
    return caught.value.position, rows.where(caught.value.position), caught.value.reason


def test_params_are_split_when_each_has_a_name():
    assert split_params(["n=1", "where=a=b", "empty="]) == {"n": "1", "where": "a=b", "empty": ""}


@pytest.mark.parametrize("specs", [["n"], ["=1"], ["n=1", "n=2"]])
def test_params_are_refused_when_one_has_no_name_or_a_second_value(specs):
    with pytest.raises(Misused):
        split_params(specs)


def test_json_lines_are_rows_when_blank_lines_stand_between_them():
    assert list(a_stream('{"n": 1}\n\n  \r\n{"n": 2}\r\n{}')) == [{"n": 1}, {"n": 2}, {}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"n": 1', "it is not valid JSON (Expecting ',' delimiter at column 8)."),
        ("[1]", 'it is an array, not an object of parameters like {"table": "a"}.'),
        ("null", 'it is null, not an object of parameters like {"table": "a"}.'),
        ("true", 'it is true or false, not an object of parameters like {"table": "a"}.'),
        ("1.5", 'it is a number, not an object of parameters like {"table": "a"}.'),
        ('{"n": NaN}', "it is not usable JSON (JSON has no NaN)."),
        ('{"n": 1, "n": 1}', "it is not usable JSON (it names 'n' twice)."),
        ('{"n": {"a": 1, "b": 2, "a": 3}}', "it is not usable JSON (it names 'a' twice)."),
    ],
)
def test_a_json_line_is_named_when_it_is_no_object(line, reason):
    rows = a_stream(f'{{"n": 0}}\n\n{line}\n{{"n": 2}}\n')

    assert problem_of(rows) == (1, "standard input, line 3", reason)


@pytest.mark.parametrize("header", ["table", "table,day", '"table","day"'])
def test_the_first_line_brings_a_hint_when_it_may_be_the_header_of_csv(header):
    assert problem_of(a_stream(f"{header}\n1,2\n"))[2].endswith(" If it is CSV, add --format csv.")


def test_a_json_line_is_named_when_it_is_nested_too_deeply():
    position, where, reason = problem_of(a_stream("[" * 100_000))

    assert (position, where) == (0, "standard input, line 1")
    assert reason.startswith("it is not usable JSON")


def test_a_line_is_named_when_it_is_not_utf_8():
    rows = a_stream(b'{"n": 1}\n{"n": "\xff"}\n')

    assert problem_of(rows) == (
        1,
        "standard input, line 2",
        "it is not UTF-8 text (invalid start byte at byte 8).",
    )


def test_csv_cells_are_json_or_text_and_left_out_when_empty():
    text = 'n, table \r\n1,orders\r\n2,\r\n\r\n,"a\nb"\r\n3,"""x"""\r\n4\r\n'

    assert list(a_stream(text, "csv")) == [
        {"n": 1, "table": "orders"},
        {"n": 2},
        {"table": "a\nb"},
        {"n": 3, "table": "x"},
        {"n": 4},
    ]


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_csv_is_read_whatever_ends_its_lines(end):
    text = end.join(["n,table", "1,orders", '2,"a\rb"', "", "3,c", ""])

    assert list(a_stream(text.encode(), "csv")) == [
        {"n": 1, "table": "orders"},
        {"n": 2, "table": "a\rb"},
        {"n": 3, "table": "c"},
    ]


def test_a_csv_record_is_named_when_a_return_alone_ends_lines():
    assert problem_of(a_stream(b"n\r1\r1,2\r", "csv"))[:2] == (1, "standard input, line 3")


def test_csv_cells_may_be_as_long_as_prefect_takes_a_parameter():
    assert list(a_stream("n\n" + "x" * 600_000 + "\n", "csv")) == [{"n": "x" * 600_000}]


def test_a_csv_cell_that_is_longer_is_named():
    position, where, reason = problem_of(a_stream('n\n1\n"' + "x\n" * 600_000, "csv"))

    assert (position, where) == (1, "standard input, line 3")
    assert "field larger than field limit (1000000)" in reason


def test_csv_cells_are_read_as_the_flow_wants_them():
    rows = a_stream("n,table\n1,2\n", "csv")
    rows.read_value = lambda name, text: f"{name}={text}"

    assert list(rows) == [{"n": "n=1", "table": "table=2"}]


def test_rows_tell_of_an_interrupt_when_it_came_while_a_line_was_awaited():
    def lines():
        yield b'{"n": 1}\n'
        raise KeyboardInterrupt

    rows = StreamRows("standard input", lines(), "jsonl")
    next(rows)

    assert not rows.was_interrupted
    with pytest.raises(KeyboardInterrupt):
        next(rows)
    assert rows.was_interrupted


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_rows_are_read_when_a_spreadsheet_put_a_byte_order_mark_in_front(row_format):
    text = {"jsonl": b'\xef\xbb\xbf{"n": 1}\n', "csv": b"\xef\xbb\xbfn\n1\n"}[row_format]

    assert list(a_stream(text, row_format)) == [{"n": 1}]


@pytest.mark.parametrize("row_format", ["jsonl", "csv"])
def test_no_rows_come_when_the_text_is_empty(row_format):
    rows = a_stream("", row_format)

    assert list(rows) == []
    assert rows.total == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('n\n"a\nb"\n1,2\n', (1, 4, "it has 2 cells, but the header names 1 parameters.")),
        ('n\n1\n"a\nb\n', (1, 3, "it is not valid CSV (unexpected end of data).")),
        ("n,n\n1,2\n", (0, 1, "the header names 'n' twice.")),
        ("n,,t\n1,2\n", (0, 1, "column 2 of the header has no name.")),
    ],
)
def test_a_csv_record_is_named_by_the_line_it_starts_on_when_it_is_bad(text, problem):
    position, line, reason = problem

    assert problem_of(a_stream(text, "csv")) == (position, f"standard input, line {line}", reason)


def test_a_file_can_be_read_again_and_knows_its_total_when_it_was_read(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"n": 1}\n\n{"n": 2}\n')
    rows = FileRows(path, "jsonl")

    assert rows.total is None
    assert list(rows) == list(rows) == [{"n": 1}, {"n": 2}]
    assert rows.total == 2
    assert iter(rows) is not rows
    assert rows.where(1) == f"{path}, line 3"


def test_a_stream_is_read_no_further_than_asked():
    def lines():
        yield b'{"n": 1}\n'
        raise AssertionError("read too far")

    rows = StreamRows("standard input", lines(), "jsonl")

    assert iter(rows) is rows
    assert next(rows) == {"n": 1}


def test_rows_name_the_run_when_its_line_is_long_forgotten():
    rows = a_stream('{"n": 1}\n' * 1_000)
    list(rows)

    assert rows.where(999) == "standard input, line 1000"
    assert rows.where(0) == "standard input, run 0"


@pytest.mark.parametrize(
    ("name", "row_format"), [("a.csv", "csv"), ("A.CSV", "csv"), ("a.jsonl", "jsonl"), ("a", "jsonl")]
)
def test_a_format_follows_from_the_name(name, row_format):
    assert format_of(Path(name)) == row_format
