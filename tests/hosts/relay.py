"""A switch that delays and loses frames: relay.py DELAY LOSS SEED LINK...

Frames that arrive at a link leave at all others DELAY seconds later, but for a share of LOSS. Runs in the network namespace
of the links, in place of a bridge, where the kernel has no netem. Their senders must compute checksums themselves.
"""

import collections
import random
import select
import socket
import sys
import time

OUTGOING = 4  # the type of what this sends itself
ALL = 3  # every protocol


def main(delay, loss, seed, *links):
    delay, loss, chance = float(delay), float(loss), random.Random(int(seed))
    sockets = {}
    for link in links:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
        made.bind((link, 0))
        made.setblocking(False)
        sockets[made] = link
    waiting = collections.deque()  # all have the same delay, so the oldest is the next
    print("ready", flush=True)
    while True:
        left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
        for came in select.select(list(sockets), [], [], left)[0]:
            frame, address = came.recvfrom(1 << 17)
            if address[2] != OUTGOING and chance.random() >= loss:
                waiting.append((time.monotonic() + delay, came, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, came, frame = waiting.popleft()
            for other in sockets:
                if other is not came:
                    try:
                        other.send(frame)
                    except OSError:
                        pass  # the link is down, or full


main(*sys.argv[1:])
