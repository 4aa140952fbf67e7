"""Linear programmes, solved by scipy, which is loaded when the first one is asked for: it takes a
second, and a cluster whose demand is not known yet has none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def maximize(worth: Floats, rows: Floats, limits: Floats | Sequence[float]) -> Any:
    """x >= 0 that maximises worth · x where rows · x <= limits: scipy's result, with `x`, `status`
    (0 = solved) and the duals in `ineqlin.marginals` (of the minimised -worth)."""
    from scipy.optimize import linprog  # noqa: PLC0415 - see above

    return linprog(-worth, A_ub=rows, b_ub=limits, method="highs")
