"""A bucket that DLIO's clients ask as well, which neither sort a query nor have names sent in URL encoding."""
import re
import urllib.parse

import objects


class Bucket(objects.Objects):
    def list(self, r):
        reply = super().list(r)
        if "encoding-type" not in r.query:
            plain = lambda found: b"<Key>" + urllib.parse.unquote_to_bytes(found[1]) + b"</Key>"
            reply["body"] = re.sub(rb"<Key>(.*?)</Key>", plain, reply["body"])
        return reply


def of_others_unchecked(request, keys, check=objects.wrong_signature):
    """In place of objects.wrong_signature: only what Shoal sends is signed as strictly as that wants it."""
    return None if "s3torchconnector" in request.headers.get("User-Agent", "") else check(request, keys)
