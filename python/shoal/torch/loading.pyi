from typing import Any, Dict, Generic, Iterator, TypeVar

import torch.utils.data

_T_co = TypeVar("_T_co", covariant=True)

class DataLoader(torch.utils.data.DataLoader[_T_co], Generic[_T_co]):
    def set_epoch(self, epoch: int) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...  # type: ignore[override]
    def state_dict(self) -> Dict[str, Any]: ...
    def load_state_dict(self, state: Dict[str, Any]) -> None: ...
