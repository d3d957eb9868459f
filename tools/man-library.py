#!/usr/bin/env python3
"""Print the manual page of the library, shoal(3), made from the declarations and comments of include/shoal.h:
man-library.py VERSION"""
import pathlib
import re
import sys
import textwrap

HEADER = pathlib.Path(__file__).resolve().parent.parent / "include" / "shoal.h"
WIDTH = 72
SECTION = re.compile(r"/\* -{4} (.*?) -+ \*/$")


def roff(text):
    """A line in which nothing is interpreted by roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return ("\\&" if text[:1] in (".", "'") else "") + text


def paragraphs(comment):
    """The paragraphs of a comment, each a list of its lines."""
    found = [[]]
    for line in comment:
        line = re.sub(r"^ ?/?\*+/?\s?|\s*\*/$", "", line).strip()
        if line:
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return [each for each in found if each]


def prose(comment):
    for lines in paragraphs(comment):
        yield ".PP"
        for line in lines:
            yield re.sub(r"@(\w+)", r"\\fI\1\\fR", roff(line))


def chunks(lines):
    """(comment, code) of each stretch of lines without an empty one between them."""
    comment, code, inside = [], [], False
    for line in [*lines, ""]:
        if not line and not inside:
            if comment or code:
                yield comment, code
            comment, code = [], []
        elif inside or (line.startswith("/*") and not code):
            comment.append(line)
            inside = not line.endswith("*/")
        else:
            code.append(line)


def wrapped(text):
    """Lines that end after a comma."""
    lines = textwrap.wrap(re.sub(r"(?<!,) ", "\0", text), WIDTH, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def declaration(code):
    """In bold; narrower than in the header, to fit a terminal."""
    text = re.sub(r"\bSHOAL_(API|CHECKED) ", "", "\n".join(code))
    if "{" in text or text.startswith("#"):
        lines = [re.sub(r"^ {4}(?= {4})", "", line.expandtabs()) for line in text.split("\n")]
    else:
        lines = [line for each in re.split(r"\n(?=\S)", text) for line in wrapped(re.sub(r"\s+", " ", each))]
    yield ".nf"
    yield from ("\\fB%s\\fR" % roff(line) for line in lines)
    yield ".fi"


def body(lines):
    for comment, code in chunks(lines):
        title = SECTION.match(comment[0]) if len(comment) == 1 and not code else None
        text = list(prose(comment))
        if title:
            yield ".SS " + roff(title[1])
        elif code:
            yield ".PP"
            yield from declaration(code)
            if text:
                yield from (".RS 4", *text[1:], ".RE")
        else:
            yield from text


def without_empty_paragraphs(lines):
    """A heading begins a paragraph itself."""
    return [line for before, line in zip(["", *lines], lines) if line != ".PP" or not before.startswith(".SS")]


def page(version):
    text = HEADER.read_text(encoding="utf-8")
    start = re.match(r"/\*\n \* shoal\.h - .*?\n \*\n(.*?) \*/\n", text, re.S)[1]
    declarations = text[text.index("#define SHOAL_CHECKED"):text.rindex("#ifdef __cplusplus")].splitlines()[1:]
    return "\n".join([
        f'.TH "SHOAL" 3 "" "shoal {version}" "Library Functions"',
        ".SH NAME", "libshoal \\- list, shard, shuffle and load datasets of any number of files",
        ".SH SYNOPSIS", "\\fB#include <shoal.h>\\fR", ".PP", "Link with \\fI\\-lshoal\\fR.",
        ".SH DESCRIPTION", *list(prose(start.splitlines()))[1:], *without_empty_paragraphs(list(body(declarations))),
        ".SH SEE ALSO", ".BR shoal (1)", ""])


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
