"""Keyword arguments that a function does not have: the error names the one that was meant."""

from __future__ import annotations

import functools
from typing import Any, Callable, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

# What is said elsewhere, in torch's loaders and other tools, and the word here.
_HABITS = {
    "store": "data", "where": "data", "on_error": "keep_going", "copy": "local_copy", "names": "files_from",
    "not_names": "files_not_from", "prefix": "list_prefix", "samples": "ids", "num_replicas": "world_size", "batch": "batch_size",
    "num_workers": "workers", "overwrite": "force", "exist_ok": "force", "max_memory": "memory", "shuffle": "mode", "drop_last": "remainder",
}


def _meant(word: str, known: Any) -> str:
    if _HABITS.get(word) in known:
        return "; did you mean %s=?" % _HABITS[word]
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return "; did you mean %s=?" % near[0] if near else ""


def explained(function: F) -> F:
    """For functions that take no others than their own keywords."""
    code = function.__code__
    known = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        for word in keywords:
            if word not in known:
                name = function.__qualname__.replace(".__init__", "")
                raise TypeError("%s() has no argument %s=%s" % (name, word, _meant(word, known)))
        return function(*arguments, **keywords)

    return cast(F, call)
