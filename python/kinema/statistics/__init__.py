"""Statistics of results: means with errors, correlation, equilibration, and 2-D histograms with free energies.

`summarise` takes an analysis or a file of results, and gives a `Summary`; the estimators take values.
Public names are imported on first use.
"""

from typing import TYPE_CHECKING

from kinema.base.lazy_names import lazy_names

if TYPE_CHECKING:
    from kinema.statistics.estimators import (
        BlockError,
        CircularMoments,
        Equilibration,
        block_error,
        circular_moments,
        detect_equilibration,
        statistical_inefficiency,
    )
    from kinema.statistics.histogram import Histogram2D, histogram2d
    from kinema.statistics.saved import read_series
    from kinema.statistics.series import FrameSeries
    from kinema.statistics.summary import SeriesStatistics, Summary, summarise

__all__ = [
    "BlockError",
    "CircularMoments",
    "Equilibration",
    "FrameSeries",
    "Histogram2D",
    "SeriesStatistics",
    "Summary",
    "block_error",
    "circular_moments",
    "detect_equilibration",
    "histogram2d",
    "read_series",
    "statistical_inefficiency",
    "summarise",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "kinema.statistics.estimators": (
            "BlockError",
            "CircularMoments",
            "Equilibration",
            "block_error",
            "circular_moments",
            "detect_equilibration",
            "statistical_inefficiency",
        ),
        "kinema.statistics.histogram": ("Histogram2D", "histogram2d"),
        "kinema.statistics.saved": ("read_series",),
        "kinema.statistics.series": ("FrameSeries",),
        "kinema.statistics.summary": ("SeriesStatistics", "Summary", "summarise"),
    },
)
