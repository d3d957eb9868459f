"""Print an S3 Inventory in Parquet as CSV for shoal index: inventory_parquet.py FILE.parquet... | shoal index - --format
inventory --columns "Bucket, Key, Size, ETag" -o FILE.  Needs pyarrow, as in pip install 'shoal[parquet]'."""

import csv
import sys
from typing import Any, Dict, Iterable, List, TextIO
from urllib.parse import quote_plus

COLUMNS = ["bucket", "key", "size", "e_tag"]
FLAGS = ["is_latest", "is_delete_marker"]  # of buckets with versions


def write_csv(rows: Iterable[Dict[str, Any]], out: TextIO) -> None:
    """Objects that are there now; in CSV their keys are encoded, in Parquet they are not."""
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for row in rows:
        if row.get("is_latest") is not False and not row.get("is_delete_marker"):
            writer.writerow([row["bucket"], quote_plus(row["key"], safe="/"), row["size"], row.get("e_tag") or ""])


def main(paths: List[str]) -> None:
    import pyarrow.parquet as parquet

    for path in paths:
        file = parquet.ParquetFile(path)
        names = [name for name in COLUMNS + FLAGS if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=names):  # memory does not grow with the inventory
            write_csv(batch.to_pylist(), sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
