"""Write a list as Parquet: shoal ls FILE --json | to_parquet.py OUT.parquet, also after shoal list.  Needs pyarrow, as in
pip install 'shoal[parquet]'. Columns: name (bytes), size, samples, etag."""

import itertools
import json
import sys
from typing import Any, Dict, Iterable, List

ROWS = 65536  # of a row group: memory does not grow with the list


def columns(lines: Iterable[str]) -> Dict[str, List[Any]]:
    """The columns of some objects; a name that is not UTF-8 has its bytes in name_hex."""
    rows = [json.loads(line) for line in lines]
    return {"name": [bytes.fromhex(row["name_hex"]) if "name_hex" in row else row["name"].encode() for row in rows],
            "size": [row["size"] for row in rows],
            "samples": [row["samples"] for row in rows],
            "etag": [row.get("etag") for row in rows]}


def main(path: str) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    schema = pyarrow.schema([("name", pyarrow.binary()), ("size", pyarrow.uint64()), ("samples", pyarrow.uint64()),
                             ("etag", pyarrow.string())])
    with parquet.ParquetWriter(path, schema) as writer:
        while group := list(itertools.islice(sys.stdin, ROWS)):
            writer.write_table(pyarrow.table(columns(group), schema=schema))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
