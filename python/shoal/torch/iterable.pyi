from typing import Any, Callable, Dict, Iterator, Optional, Union

from torch.utils.data import IterableDataset

from ..catalog import Catalog, Path
from ..loader import Audit
from .shared import Skips

class ShoalIterable(Skips, IterableDataset[Any]):
    output: str
    transform: Optional[Callable[..., Any]]
    with_name: bool
    with_id: bool
    batch_size: int
    def __init__(
        self, catalog: Union[Catalog, Path], batch_size: int, transform: Optional[Callable[..., Any]] = None, *,
        output: str = "tensors", with_name: bool = False, with_id: bool = False, keep_going: bool = False,
        max_errors: Optional[int] = 1000, rank: Optional[int] = None, world_size: Optional[int] = None, seed: int = 0,
        shuffle: bool = True, drop_last: bool = False, remainder: Optional[str] = None, mode: Optional[str] = None,
        unit: Optional[int] = None, window: Optional[int] = None, frozen: bool = False, local_copy: Optional[Path] = None,
        num_replicas: Optional[int] = None, lanes: Optional[int] = None,
        lane_batch: Optional[int] = None, **loading: Any
    ) -> None: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def epoch(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    @property
    def seed(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def audit(self) -> Optional[Audit]: ...
    def state_dict(self, batches: Optional[int] = None) -> Dict[str, Any]: ...
    def load_state_dict(self, state: Dict[str, Any]) -> None: ...
