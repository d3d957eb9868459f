#!/usr/bin/env python3
"""Measure what the file list of a PyTorch DataLoader costs by the number of workers, and draw it.

usage: memory_chart.py [--build DIR] [--names N] [--draw-only]

Writes docs/memory.csv (what was measured) and docs/memory.svg (the picture of the README). The figures are the memory of
all processes (PSS) with N names, less that with 1,000 names, after three epochs in which every worker touched its samples.
"""
import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = (1, 2, 4, 8, 16)
KINDS = ("list[str]", "shoal")
SMALL = 1000
CSV, SVG = ROOT / "docs" / "memory.csv", ROOT / "docs" / "memory.svg"

WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 40, 50


def make_catalog(build, folder, names):
    path = os.path.join(folder, "names%d.cat" % names)
    generator = subprocess.Popen([build / "bench" / "gen_names", "imagenet", str(names)], stdout=subprocess.PIPE)
    with generator:
        subprocess.run([build / "shoal", "index", "-q", "--root", "/data", "-o", path, "-"], stdin=generator.stdout, check=True)
    return path


def measure(build, path, kind, workers):
    child = ROOT / "bench" / "python_child.py"
    done = subprocess.run([sys.executable, child, "memory", path, kind, "fork", "3", str(workers)], check=True, text=True,
                          stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(build / "python")})
    return int(done.stdout.split("\t")[2])


def measure_all(build, names):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        small, large = (make_catalog(build, folder, n) for n in (SMALL, names))
        for kind in KINDS:
            for workers in WORKERS:
                grown = measure(build, large, kind, workers) - measure(build, small, kind, workers)
                rows.append({"kind": kind, "workers": workers, "names": names, "bytes": max(0, grown)})
                print("%-10s %2d workers: %d bytes" % (kind, workers, grown), flush=True)
    return rows


def text(x, y, words, more=""):
    return '<text x="%.0f" y="%.0f" %s>%s</text>' % (x, y, more, words)


def draw(rows):
    """One line per kind: bytes per name over workers, both from 0 on."""
    top = max(float(row["bytes"]) / float(row["names"]) for row in rows) * 1.08
    names = int(rows[0]["names"])

    def place(workers, value):
        return (LEFT + (WIDTH - LEFT - RIGHT) * workers / WORKERS[-1],
                HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top)

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" role="img" '
           'aria-label="Memory of the file list by the number of workers">' % (WIDTH, HEIGHT),
           '<rect width="100%" height="100%" fill="white"/>',
           text(LEFT, 22, "Memory of the file list, all processes of one rank, bytes per file", 'font-weight="bold"')]
    for i in range(5):
        value = top / 1.08 * i / 4
        x, y = place(0, value)
        out.append('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>' % (LEFT, y, WIDTH - RIGHT, y))
        out.append(text(x - 8, y + 4, "%.0f" % value, 'text-anchor="end"'))
    for workers in WORKERS:
        x, y = place(workers, 0)
        out.append(text(x, y + 20, workers, 'text-anchor="middle"'))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10,
                    "DataLoader workers (fork), %s files, 3 epochs" % format(names, ","), 'text-anchor="middle"'))
    for kind, colour in zip(KINDS, ("#c0392b", "#1f618d")):
        points = [(int(row["workers"]), float(row["bytes"]) / names) for row in rows if row["kind"] == kind]
        line = " ".join("%.1f,%.1f" % place(*point) for point in points)
        out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"/>' % (line, colour))
        out += ['<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>' % (*place(*point), colour) for point in points]
        x, y = place(*points[-1])
        label = {"list[str]": "list of str", "shoal": "Shoal"}[kind]
        out.append(text(x + 10, y + 4, "%s: %.0f" % (label, points[-1][1]), 'fill="%s" font-weight="bold"' % colour))
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--names", default=10**6, type=int)
    parser.add_argument("--draw-only", action="store_true", help="draw again what docs/memory.csv has")
    options = parser.parse_args()
    if not options.draw_only:
        rows = measure_all(options.build.resolve(), options.names)
        with open(CSV, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    with open(CSV, newline="") as file:
        SVG.write_text(draw(list(csv.DictReader(file))))


if __name__ == "__main__":
    main()
