"""For DLIO 2.0.0 of PyPI, which imports tensorflow whatever the framework: nothing of this is used with pytorch."""
import sys
from unittest.mock import MagicMock

sys.modules[__name__] = MagicMock(name=__name__)
for name in ("python", "python.framework", "python.framework.errors"):
    sys.modules[__name__ + "." + name] = MagicMock(name=name)
