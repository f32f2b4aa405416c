from pathlib import Path

import pytest

from ordered_queue.cli import main
from tests.conftest import ROOT

FILES = ("flows/refresh.py", "deployments.yaml", "crash-zombies.yaml")


def test_init_writes_its_files_and_says_what_to_run_next(tmp_path: Path, capsys):
    directory = tmp_path / "new" / "project"

    assert main(["init", str(directory)]) == 0

    for name in FILES:
        assert (directory / name).read_bytes() == (ROOT / name).read_bytes()
    assert "prefect --no-prompt deploy --prefect-file deployments.yaml --all" in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
def test_init_writes_nothing_when_one_file_is_there(tmp_path: Path, capsys, name):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")

    assert main(["init", str(tmp_path)]) == 1

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"
    assert f"Error: {mine} would be overwritten" in capsys.readouterr().err


def test_init_writes_nothing_when_a_dangling_link_is_there(tmp_path: Path):
    (tmp_path / "deployments.yaml").symlink_to(tmp_path / "nowhere")

    assert main(["init", str(tmp_path)]) == 1
    assert not (tmp_path / "nowhere").exists()


def test_init_overwrites_when_forced(tmp_path: Path):
    (tmp_path / "deployments.yaml").write_text("mine")

    assert main(["init", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "deployments.yaml").read_bytes() == (ROOT / "deployments.yaml").read_bytes()


def test_init_refuses_a_file_in_the_place_of_the_directory(tmp_path: Path, capsys):
    path = tmp_path / "file"
    path.touch()

    assert main(["init", str(path)]) == 2
    assert "is not a directory" in capsys.readouterr().err
