"""Linear programmes, solved by SciPy.

SciPy takes a second to import, so it is loaded for the first programme: a cluster without a known
mix of demand never needs it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def maximize(worth: Floats, rows: Floats, limits: Floats | Sequence[float]) -> Any:
    """Maximise worth · x over x >= 0 with rows · x <= limits.

    Returns SciPy's result: `x`, `status` (0 = solved) and the duals `ineqlin.marginals` of the
    minimised -worth."""
    from scipy.optimize import linprog  # noqa: PLC0415 - see above

    return linprog(-worth, A_ub=rows, b_ub=limits, method="highs")
