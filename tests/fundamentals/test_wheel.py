"""What users install: the package alone, and the nightly refresh within it for `ordered-queue init` to write."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.conftest import ROOT

PROJECT_FILES = ("flows/refresh.py", "deployments.yaml")


def run(*command, folder, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(target, source: Path, into: Path) -> Path:
    """By the build backend itself, so that nothing is fetched."""
    run(sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", into, folder=source)
    (made,) = into.iterdir()
    return made


@pytest.fixture(scope="module", params=["checkout", "sdist"])
def wheel(request, tmp_path_factory):
    """Built from a checkout, as in development, and from a source distribution, as pip may do."""
    source = ROOT
    if request.param == "sdist":
        unpacked = tmp_path_factory.mktemp("unpacked")
        with tarfile.open(build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))) as archive:
            archive.extractall(unpacked, filter="data")
        (source,) = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel):
    names = ZipFile(wheel).namelist()

    assert {name.split("/")[0].split("-")[0] for name in names} == {"ordered_queue"}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ordered_queue").rglob("*.py")}
    assert modules <= set(names)
    for name in PROJECT_FILES:
        assert name not in names
        assert f"ordered_queue/_project/{name}" in names


def test_init_writes_the_nightly_refresh_when_the_package_was_installed_from_the_wheel(wheel, tmp_path):
    installed, project = tmp_path / "installed", tmp_path / "project"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", installed]
    run(*pip, wheel, folder=tmp_path)

    where = run(
        sys.executable,
        "-c",
        "import ordered_queue; print(ordered_queue.__file__)",
        folder=tmp_path,
        PYTHONPATH=str(installed),
    )
    run(installed / "bin" / "ordered-queue", "init", project, folder=tmp_path, PYTHONPATH=str(installed))

    assert where.startswith(str(installed))
    for name in PROJECT_FILES:
        assert (project / name).read_bytes() == (ROOT / name).read_bytes()
