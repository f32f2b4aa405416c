"""Rows of parameters out of `--param`, JSON lines and CSV, each with the line that it came from.

A row that cannot be read is an `InvalidRun` raised by the iterator: `park` then parks nothing (a file) or the rows
before it (a stream), and says so.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from ordered_queue._calls import CHUNK
from ordered_queue.cli.failures import Misused
from ordered_queue.cli.values import ReadValue, each_name_once, read_value, strict_json
from ordered_queue.errors import InvalidRun

Format: TypeAlias = Literal["jsonl", "csv"]
Row: TypeAlias = dict[str, Any]
NumberedRows: TypeAlias = Iterator[tuple[int, Row]]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


LONGEST_CELL = 1_000_000
"""In characters. Python's own bound is 131,072; Prefect takes more than that in a parameter (524,288 bytes)."""

ALONE = re.compile(r"(?<=\r)(?!\n)")
"""The place behind a carriage return without a line feed."""


class BadLine(Exception):
    """A line that is no row.

    Attributes:
        line: its number, from 1.
        reason: what is wrong with it; a sentence that starts in lower case.
    """

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


class Rows(ABC):
    """Rows of parameters, one after another.

    Attributes:
        name: what they are read from, for messages.
        total: how many there are; None until they were all read once.
        read_value: how a text is read where the format does not say what it is.
        was_interrupted: whether an interrupt came while a row was being read.
    """

    def __init__(self, name: str, row_format: Format) -> None:
        self.name = name
        self.total: int | None = None
        self.read_value: ReadValue = read_value
        self.was_interrupted = False
        self._read = READERS[row_format]
        self._line_of: deque[tuple[int, int]] = deque(maxlen=2 * CHUNK)

    @abstractmethod
    def __iter__(self) -> Iterator[Row]:
        """The rows, from the first."""

    def where(self, position: int) -> str:
        """The file and line of a row read lately (the row that `park` finds fault with is in its last chunk)."""
        for known, line in self._line_of:
            if known == position:
                return f"{self.name}, line {line}"
        return f"{self.name}, run {position}"

    def rows_of(self, lines: Iterable[bytes]) -> Iterator[Row]:
        """The rows that the lines hold.

        Raises:
            InvalidRun: a line is no row.
        """
        self._line_of.clear()
        position = 0
        try:
            for line, row in self._read(decoded(lines), self.read_value):
                self._line_of.append((position, line))
                yield row
                position += 1
        except KeyboardInterrupt:
            self.was_interrupted = True
            raise
        except BadLine as error:
            self._line_of.append((position, error.line))
            raise InvalidRun(position, error.reason) from error
        self.total = position


class StreamRows(Rows):
    """The rows of a stream, which can be read once: `park` parks them as it reads."""

    def __init__(self, name: str, lines: Iterable[bytes], row_format: Format) -> None:
        super().__init__(name, row_format)
        self._rows = self.rows_of(lines)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        return next(self._rows)


class FileRows(Rows):
    """The rows of a file, which can be read again: `park` checks them all before it creates a run."""

    def __init__(self, path: Path, row_format: Format) -> None:
        super().__init__(str(path), row_format)
        self._path = path

    def __iter__(self) -> Iterator[Row]:
        with self._path.open("rb") as lines:
            yield from self.rows_of(lines)


def format_of(path: Path) -> Format:
    """What a file holds, by the end of its name."""
    return "csv" if path.suffix.lower() == ".csv" else "jsonl"


def decoded(lines: Iterable[bytes]) -> Iterator[str]:
    """Lines of text out of lines of bytes.

    Raises:
        BadLine: it is not UTF-8.
    """
    for number, line in enumerate(lines, 1):
        try:
            # Spreadsheets put a byte order mark before the first column's name.
            yield (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).decode()
        except UnicodeDecodeError as error:
            raise BadLine(number, f"it is not UTF-8 text ({error.reason} at byte {error.start + 1}).") from error


def json_rows(lines: Iterable[str], read_value: ReadValue) -> NumberedRows:
    """One row for each line that is not blank.

    Raises:
        BadLine: it is not valid JSON, not an object, or names something twice.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = strict_json(line.strip(), each_name_once)
        except json.JSONDecodeError as error:
            # A header does; a comma too many in a later line is no sign of CSV.
            hint = " If it is CSV, add --format csv." if number == 1 and not line.lstrip().startswith("{") else ""
            raise BadLine(number, f"it is not valid JSON ({error.msg} at column {error.colno}).{hint}") from error
        except (ValueError, RecursionError) as error:
            raise BadLine(number, f"it is not usable JSON ({error}).") from error
        if not isinstance(value, dict):
            raise BadLine(number, f'it is {_kind(value)}, not an object of parameters like {{"table": "a"}}.')
        yield number, cast("Row", value)


def _kind(value: object) -> str:
    if isinstance(value, list | str):
        return "an array" if isinstance(value, list) else "a string"
    return "null" if value is None else "true or false" if isinstance(value, bool) else "a number"


def csv_rows(lines: Iterable[str], read_value: ReadValue) -> NumberedRows:
    """One row for each record below the header; an empty cell is a parameter left out.

    Raises:
        BadLine: the header names a parameter twice or not at all, a record has more cells than the header, or is not
            valid CSV.
    """
    records = _records(lines)
    first = next(records, None)
    if first is None:
        return
    header = _checked_header(*first)
    for number, cells in records:
        if len(cells) > len(header):
            raise BadLine(number, f"it has {len(cells)} cells, but the header names {len(header)} parameters.")
        yield number, {name: read_value(name, cell) for name, cell in zip(header, cells, strict=False) if cell}


def _records(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not blank, with the line that it starts on.

    Raises:
        BadLine: it is not valid CSV.
    """
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(_split_at_returns(lines), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BadLine(number, f"it is not valid CSV ({error}).") from error
        if cells:
            yield number, cells


def _split_at_returns(lines: Iterable[str]) -> Iterator[str]:
    """The lines, cut after each carriage return that stands alone, as it does in Excel's "CSV (Macintosh)"."""
    for line in lines:
        yield from filter(None, ALONE.split(line))


def _checked_header(number: int, cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for column, name in enumerate(names, 1):
        if not name:
            raise BadLine(number, f"column {column} of the header has no name.")
        if name in names[: column - 1]:
            raise BadLine(number, f"the header names {name!r} twice.")
    return names


def split_params(specs: Iterable[str]) -> dict[str, str]:
    """The parameters of one run out of "name=value" texts, each value as it stands there.

    Raises:
        Misused: one has no name or no "=", or a name comes twice.
    """
    values: dict[str, str] = {}
    for spec in specs:
        name, equals, value = spec.partition("=")
        if not equals or not name:
            raise Misused(f"--param {spec!r} is not of the form NAME=VALUE.")
        if name in values:
            raise Misused(f"--param gives {name!r} twice. For several runs use --params-file.")
        values[name] = value
    return values


READERS: dict[Format, Callable[[Iterable[str], ReadValue], NumberedRows]] = {"jsonl": json_rows, "csv": csv_rows}
