"""Prints what a catalog file holds: python3 dump.py FILE [--sizes] [-0] | --check | --segments."""

import argparse
import os
import sys

import shoalcat


def print_names(catalog, with_sizes, end):
    out = sys.stdout.buffer
    sizes = catalog.sizes() if with_sizes else None
    for name in catalog.names():
        if with_sizes:
            # An unknown size is printed as "-".
            out.write(b"%s\t%s%s" % (name, b"-" if sizes is None else b"%d" % next(sizes), end))
        else:
            out.write(name + end)
    out.flush()


def print_segments(catalog):
    for number, (first, count, offset, offset_end, _) in enumerate(catalog.segments):
        print(catalog.segment_kind(number), first, count, offset_end - offset)


def main():
    parser = argparse.ArgumentParser(description="Print what a catalog file holds.")
    parser.add_argument("file")
    parser.add_argument("--sizes", action="store_true", help="print a tab and the size after each name")
    parser.add_argument("-0", dest="zero", action="store_true", help="end each name with NUL instead of a newline")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="check everything; print 'ok' or what is wrong")
    action.add_argument("--segments", action="store_true", help="print kind, first id, count, payload bytes of each")
    arguments = parser.parse_args()
    try:
        catalog = shoalcat.Catalog(arguments.file)
        if arguments.check:
            catalog.check()
            print("ok")
        elif arguments.segments:
            print_segments(catalog)
        else:
            print_names(catalog, arguments.sizes, b"\0" if arguments.zero else b"\n")
        sys.stdout.flush()
    except shoalcat.Damaged as error:
        # The damage is what --check is asked for, so it goes to stdout then; else it must not mix with names.
        sys.stdout.flush()
        print(error, file=sys.stdout if arguments.check else sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader went away (head). Keep Python from failing again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
