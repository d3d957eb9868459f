"""python -m shoal: the command, for where its folder is not in PATH."""
import importlib.metadata
import os
import shutil
import sys
from typing import Optional


def find() -> Optional[str]:
    """The path of the command that belongs to this package: of its wheel, beside it in a build, or of the PATH."""
    try:
        files = importlib.metadata.files("shoal") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    places = [str(file.locate()) for file in files if file.name == "shoal" and file.parent.name in ("bin", "scripts")]
    places.append(os.path.join(os.path.dirname(__file__), "..", "..", "shoal"))
    for place in map(os.path.abspath, places):
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    return shutil.which("shoal")


def main() -> int:
    command = find()
    if not command:
        print("shoal: the command is not installed: this package has come without it, and PATH has none", file=sys.stderr)
        return 1
    os.execv(command, ["shoal", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
