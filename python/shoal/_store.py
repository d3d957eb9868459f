"""URIs of stores, and the configuration of S3."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Tuple

from . import _shoal
from ._errors import BadValueError
from ._units import Seconds, milliseconds_of


class Where(NamedTuple):
    """The kind of store that a URI or a path refers to."""

    files: bool
    objects: bool
    synthetic: bool
    etags: bool
    local: Optional[bytes]  # the path, if it has files

    @property
    def path(self) -> Optional[str]:
        return None if self.local is None else os.fsdecode(self.local)


def parse_uri(uri: Any) -> Where:
    """Accepts a str, bytes or PathLike; BadValueError if no store can have this URI."""
    return Where(*_shoal.parse_uri(os.fsencode(uri)))


def bucket_uri(bucket: str, key: str) -> str:
    """The URI of an object, or of a prefix."""
    return os.fsdecode(_shoal.bucket_uri(os.fsencode(bucket), os.fsencode(key)))


@dataclass(frozen=True)
class S3Config:
    """The server and keys of a bucket, to override the environment.

        s3 = shoal.S3Config(endpoint="https://storage:9000", access_key="...", secret_key="...")
        catalog = shoal.index("s3://bucket/train", "train.cat", s3=s3)
        loader = shoal.Loader(catalog, batch_size=256)  # reads with the catalog's configuration

    Values that are None are taken from the AWS variables and files: AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, the profile in ~/.aws and so on. Keys that are given here replace all of
    those; a profile that is named here takes precedence over keys in variables. Several
    configurations can be in use at the same time.

    A pickle contains the keys, so that workers have them; repr() and errors do not show them.

    endpoint: the server's URL, or several separated by commas, used in turn. bucket_style: the
    bucket is in the "path" or in the "virtual" host name. anonymous: send no keys. max_tries: tries
    per request. connect_timeout, timeout (without a byte received), backoff (the longest pause before
    the second try): seconds, or such as "30s" or "300ms"; the first two are rounded up to seconds.
    """

    endpoint: Optional[str] = None
    region: Optional[str] = None
    access_key: Optional[str] = field(default=None, repr=False)
    secret_key: Optional[str] = field(default=None, repr=False)
    session_token: Optional[str] = field(default=None, repr=False)
    profile: Optional[str] = None
    ca_file: Optional[str] = None
    bucket_style: Optional[str] = None
    anonymous: bool = False
    max_tries: Optional[int] = None
    connect_timeout: Optional[Seconds] = None
    timeout: Optional[Seconds] = None
    backoff: Optional[Seconds] = None

    def __post_init__(self) -> None:
        _shoal.check_config(as_tuple(self))


def _text(config: S3Config, name: str) -> Optional[str]:
    value = getattr(config, name)
    if isinstance(value, os.PathLike):
        value = os.fsdecode(value)
    if value is not None and not isinstance(value, str):  # the value is not shown: it may be a secret
        raise TypeError("%s of an S3Config must be a str, not %s" % (name, type(value).__name__))
    return value


def _count(config: S3Config, name: str) -> int:
    value = getattr(config, name)
    if value is None:
        return 0
    value = operator.index(value)
    if not 0 < value < 2**31:
        raise BadValueError(22, "%s of an S3Config must be 1 or more, not %d" % (name, value))
    return value


def _time(config: S3Config, name: str, unit: int) -> int:
    """In units of that many milliseconds, rounded up; 0: the default."""
    value = getattr(config, name)
    return 0 if value is None else -(-milliseconds_of("%s of an S3Config" % name, value) // unit)


def as_tuple(s3: Optional[S3Config]) -> Optional[Tuple[Any, ...]]:
    """The form that the C module takes."""
    if s3 is None:
        return None
    if not isinstance(s3, S3Config):  # its repr is not shown: it may contain a secret
        raise TypeError("s3 must be a shoal.S3Config, not %s" % type(s3).__name__)
    texts = ("endpoint", "region", "access_key", "secret_key", "session_token", "profile", "ca_file", "bucket_style")
    return (*(_text(s3, name) for name in texts), bool(s3.anonymous), _count(s3, "max_tries"),
            _time(s3, "connect_timeout", 1000), _time(s3, "timeout", 1000), _time(s3, "backoff", 1))
