#!/usr/bin/env python3
"""Turn files into C: embed.py OUT.c NAME=FILE[,FILE...]...

Each NAME becomes `const char NAME[]`, the bytes of its files one after the other and a NUL, and `const size_t NAME_len`.
"""
import sys


def main(out, *parts):
    with open(out, "w") as c:
        c.write("#include <stddef.h>\n\n")
        for part in parts:
            name, _, files = part.partition("=")
            data = b"\n".join(open(path, "rb").read() for path in files.split(","))
            c.write(f"extern const char {name}[];\nextern const size_t {name}_len;\nconst char {name}[] = {{\n")
            for i in range(0, len(data), 24):
                c.write("\t" + ", ".join(str(byte if byte < 128 else byte - 256) for byte in data[i:i + 24]) + ",\n")
            c.write(f"\t0,\n}};\nconst size_t {name}_len = {len(data)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
