from typing import Any, Optional

from ..loader import Audit

class Place:
    given: bool
    rank: int
    world_size: int
    def __init__(self, rank: Optional[int] = None, world_size: Optional[int] = None) -> None: ...
    def check(self) -> None: ...

def reduce_audit(audit: Optional[Audit], group: Any = None) -> Audit: ...
