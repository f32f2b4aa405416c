"""Print the lower bounds of the project's dependencies as pip constraints."""

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
for requirement in project["dependencies"]:
    sys.stdout.write(re.sub(r"\s*>=\s*", "==", requirement) + "\n")
