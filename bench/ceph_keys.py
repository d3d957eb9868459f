#!/usr/bin/env python3
"""Fill a bucket of tools/s3-server with keys in a minute instead of an hour, to measure how a real server lists them.

    bench/ceph_keys.py DIR BUCKET NUMBER

DIR is the server's folder. One object is put by HTTP; its entry in the bucket's index is then written again under each of NUMBER
other names, into the part of the index where the gateway would keep it. The gateway lists these as it lists any; there is nothing
to read behind them. The parts are checked with objects that are put by HTTP. Needs python3-rados."""
import os
import subprocess
import sys

import rados

NAME = "set/%04d/img_%09d.jpeg"  # all of one length, as the entry has lengths in it
PER_FOLDER, AT_ONCE, PRIME = 1000, 5000, 7877
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def name(i):
    return NAME % (i // PER_FOLDER, i)


def shard_of(key, nr_shards):
    """The part of the index that has a key: the hash of names in Linux' directory cache, as the gateway uses it."""
    value = 0
    for byte in key.encode():
        value = (value + (byte << 4) + (byte >> 4)) * 11 & 0xFFFFFFFF
    return (value ^ (value & 0xFF) << 24) % PRIME % nr_shards


def put(env, build, bucket, prefix, nr):
    """Objects PREFIX and seven digits and .bin, by HTTP; the bucket, if it is not there."""
    subprocess.run([os.path.join(build, "bench", "s3_fill"), bucket, prefix, str(nr), "4"], env={**os.environ, **env}, check=True)


def entry(index, part, key):
    """The entry of a key in a part of the index, or None."""
    with rados.ReadOpCtx() as read:
        found, _ = index.get_omap_vals_by_keys(read, (key,))
        index.operate_read_op(read, part)
        return dict(found).get(key)


def parts_of(index, keys):
    """The parts of the index of the bucket that has these keys, each where the gateway keeps it; and the entry of the first."""
    buckets = {}
    for part in index.list_objects():
        buckets.setdefault(part.key.rpartition(".")[0], []).append(part.key)
    for parts in buckets.values():
        parts.sort(key=lambda part: int(part.rpartition(".")[2]))
        entries = [entry(index, parts[shard_of(key, len(parts))], key) for key in keys]
        if None not in entries and len(keys[0]) == len(name(0)):
            return parts, entries[0]
    return sys.exit("the gateway keeps the index elsewhere than was computed")


def main():
    folder, bucket, nr = sys.argv[1], sys.argv[2], int(sys.argv[3])
    said = subprocess.run([os.path.join(ROOT, "tools", "s3-server"), "env", folder], stdout=subprocess.PIPE, text=True, check=True).stdout
    env = dict(line.split("=", 1) for line in said.splitlines())
    filler = bucket.ljust(len(name(0)) - 15, "x")[:len(name(0)) - 15]  # other keys than those of other buckets
    put(env, os.environ.get("BUILD", os.path.join(ROOT, "build")), bucket, "put/" + filler, 8)
    with rados.Rados(conffile=os.path.join(folder, "ceph.conf"), name="client.admin") as cluster, \
            cluster.open_ioctx("default.rgw.buckets.index") as index:
        keys = ["put/%s%07d.bin" % (filler, i) for i in range(8)]
        parts, first = parts_of(index, keys)
        waiting = [{} for _ in parts]
        for i in range(nr):
            shard = shard_of(name(i), len(parts))
            waiting[shard][name(i)] = first.replace(keys[0].encode(), name(i).encode())
            if len(waiting[shard]) == AT_ONCE:
                write(index, parts[shard], waiting[shard])
        for part, pairs in zip(parts, waiting):
            write(index, part, pairs)


def write(index, part, pairs):
    with rados.WriteOpCtx() as op:
        index.set_omap(op, tuple(pairs), tuple(pairs.values()))
        index.operate_write_op(op, part)
    pairs.clear()


if __name__ == "__main__":
    main()
